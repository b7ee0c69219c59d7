//! Writes the counts of sessions to the file, on a background thread that starts with the first
//! event.
//!
//! The queue is bounded: it contains each session once, and the session adds up its counts until
//! its turn. A call waits for a lock that is held for additions only, never for the file.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::store::UsageStore;
use super::tally::Tally;

/// How long to collect counts between two writes.
const PAUSE: Duration = Duration::from_millis(200);

/// The background writer.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    store: UsageStore,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Tally>>,
    started: bool,
    closed: bool,
}

impl Writer {
    pub(super) fn new(store: UsageStore) -> Writer {
        Writer {
            shared: Arc::new(Shared { store, queue: Mutex::default(), changed: Condvar::new() }),
            thread: Mutex::default(),
        }
    }

    pub(super) fn store(&self) -> &UsageStore {
        &self.shared.store
    }

    /// Queues a session that has counts to write.
    pub(super) fn changed(&self, tally: &Arc<Tally>) {
        let mut queue = self.shared.queue();
        if queue.closed {
            return;
        }
        if !queue.waiting.iter().any(|waiting| Arc::ptr_eq(waiting, tally)) {
            queue.waiting.push(tally.clone());
        }
        if !queue.started {
            queue.started = true;
            let shared = self.shared.clone();
            match std::thread::Builder::new().name("usage".into()).spawn(move || shared.run()) {
                Ok(thread) => {
                    *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread)
                }
                // They are written when the server ends.
                Err(error) => tracing::warn!(%error, "cannot start the thread that writes usage"),
            }
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// Writes everything in the queue, and stops the thread.
    pub(super) fn close(&self) {
        self.shared.queue().closed = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread that writes usage panicked");
        }
        self.shared.write(&self.shared.taken());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut queue = self.queue();
            while queue.waiting.is_empty() && !queue.closed {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let batch = std::mem::take(&mut queue.waiting);
            drop(queue);
            self.write(&batch);
            let queue = self.queue();
            if queue.closed && queue.waiting.is_empty() {
                return;
            }
            // Ends at once if the writer is closed.
            let paused = self.changed.wait_timeout_while(queue, PAUSE, |queue| !queue.closed);
            drop(paused.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn write(&self, batch: &[Arc<Tally>]) {
        for tally in batch {
            let Some((row, counted)) = tally.take() else { continue };
            match self.store.add(row, &counted) {
                Ok(row) => tally.written(row),
                Err(error) => {
                    // Retried with the next counts.
                    tracing::warn!(%error, "cannot write usage; trying again");
                    tally.put_back(counted);
                }
            }
        }
    }

    fn taken(&self) -> Vec<Arc<Tally>> {
        std::mem::take(&mut self.queue().waiting)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use jiff::Timestamp;

    use super::super::UsageRecorder;
    use super::super::tally::UsageEvent;
    use super::*;

    #[test]
    fn counts_are_written_once_the_file_is_writable() {
        let folder = tempfile::tempdir().unwrap();
        let (state, file) = (folder.path().join("state"), folder.path().join("state/usage.db"));
        // A file in place of the folder.
        std::fs::File::create_new(&state).unwrap();
        let store = UsageStore::at(&file);
        let usage = UsageRecorder::new(store.clone());
        let session = usage.session(|| 1);
        session.count("a", || 1, UsageEvent::Read);
        std::thread::sleep(PAUSE);
        std::fs::remove_file(&state).unwrap();
        session.count("a", || 1, UsageEvent::Read);
        drop((session, usage));
        let used = store.used(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            used.iter().map(|(_, skill, counts)| (skill.as_str(), counts.read)).collect::<Vec<_>>(),
            [("a", 2)]
        );
    }

    #[test]
    fn concurrent_sessions_lose_no_counts() {
        let folder = tempfile::tempdir().unwrap();
        let store = UsageStore::at(&folder.path().join("usage.db"));
        let usage = UsageRecorder::new(store.clone());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let session = usage.session(|| 1);
                    (0..500).for_each(|_| session.count("a", || 1, UsageEvent::Read));
                });
            }
        });
        usage.close();
        usage.session(|| 1).count("late", || 1, UsageEvent::Read);
        let used = store.used(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(used.iter().map(|(_, _, counts)| counts.read).collect::<Vec<_>>(), [500; 8]);
    }
}
