//! Wakers of the tasks that wait for one event. A task that stops waiting leaves nothing behind: a
//! guest may wait any number of times for an event that never happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// An event that tasks can wait for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiters(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue(Mutex<Parked>);

#[derive(Debug, Default)]
struct Parked {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Returns a place to wait in, which has one waker at a time.
    pub(crate) fn place(&self) -> Place {
        Place { queue: self.0.clone(), key: None }
    }

    /// Wakes all. The caller must hold no lock that a woken or dropped task might take.
    pub(crate) fn wake_all(&self) {
        self.0.wake_all();
    }

    /// Returns a waker that wakes all, for sources that support only one.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }
}

impl Queue {
    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut self.parked().wakers);
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Wake for Queue {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

/// The place of one waiter.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    key: Option<u64>,
}

impl Place {
    /// Registers the waker of `cx`, for the next `wake_all`.
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        let mut parked = self.queue.parked();
        let key = *self.key.get_or_insert_with(|| {
            parked.next += 1;
            parked.next
        });
        let before = parked.wakers.insert(key, cx.waker().clone());
        // Drop the old waker without the lock: dropping its task may call this again.
        drop(parked);
        drop(before);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let gone = self.queue.parked().wakers.remove(&key);
            drop(gone);
        }
    }
}
