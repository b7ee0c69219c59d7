//! What a store holds beside the guest, and the views that the host interfaces take of it.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::children::Children;
use super::files::FsView;
use super::fuel::Cost;
use super::http::hooks::Hooks;
use super::invocation::Invocation;
use super::meter::StoreMeter;
use super::random::{RandomView, Source};
use super::stdio::{Input, Out};
use super::turns::Turn;

/// One store's data: one program's.
pub(super) struct State {
    pub(super) invocation: Arc<Invocation>,
    /// What the store's count stood at when it was last looked at; only where fuel is counted.
    pub(super) fuel: u64,
    pub(super) cost: Arc<Cost>,
    /// Only of a deterministic run.
    pub(super) turn: Option<Turn>,
    pub(super) chance: Source,
    /// 0 for the program that was asked for, one more for each that it starts.
    pub(super) depth: u64,
    /// The program's environment, working directory and streams, which the programs that it starts
    /// inherit.
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: String,
    pub(super) stdin: Input,
    pub(super) stdout: Out,
    pub(super) stderr: Out,
    pub(super) children: Children,
    pub(super) meter: StoreMeter,
    pub(super) table: ResourceTable,
    pub(super) wasi: WasiCtx,
    pub(super) http: WasiHttpCtx,
    pub(super) hooks: Hooks,
}

impl State {
    pub(super) fn files(&mut self) -> FsView<'_> {
        FsView { vfs: &self.invocation.vfs, table: &mut self.table }
    }

    pub(super) fn random(&mut self) -> RandomView<'_> {
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
