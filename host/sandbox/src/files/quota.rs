//! Counts what an invocation uses: bytes and files against their limits, open handles, and accounts
//! of each path.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::account::{Account, FileUsage};
use super::{beneath, lock};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::FileActivity;

/// Paths that have an account of their own in one invocation; further ones count only in the
/// totals.
const TOUCHED_MAX: usize = 10_000;

/// Bytes of directory entries (each name plus 64) held for guests at once: sorted listings are held
/// whole, and a guest may leave thousands of them half-read.
const LISTED_MAX: u64 = 64 << 20;

/// The usage of one invocation, and its limits. Locks are taken in this order: tree, inode state,
/// counters; no `Inode` is dropped while the counters are locked.
#[derive(Debug)]
pub(super) struct Quota {
    disk_max: u64,
    /// The limit that `disk_max` comes from.
    full: Limit,
    files_max: u64,
    handles_max: u64,
    read: AtomicU64,
    written: AtomicU64,
    handles: AtomicU64,
    listed: AtomicU64,
    /// Changes to the content of files.
    changes: AtomicU64,
    counters: Mutex<Counters>,
    /// The first error of the host that a guest received.
    failure: OnceLock<Errno>,
    /// What bytes, files and inodes count towards, if other runs share them. The rest is this run's.
    pool: Option<Arc<Quota>>,
}

#[derive(Debug, Default)]
struct Counters {
    bytes: u64,
    /// Files and folders created, minus those removed.
    files: u64,
    created: u64,
    hit: Option<Limit>,
    /// The open files in writable storage, by device and inode.
    inodes: HashMap<(u64, u64), Weak<Inode>>,
    touched: BTreeMap<String, Arc<Account>>,
}

impl Quota {
    pub(super) fn new(limits: &Limits) -> Arc<Quota> {
        Quota::with_counters(limits, limits.disk, Limit::Disk, Counters::default(), None)
    }

    /// Creates the quota of `/state`, of which `bytes` and `files` are already in use.
    pub(super) fn for_state(limits: &Limits, bytes: u64, files: u64) -> Arc<Quota> {
        Quota::with_counters(
            limits,
            limits.state,
            Limit::State,
            Counters { bytes, files, ..Counters::default() },
            None,
        )
    }

    /// Creates the quota of a `/tmp` in memory.
    pub(super) fn for_tmp(limits: &Limits, bytes: u64) -> Arc<Quota> {
        Quota::with_counters(limits, bytes, Limit::Tmp, Counters::default(), None)
    }

    /// Creates the quota of a session, which its runs share.
    pub(super) fn of_session(limits: &Limits, bytes: u64, files: u64) -> Arc<Quota> {
        let counters = Counters { bytes, files, ..Counters::default() };
        Quota::with_counters(limits, limits.disk, Limit::Disk, counters, None)
    }

    /// Creates the quota of a run whose files count towards that of its session.
    pub(super) fn in_pool(limits: &Limits, pool: Arc<Quota>) -> Arc<Quota> {
        Quota::with_counters(limits, limits.disk, Limit::Disk, Counters::default(), Some(pool))
    }

    fn with_counters(
        limits: &Limits,
        disk_max: u64,
        full: Limit,
        counters: Counters,
        pool: Option<Arc<Quota>>,
    ) -> Arc<Quota> {
        Arc::new(Quota {
            disk_max,
            full,
            files_max: limits.files,
            handles_max: limits.handles,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            counters: Mutex::new(counters),
            failure: OnceLock::new(),
            pool,
        })
    }

    pub(super) fn usage(&self) -> FileUsage {
        let counters = lock(&self.counters);
        FileUsage {
            bytes_read: self.read.load(Relaxed),
            bytes_written: self.written.load(Relaxed),
            files_created: counters.created,
            disk: counters.bytes,
        }
    }

    /// Notes an error that the host caused, not the guest: a problem with its disk, memory or file
    /// table.
    pub(super) fn note_failure(&self, error: Errno) {
        if matches!(
            error,
            Errno::NOSPC
                | Errno::DQUOT
                | Errno::IO
                | Errno::NFILE
                | Errno::MFILE
                | Errno::NOMEM
                | Errno::STALE
        ) {
            self.failure.get_or_init(|| error);
        }
    }

