//! What a store holds beside the guest, and the views that the host interfaces take of it.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::files::FsView;
use super::http::hooks::Hooks;
use super::invocation::Invocation;
use super::meter::StoreMeter;
use super::random::RandomView;

/// One store's data: one program's.
pub(super) struct State {
    pub(super) invocation: Arc<Invocation>,
    /// With fuel, a program has one program at a time that it started, so that what that one burns is taken from it exactly.
    pub(super) fuel_turn: Arc<tokio::sync::Mutex<()>>,
    /// 0 for the program that was asked for, one more for each that it starts.
    pub(super) depth: u64,
    /// The program's environment and working directory, which the programs that it starts inherit.
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: String,
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
        RandomView { meter: &self.invocation.meter }
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
