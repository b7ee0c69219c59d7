//! A tenant while the server runs: its settings, which may change, its state, and its live runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::fleet::Fleet;
use super::sessions::Sessions;
use super::state::TenantState;
use super::tenants::{Quotas, Retention};
use crate::hidden::HostPaths;
use skillhost::service::Service;
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::Policy;

/// A tenant.
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) state: TenantState,
    pub(super) sessions: Sessions,
    /// Runs skills with the tenant's own state and audit log.
    pub(super) service: Service,
    /// The fleet whose workers execute its runs, and in which its usage is counted.
    pub(super) fleet: Option<Arc<dyn Fleet>>,
    settings: Mutex<Arc<TenantSettings>>,
    live: Mutex<HashMap<String, Arc<LiveRun>>>,
    pub(super) memory: MemoryQuota,
    streams: AtomicUsize,
    /// Those of all tenants together.
    all_streams: Arc<Streams>,
    /// Bytes of uploads that are not stored yet.
    pub(super) uploading: AtomicU64,
    /// Bytes of requests for programs of sessions that have not ended: they stay in memory.
    pending: AtomicU64,
    /// Places for requests that use the database.
    pub(super) requests: Arc<Semaphore>,
    /// Submitted runs that wait for their turn.
    waiting: AtomicU64,
    /// Runs whose end is not stored yet, because the store cannot be written.
    unstored: AtomicU64,
    /// Cancelled when the tenant is removed from the file.
    pub(super) removed: CancellationToken,
}

/// What the operator decides about a tenant.
pub(super) struct TenantSettings {
    pub(super) policy: Policy,
    pub(super) hidden: HostPaths,
    pub(super) quotas: Quotas,
    /// The most bytes in the folder of the tenant. In a fleet it is a cache.
    pub(super) local_storage: u64,
    pub(super) retention: Retention,
    pub(super) trust_uploads: bool,
    pub(super) cache_results: bool,
}

/// A run that has not ended.
pub(super) struct LiveRun {
    pub(super) status: watch::Sender<RunStatus>,
    pub(super) cancel: CancellationToken,
    /// Whether it was submitted; a program of a session is not.
    pub(super) is_submitted: bool,
}

/// Counts the memory of the runs of a tenant.
#[derive(Default)]
pub(super) struct MemoryQuota {
    used: Mutex<u64>,
    freed: Notify,
}

/// Memory that is counted until this value is dropped.
pub(super) struct ReservedMemory<'a> {
    quota: &'a MemoryQuota,
    bytes: u64,
}

/// How long a stream may last. Those of logs end earlier; clients continue them.
const LONGEST_STREAM: Duration = Duration::from_secs(3_600);
/// How many requests of a tenant may use its database, or list its runs in a fleet, at once; only one
/// holds the lock of the database.
const REQUESTS: usize = 2;
/// The most bytes of requests for programs of sessions that have not ended.
const PENDING: u64 = 64 << 20;

/// Bytes of a request that stays in memory, which are counted until this value is dropped.
pub(super) struct Pending {
    tenant: Arc<Tenant>,
    bytes: u64,
}

/// A submitted run that waits for its turn, which is counted until this value is dropped.
pub(super) struct Waiting(Arc<Tenant>);

/// A run whose end is not stored yet, which is counted until this value is dropped.
pub(super) struct Unstored(Arc<Tenant>);

/// A stream, or another request that holds a connection, which is counted until this value is dropped.
pub(super) struct OpenStream {
    tenant: Arc<Tenant>,
    since: Instant,
    _of_all: CountedStream,
}

impl OpenStream {
    /// Checks whether the stream may go on: its tenant is still in the file, and it is not too old.
    pub(super) fn may_continue(&self) -> bool {
        !self.tenant.removed.is_cancelled() && self.since.elapsed() < LONGEST_STREAM
    }
}

/// Counts the streams of all tenants. Each holds a connection, and tenants share the connections of the
/// server: together, their quotas may exceed them.
pub(super) struct Streams {
    open: AtomicUsize,
    most: AtomicUsize,
}

/// A stream of any tenant, which is counted until this value is dropped.
struct CountedStream(Arc<Streams>);

impl Streams {
    /// Leaves a quarter of this many connections to requests that are answered at once. A stream counts
    /// as a connection, also where several share one.
    pub(super) fn leave_room(&self, connections: usize) {
        let most = (connections.saturating_mul(3) / 4).max(1);
        self.most.store(most, Ordering::Relaxed);
    }

    fn count(self: &Arc<Streams>) -> Option<CountedStream> {
        let most = self.most.load(Ordering::Relaxed);
        let more = |open: usize| (open < most).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(CountedStream(self.clone()))
    }
}

impl Default for Streams {
    /// Any number, as long as nothing says how many connections there are.
    fn default() -> Streams {
        Streams { open: AtomicUsize::new(0), most: AtomicUsize::new(usize::MAX) }
    }
}

