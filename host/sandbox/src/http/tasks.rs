//! The background work of one exchange: ended with its owner, and at the deadline whatever happens.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::exchange::Exchange;
use skillhost_policy::limits::Limit;

/// Owns the tasks: dropping it aborts them all, and those they would still start.
#[derive(Debug)]
pub(super) struct Tasks(Set);

/// Starts tasks that belong to one [`Tasks`]. Held by the tasks themselves (HTTP/2 starts more as
/// it goes), so it owns none of them.
#[derive(Clone)]
pub(super) struct Spawner {
    set: Set,
    exchange: Arc<Exchange>,
    /// One turn of the concurrency limit, given back when the last task has ended.
    _turn: Arc<OwnedSemaphorePermit>,
}

type Set = Arc<Mutex<Option<JoinSet<()>>>>;

impl Tasks {
    pub(super) fn new(exchange: Arc<Exchange>, turn: OwnedSemaphorePermit) -> (Tasks, Spawner) {
        let set: Set = Arc::new(Mutex::new(Some(JoinSet::new())));
        (Tasks(set.clone()), Spawner { set, exchange, _turn: Arc::new(turn) })
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // The set is dropped after the lock is given back: a task that ends by it may be starting
        // another.
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
            // Alive until the failure is noted: the bodies would take its end for the server's.
            let mut work = std::pin::pin!(work);
            if tokio::time::timeout_at(this.exchange.deadline, work.as_mut()).await.is_err() {
                this.exchange.fail(this.exchange.over(Limit::HttpTotal));
            }
        };
        if let Some(set) = self.set.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            set.spawn(bounded);
        }
    }
}
