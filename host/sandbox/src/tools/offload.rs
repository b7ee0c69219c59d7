//! Work on a guest's data whose length the guest chooses: on a thread beside the event loop, and
//! ended when nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::task::JoinError;

use crate::run::Invocation;

/// Runs work on a thread of its own. The work looks at the flag now and then; the flag is set when
/// this future is dropped.
pub(crate) async fn cancellable<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, JoinError> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let _cancel = CancelOnDrop(cancelled.clone());
    tokio::task::spawn_blocking(move || work(&cancelled)).await
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Invocation {
    /// The same for a run: its deadline and its interruption end the work. The programs of a
    /// deterministic run wait meanwhile.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> wasmtime::Result<T> {
        let work = cancellable(work);
        match &self.fixed {
            None => Ok(work.await?),
            Some(fixed) => match fixed.hold(&self.meter, work) {
                Some(result) => Ok(result?),
                None => wasmtime::bail!("the run was aborted"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_wait_ends_the_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let work = cancellable(move |cancelled| {
            started.send(()).unwrap();
            while !cancelled.load(Relaxed) {
                std::thread::yield_now();
            }
        });
        runtime.block_on(async {
            tokio::select! {
                _ = work => panic!("nobody ended it"),
                started = has_started => started.unwrap(),
            }
        });
        // Waits for the thread: it would hang here.
        drop(runtime);
    }
}
