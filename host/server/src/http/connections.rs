//! Limits the connections of a server. If all are in use, the one that has been idle longest is
//! closed to make room.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// A limited set of connections.
pub(super) struct Connections {
    room: Arc<Semaphore>,
    open: Mutex<Vec<Weak<Connection>>>,
    /// Notified when a connection becomes idle or ends.
    changed: Arc<Notify>,
}

/// A connection, which exists as long as its task.
pub(super) struct Connection {
    state: Mutex<ConnectionState>,
    evicted: CancellationToken,
    changed: Arc<Notify>,
    /// Released when this value is dropped.
    place: Option<OwnedSemaphorePermit>,
}

struct ConnectionState {
    /// The number of requests being answered.
    requests: usize,
    idle_since: Instant,
}

/// A request being answered. Its connection is not idle in the meantime.
pub(super) struct InFlight(Arc<Connection>);

impl Connections {
    pub(super) fn new(limit: usize) -> Connections {
        Connections {
            room: Arc::new(Semaphore::new(limit)),
            open: Mutex::default(),
            changed: Arc::default(),
        }
    }

    /// Waits for room for a new connection. Closes an idle connection if necessary, and waits while
    /// all connections are busy.
    pub(super) async fn admit(&self) -> Arc<Connection> {
        loop {
            // Created before looking, so that no change is missed.
            let changed = self.changed.notified();
            if let Ok(place) = self.room.clone().try_acquire_owned() {
                return self.enter(place);
            }
            self.evict();
            changed.await;
        }
    }

    fn enter(&self, place: OwnedSemaphorePermit) -> Arc<Connection> {
        let state = Mutex::new(ConnectionState { requests: 0, idle_since: Instant::now() });
        let connection = Connection {
            state,
            evicted: CancellationToken::new(),
            changed: self.changed.clone(),
            place: Some(place),
        };
        let connection = Arc::new(connection);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| connection.strong_count() > 0);
        open.push(Arc::downgrade(&connection));
        connection
    }

    /// Asks the connection that has been idle longest to end, unless one was asked already and has
    /// not ended.
    fn evict(&self) {
        let open: Vec<_> = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        if open.iter().any(|connection| connection.evicted.is_cancelled()) {
            return;
        }
        let idle =
            open.iter().filter_map(|connection| Some((connection.idle_since()?, connection)));
        if let Some((_, connection)) = idle.min_by_key(|(since, _)| *since) {
            connection.evicted.cancel();
        }
    }
}

impl Connection {
    /// Marks a request as being answered until the result is dropped.
    pub(super) fn request(self: &Arc<Connection>) -> InFlight {
        self.state().requests += 1;
        InFlight(self.clone())
    }

    /// Resolves when the connection must end and answers no request.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
        loop {
            let changed = self.changed.notified();
            if self.idle_since().is_some() {
                return;
            }
            changed.await;
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.requests == 0).then_some(state.idle_since)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.idle_since = Instant::now();
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.place.take());
        self.changed.notify_waiters();
    }
}
