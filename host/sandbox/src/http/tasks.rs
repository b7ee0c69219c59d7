//! The background tasks of one exchange: they end with their owner, and at the deadline in any
//! case.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::exchange::Exchange;
use skillhost_policy::limits::Limit;

/// Owns the tasks: dropping it aborts them, and prevents new ones.
#[derive(Debug)]
pub(super) struct Tasks(Set);

/// Starts tasks that belong to one [`Tasks`]. The tasks hold it themselves (HTTP/2 starts more of
/// them), so it owns none of them.
#[derive(Clone)]
pub(super) struct Spawner {
    set: Set,
    exchange: Arc<Exchange>,
    /// One slot of the concurrency limit, released when the last task has ended.
    _slot: Arc<OwnedSemaphorePermit>,
}

type Set = Arc<Mutex<Option<JoinSet<()>>>>;

impl Tasks {
    pub(super) fn new(exchange: Arc<Exchange>, slot: OwnedSemaphorePermit) -> (Tasks, Spawner) {
        let set: Set = Arc::new(Mutex::new(Some(JoinSet::new())));
        (Tasks(set.clone()), Spawner { set, exchange, _slot: Arc::new(slot) })
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // Drops the set after the lock is released: a task that it ends may be starting another.
        let set = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(set);
    }
}

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, work: F) {
        let this = self.clone();
        let bounded = async move {
            // Kept alive until the failure is recorded: otherwise the bodies would report the end
            // of the connection first.
            let mut work = std::pin::pin!(work);
            if tokio::time::timeout_at(this.exchange.deadline, work.as_mut()).await.is_err() {
                this.exchange.fail(this.exchange.limit_error(Limit::HttpTotal));
            }
        };
        if let Some(set) = self.set.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            set.spawn(bounded);
        }
    }
}