impl Tenant {
    pub(super) fn new(
        name: String,
        state: TenantState,
        sessions: Sessions,
        service: Service,
        fleet: Option<Arc<dyn Fleet>>,
        all_streams: Arc<Streams>,
        settings: TenantSettings,
    ) -> Tenant {
        Tenant {
            name,
            state,
            sessions,
            service,
            fleet,
            settings: Mutex::new(Arc::new(settings)),
            live: Mutex::default(),
            memory: MemoryQuota::default(),
            streams: AtomicUsize::new(0),
            all_streams,
            uploading: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            requests: Arc::new(Semaphore::new(REQUESTS)),
            waiting: AtomicU64::new(0),
            unstored: AtomicU64::new(0),
            removed: CancellationToken::new(),
        }
    }

    pub(super) fn settings(&self) -> Arc<TenantSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn change(&self, settings: TenantSettings) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Adds a run that has not ended.
    pub(super) fn add_live(&self, id: &str) -> Arc<LiveRun> {
        let live = LiveRun::queued(true);
        self.keep_live(id, &live);
        live
    }

    pub(super) fn keep_live(&self, id: &str, live: &Arc<LiveRun>) {
        self.live_runs().insert(id.to_owned(), live.clone());
    }

    pub(super) fn live(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.live_runs().get(id).cloned()
    }

    /// Removes a run that has ended, and tells those who wait for it.
    pub(super) fn remove_live(&self, id: &str, status: RunStatus) {
        if let Some(live) = self.live_runs().remove(id) {
            live.status.send_replace(status);
        }
    }

    /// Counts a submitted run that waits for its turn, until the returned value is dropped.
    pub(super) fn count_waiting(self: &Arc<Tenant>) -> Waiting {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }

    /// Returns the number of submitted runs that wait for their turn.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Counts a run whose end is not stored yet, until the returned value is dropped.
    pub(super) fn count_unstored(self: &Arc<Tenant>) -> Unstored {
        self.unstored.fetch_add(1, Ordering::Relaxed);
        Unstored(self.clone())
    }

    /// Checks whether a run has an end that is not stored yet.
    pub(super) fn has_unstored(&self) -> bool {
        self.unstored.load(Ordering::Relaxed) > 0
    }

    /// Returns the runs in progress.
    pub(super) fn running(&self) -> usize {
        let is_running = |live: &&Arc<LiveRun>| *live.status.borrow() == RunStatus::Running;
        self.live_runs().values().filter(is_running).count()
    }

    /// Cancels every run.
    pub(super) fn cancel_all(&self) {
        self.live_runs().values().for_each(|live| live.cancel.cancel());
    }

    fn live_runs(&self) -> MutexGuard<'_, HashMap<String, Arc<LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes of a request that stays in memory, unless they would be too many.
    pub(super) fn hold_pending(self: &Arc<Tenant>, bytes: u64) -> Option<Pending> {
        let more = |held: u64| held.checked_add(bytes).filter(|held| *held <= PENDING);
        self.pending.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Pending { tenant: self.clone(), bytes })
    }

    /// Counts a stream, unless the tenant has too many, or all tenants together.
    pub(super) fn open_stream(self: &Arc<Tenant>) -> Option<OpenStream> {
        let of_all = self.all_streams.count()?;
        let most = self.settings().quotas.streams;
        let more = |open: usize| (open < most).then_some(open + 1);
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(OpenStream { tenant: self.clone(), since: Instant::now(), _of_all: of_all })
    }
}

impl LiveRun {
    pub(super) fn queued(is_submitted: bool) -> Arc<LiveRun> {
        let status = watch::Sender::new(RunStatus::Queued);
        Arc::new(LiveRun { status, cancel: CancellationToken::new(), is_submitted })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.tenant.pending.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Unstored {
    fn drop(&mut self) {
        self.0.unstored.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.tenant.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MemoryQuota {
    /// Waits until this much is free. `None` if it never will be.
    pub(super) async fn reserve(&self, bytes: u64, quota: u64) -> Option<ReservedMemory<'_>> {
        if bytes > quota {
            return None;
        }
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            {
                let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
                if used.saturating_add(bytes) <= quota {
                    *used += bytes;
                    return Some(ReservedMemory { quota: self, bytes });
                }
            }
            freed.await;
        }
    }
}

impl Drop for ReservedMemory<'_> {
    fn drop(&mut self) {
        *self.quota.used.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.quota.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn streams_leave_a_quarter_of_the_connections() {
        for (connections, most) in [(0, 1), (1, 1), (2, 1), (4, 3), (8, 6), (256, 192)] {
            let streams = Arc::new(Streams::default());
            streams.leave_room(connections);
            let open: Vec<CountedStream> = std::iter::from_fn(|| streams.count()).collect();
            assert_eq!(open.len(), most, "{connections}");
            drop(open);
            assert!(streams.count().is_some());
        }
    }

    #[test]
    fn memory_is_reserved_up_to_the_quota() {
        let memory = MemoryQuota::default();
        let half = memory.reserve(5, 10).now_or_never().unwrap();
        let mut other = Box::pin(memory.reserve(6, 10));
        assert!(half.is_some() && other.as_mut().now_or_never().is_none());
        assert!(memory.reserve(11, 10).now_or_never().unwrap().is_none(), "never enough");
        drop(half);
        assert!(other.as_mut().now_or_never().unwrap().is_some());
    }
}
