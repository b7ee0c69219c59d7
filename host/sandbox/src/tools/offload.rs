//! Runs work on a guest's data whose duration the guest influences: on a thread outside of the
//! event loop, cancelled when its caller is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::task::JoinError;

use crate::determinism::DeterministicRun;
use crate::limits::{HostMemory, Meter};

/// Runs work on a separate thread. The work must check the flag regularly; it is set when this
/// future is dropped.
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

/// The host's work on the data of one run's guests: its memory is charged to the run, and it ends
/// with the run.
#[derive(Clone)]
pub(crate) struct HostWork {
    pub(crate) meter: Arc<Meter>,
    pub(crate) deterministic: Option<Arc<DeterministicRun>>,
}

impl HostWork {
    /// Memory of the run, nothing of it charged yet.
    pub(super) fn memory(&self) -> HostMemory {
        HostMemory::new(self.meter.clone())
    }

    /// Runs work that ends with the run. The programs of a deterministic run wait meanwhile.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> wasmtime::Result<T> {
        let work = cancellable(work);
        match &self.deterministic {
            None => Ok(work.await?),
            Some(deterministic) => match deterministic.hold(work) {
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
    fn dropping_the_future_cancels_the_work() {
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
                _ = work => panic!("the work was not interrupted"),
                started = has_started => started.unwrap(),
            }
        });
        // This waits for the thread: it would hang if the work continued.
        drop(runtime);
    }
}
