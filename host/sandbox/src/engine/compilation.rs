//! Reports compilations to callers that want to show that they take time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::config::Mode;
use skillhost_skill::runtime::Component;

/// A compilation that starts or has ended.
#[derive(Debug, Clone, Copy)]
pub struct Compilation<'a> {
    /// What is compiled.
    pub component: &'a Component,
    /// The mode that it is compiled for.
    pub mode: Mode,
    /// Whether it starts or has ended.
    pub stage: CompilationStage,
}

/// The stages of a [`Compilation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompilationStage {
    /// It starts.
    Started,
    /// It ended, with or without success, after this time.
    Ended(Duration),
}

type Watch = dyn Fn(&Compilation<'_>) + Send + Sync;

/// What is called at each stage; nothing by default.
#[derive(Default)]
pub(super) struct CompilationWatch(OnceLock<Box<Watch>>);

/// Reports the end of a compilation when it is dropped, also if that was interrupted.
pub(super) struct WatchedCompilation<'a> {
    watch: &'a Watch,
    component: &'a Component,
    mode: Mode,
    start: Instant,
}

impl CompilationWatch {
    /// Sets what is called. Only the first call counts.
    pub(super) fn set(&self, watch: impl Fn(&Compilation<'_>) + Send + Sync + 'static) {
        // A second watch is ignored.
        let _ = self.0.set(Box::new(watch));
    }

    /// Reports the start of a compilation.
    pub(super) fn start<'a>(
        &'a self,
        component: &'a Component,
        mode: Mode,
    ) -> Option<WatchedCompilation<'a>> {
        let watch = &**self.0.get()?;
        let watched = WatchedCompilation { watch, component, mode, start: Instant::now() };
        watched.report(CompilationStage::Started);
        Some(watched)
    }
}

impl WatchedCompilation<'_> {
    fn report(&self, stage: CompilationStage) {
        (self.watch)(&Compilation { component: self.component, mode: self.mode, stage });
    }
}

impl Drop for WatchedCompilation<'_> {
    fn drop(&mut self) {
        self.report(CompilationStage::Ended(self.start.elapsed()));
    }
}
