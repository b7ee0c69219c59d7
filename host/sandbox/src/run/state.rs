//! The data of a program's store, and the views that the interfaces of the host take of it.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::invocation::Invocation;
use crate::determinism::randomness::{RandomSource, RandomView};
use crate::determinism::wasi_clocks::HasClock;
use crate::determinism::{Clock, Turn};
use crate::files::FsView;
use crate::http::hooks::Hooks;
use crate::limits::StoreMeter;
use crate::limits::fuel::{Fuel, HasFuel};
use crate::process::{Parent, ProcessView};
use crate::python::{HasLines, Lines, UsageView, WebView};
use crate::scripts::ScriptsView;

/// The data of one store, which runs one program.
pub(super) struct State {
    pub(super) invocation: Arc<Invocation>,
    pub(super) fuel: Fuel,
    /// `None` if the run is not deterministic.
    pub(super) turn: Option<Turn>,
    pub(super) randomness: RandomSource,
    pub(super) parent: Parent,
    pub(super) lines: Lines,
    pub(super) meter: StoreMeter,
    pub(super) table: ResourceTable,
    pub(super) wasi: WasiCtx,
    pub(super) http: WasiHttpCtx,
    pub(super) hooks: Hooks,
}

impl State {
    pub(super) fn files(&mut self) -> FsView<'_> {
        FsView { vfs: &self.invocation.files, table: &mut self.table }
    }

    pub(super) fn random(&mut self) -> RandomView<'_> {
        RandomView { meter: &self.invocation.meter, source: &mut self.randomness }
    }

    pub(super) fn process(&mut self) -> ProcessView<'_> {
        ProcessView {
            processes: &self.invocation.processes,
            parent: &mut self.parent,
            table: &mut self.table,
        }
    }

    pub(super) fn scripts(&mut self) -> ScriptsView<'_> {
        ScriptsView { scripts: &self.invocation.scripts, compiler: &*self.invocation }
    }

    pub(super) fn usage(&mut self) -> UsageView<'_> {
        UsageView { meter: &self.meter, files: &self.invocation.files }
    }

    pub(super) fn web(&mut self) -> WebView<'_> {
        WebView { sender: &self.invocation.sender, table: &mut self.table }
    }
}

impl HasFuel for State {
    fn fuel(&mut self) -> &mut Fuel {
        &mut self.fuel
    }

    fn note_burnt(&self, fuel: u64) {
        if let Some(deterministic) = &self.invocation.deterministic {
            deterministic.clock().burnt(fuel);
        }
    }
}

impl HasLines for State {
    fn lines(&self) -> &Lines {
        &self.lines
    }

    fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }
}

impl HasClock for State {
    fn clock(&self) -> Option<&Arc<Clock>> {
        self.invocation.deterministic.as_ref().map(|deterministic| deterministic.clock())
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
