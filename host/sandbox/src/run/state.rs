//! What a store holds beside the guest, and the views that the host interfaces take of it.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::invocation::Invocation;
use crate::determinism::randomness::{RandomView, Source};
use crate::determinism::turns::Turn;
use crate::files::FsView;
use crate::http::hooks::Hooks;
use crate::limits::StoreMeter;
use crate::limits::fuel::Cost;
use crate::process::Children;
use crate::streams::{Input, Out};

/// One store's data: one program's.
pub(crate) struct State {
    pub(crate) invocation: Arc<Invocation>,
    /// What the store's count stood at when it was last looked at; only where fuel is counted.
    pub(crate) fuel: u64,
    pub(crate) cost: Arc<Cost>,
    /// Only of a deterministic run.
    pub(crate) turn: Option<Turn>,
    pub(crate) chance: Source,
    /// 0 for the program that was asked for, one more for each that it starts.
    pub(crate) depth: u64,
    /// The program's environment, working directory and streams, which the programs that it starts
    /// inherit.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) stdin: Input,
    pub(crate) stdout: Out,
    pub(crate) stderr: Out,
    pub(crate) children: Children,
    pub(crate) meter: StoreMeter,
    pub(crate) table: ResourceTable,
    pub(crate) wasi: WasiCtx,
    pub(crate) http: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl State {
    pub(crate) fn files(&mut self) -> FsView<'_> {
        FsView { vfs: &self.invocation.vfs, table: &mut self.table }
    }

    pub(crate) fn random(&mut self) -> RandomView<'_> {
        RandomView { meter: &self.invocation.meter, source: &mut self.chance }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.http }
    }
}