    /// Returns the first error that the host caused.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.failure.get().copied()
    }

    /// Returns the first limit that was hit.
    pub(super) fn hit(&self) -> Option<Limit> {
        lock(&self.counters).hit
    }

    /// Notes that a write did not fit.
    pub(super) fn note_full(&self) {
        self.note_hit(self.full);
    }

    pub(super) fn note_hit(&self, limit: Limit) {
        lock(&self.counters).hit.get_or_insert(limit);
    }

    /// Charges up to `bytes`, and returns how many were charged.
    pub(super) fn charge(&self, bytes: u64) -> u64 {
        if let Some(pool) = &self.pool {
            let granted = pool.charge(bytes);
            if granted < bytes {
                self.note_full();
            }
            return granted;
        }
        let mut counters = lock(&self.counters);
        let granted = bytes.min(self.disk_max.saturating_sub(counters.bytes));
        counters.bytes += granted;
        if granted < bytes {
            counters.hit.get_or_insert(self.full);
        }
        granted
    }

    /// Charges all of `bytes`, or none.
    pub(super) fn charge_all(&self, bytes: u64) -> Result<(), Errno> {
        let granted = self.charge(bytes);
        if granted == bytes {
            return Ok(());
        }
        self.refund(granted);
        Err(Errno::NOSPC)
    }

    pub(super) fn refund(&self, bytes: u64) {
        if let Some(pool) = &self.pool {
            return pool.refund(bytes);
        }
        if bytes > 0 {
            let mut counters = lock(&self.counters);
            counters.bytes = counters.bytes.saturating_sub(bytes);
        }
    }

    pub(super) fn bytes_left(&self) -> u64 {
        match &self.pool {
            Some(pool) => pool.bytes_left(),
            None => self.disk_max.saturating_sub(lock(&self.counters).bytes),
        }
    }

    /// Charges one file or folder.
    pub(super) fn charge_file(&self) -> Result<(), Errno> {
        if let Some(pool) = &self.pool {
            pool.charge_file().inspect_err(|_| self.note_hit(Limit::Files))?;
            lock(&self.counters).created += 1;
            return Ok(());
        }
        let mut counters = lock(&self.counters);
        if counters.files >= self.files_max {
            counters.hit.get_or_insert(Limit::Files);
            return Err(Errno::NOSPC);
        }
        counters.files += 1;
        counters.created += 1;
        Ok(())
    }

    /// Takes back the charge for a file that could not be created.
    pub(super) fn undo_file_charge(&self, error: Errno) {
        self.note_failure(error);
        if let Some(pool) = &self.pool {
            pool.undo_file_charge(error);
        }
        let mut counters = lock(&self.counters);
        counters.files = counters.files.saturating_sub(1);
        counters.created = counters.created.saturating_sub(1);
    }

    /// Refunds what a removed name occupied, now or when the last handle closes. `created` says
    /// whether it was charged as a new file.
    pub(super) fn release(&self, stat: &Stat, created: bool) {
        if let Some(pool) = &self.pool {
            return pool.release(stat, created);
        }
        // If the file has another name, the bytes stay in use.
        let has_bytes = matches!(beneath::kind(stat), FileType::RegularFile | FileType::Symlink);
        let bytes = has_bytes && stat.st_nlink == 1;
        let open = if bytes { self.open_inode(key(stat)) } else { None };
        if let Some(inode) = open {
            lock(&inode.state).refund_files = Some(u64::from(created));
            return;
        }
        let mut counters = lock(&self.counters);
        counters.files = counters.files.saturating_sub(u64::from(created));
        if bytes {
            counters.bytes = counters.bytes.saturating_sub(beneath::size(stat));
        }
    }

    /// Returns the shared state of an open file in writable storage.
    pub(super) fn inode(self: &Arc<Self>, stat: &Stat) -> Arc<Inode> {
        if let Some(pool) = &self.pool {
            return pool.inode(stat);
        }
        let key = key(stat);
        let mut counters = lock(&self.counters);
        if let Some(inode) = counters.inodes.get(&key).and_then(Weak::upgrade) {
            return inode;
        }
        let state = InodeState { size: beneath::size(stat), refund_files: None };
        let inode = Arc::new(Inode { key, state: Mutex::new(state), quota: self.clone() });
        counters.inodes.insert(key, Arc::downgrade(&inode));
        inode
    }

    fn open_inode(&self, key: (u64, u64)) -> Option<Arc<Inode>> {
        lock(&self.counters).inodes.get(&key).and_then(Weak::upgrade)
    }

    /// Counts an open handle until the slot is dropped.
    pub(super) fn acquire_slot(self: &Arc<Self>) -> Result<HandleSlot, Errno> {
        if self.handles.fetch_add(1, Relaxed) >= self.handles_max {
            self.handles.fetch_sub(1, Relaxed);
            self.note_hit(Limit::Handles);
            return Err(Errno::MFILE);
        }
        Ok(HandleSlot { listed: 0, quota: self.clone() })
    }

    pub(super) fn count_read(&self, account: &Account, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
        account.read.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes that the content of a file has changed.
    pub(super) fn note_change(&self) {
        let counting = self.pool.as_deref().unwrap_or(self);
        counting.changes.fetch_add(1, Relaxed);
    }

    /// Returns the number of changes to the content of files.
    pub(super) fn changes(&self) -> u64 {
        self.pool.as_deref().unwrap_or(self).changes.load(Relaxed)
    }

    pub(super) fn count_written(&self, account: &Account, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
        account.written.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the account of a guest path, or a discarded one if there are too many.
    pub(super) fn account(&self, path: String) -> Arc<Account> {
        let mut counters = lock(&self.counters);
        if counters.touched.len() >= TOUCHED_MAX && !counters.touched.contains_key(&path) {
            return Arc::default();
        }
        counters.touched.entry(path).or_default().clone()
    }

    /// Returns the accounts so far, without files that were only opened.
    pub(super) fn touched(&self) -> BTreeMap<String, FileActivity> {
        let counters = lock(&self.counters);
        let accounts =
            counters.touched.iter().map(|(path, account)| (path.clone(), account.snapshot()));
        accounts.filter(|(_, touched)| *touched != FileActivity::default()).collect()
    }
}

fn key(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// An open file in writable storage, shared by all its handles, which must agree on the size that
/// the quota counts.
#[derive(Debug)]
pub(super) struct Inode {
    key: (u64, u64),
    pub(super) state: Mutex<InodeState>,
    quota: Arc<Quota>,
}

#[derive(Debug)]
pub(super) struct InodeState {
    pub(super) size: u64,
    /// Set once the name is removed: when the last handle closes, the size and this many files are
    /// refunded.
    refund_files: Option<u64>,
}

impl Drop for Inode {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut counters = lock(&self.quota.counters);
        // A new inode may have been registered under the key while this one waited for the lock.
        if counters.inodes.get(&self.key).is_some_and(|inode| inode.strong_count() == 0) {
            counters.inodes.remove(&self.key);
        }
        if let Some(files) = state.refund_files {
            counters.files = counters.files.saturating_sub(files);
            counters.bytes = counters.bytes.saturating_sub(state.size);
        }
    }
}

/// One counted open handle.
#[derive(Debug)]
pub(super) struct HandleSlot {
    listed: u64,
    quota: Arc<Quota>,
}

impl HandleSlot {
    /// Counts the entries of a listing that the handle holds.
    pub(super) fn hold_entries<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), Errno> {
        let bytes: u64 = names.map(|name| name.len() as u64 + 64).sum();
        let before = self.quota.listed.fetch_add(bytes, Relaxed);
        self.listed += bytes;
        if before.saturating_add(bytes) > LISTED_MAX {
            self.quota.note_hit(Limit::Handles);
            return Err(Errno::NOMEM);
        }
        Ok(())
    }
}

impl Drop for HandleSlot {
    fn drop(&mut self) {
        self.quota.handles.fetch_sub(1, Relaxed);
        self.quota.listed.fetch_sub(self.listed, Relaxed);
    }
}
