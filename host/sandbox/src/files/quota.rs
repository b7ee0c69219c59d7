//! What an invocation may use up, and what it did: bytes and files against their limits, open
//! handles, accounts of each path.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::account::{Account, FileUsage};
use super::{beneath, lock};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::FileActivity;

/// Paths that accounts are kept of, in one invocation; what comes after counts in the totals alone.
const TOUCHED_MAX: usize = 10_000;

/// Bytes of directory entries (names, and about 64 each beside) held for guests at once: listings
/// are sorted, so they are held whole, and a guest may leave thousands of them half-read.
const LISTED_MAX: u64 = 64 << 20;

/// The books of one invocation. Locks are taken in this order: tree, body of a file, ledger; and no
/// `Body` is dropped under the ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    disk_max: u64,
    /// The limit that `disk_max` is.
    full: Limit,
    files_max: u64,
    handles_max: u64,
    read: AtomicU64,
    written: AtomicU64,
    handles: AtomicU64,
    listed: AtomicU64,
    book: Mutex<Book>,
    /// The first error of the host's own that a guest was told of.
    failed: OnceLock<Errno>,
}

#[derive(Debug, Default)]
struct Book {
    bytes: u64,
    /// Files and folders created less those removed.
    files: u64,
    created: u64,
    hit: Option<Limit>,
    /// The open files in writable storage, by device and inode.
    bodies: HashMap<(u64, u64), Weak<Body>>,
    touched: BTreeMap<String, Arc<Account>>,
}

impl Ledger {
    pub(super) fn new(limits: &Limits) -> Arc<Ledger> {
        Ledger::within(limits, limits.disk, Limit::Disk, Book::default())
    }

    /// The books of `/state`, where so many bytes and files are already.
    pub(super) fn of_state(limits: &Limits, bytes: u64, files: u64) -> Arc<Ledger> {
        Ledger::within(limits, limits.state, Limit::State, Book { bytes, files, ..Book::default() })
    }

    fn within(limits: &Limits, disk_max: u64, full: Limit, book: Book) -> Arc<Ledger> {
        Arc::new(Ledger {
            disk_max,
            full,
            files_max: limits.files,
            handles_max: limits.handles,
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            listed: AtomicU64::new(0),
            book: Mutex::new(book),
            failed: OnceLock::new(),
        })
    }

    pub(super) fn usage(&self) -> FileUsage {
        let book = lock(&self.book);
        FileUsage {
            bytes_read: self.read.load(Relaxed),
            bytes_written: self.written.load(Relaxed),
            files_created: book.created,
            disk: book.bytes,
        }
    }

    /// Notes an error that the host has, and not the guest's doing: its disk, its memory or its
    /// table of files.
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
            self.failed.get_or_init(|| error);
        }
    }

    /// The first error of the host's own.
    pub(super) fn failure(&self) -> Option<Errno> {
        self.failed.get().copied()
    }

    /// The first limit that was hit.
    pub(super) fn hit(&self) -> Option<Limit> {
        lock(&self.book).hit
    }

    /// A write found no room.
    pub(super) fn note_full(&self) {
        self.note_hit(self.full);
    }

    pub(super) fn note_hit(&self, limit: Limit) {
        lock(&self.book).hit.get_or_insert(limit);
    }

    /// Takes up to `want` bytes of the quota, and says how many.
    pub(super) fn charge(&self, want: u64) -> u64 {
        let mut book = lock(&self.book);
        let granted = want.min(self.disk_max.saturating_sub(book.bytes));
        book.bytes += granted;
        if granted < want {
            book.hit.get_or_insert(self.full);
        }
        granted
    }

    /// Takes all of `want` bytes, or none.
    pub(super) fn charge_all(&self, want: u64) -> Result<(), Errno> {
        let granted = self.charge(want);
        if granted == want {
            return Ok(());
        }
        self.refund(granted);
        Err(Errno::NOSPC)
    }

    pub(super) fn refund(&self, bytes: u64) {
        if bytes > 0 {
            let mut book = lock(&self.book);
            book.bytes = book.bytes.saturating_sub(bytes);
        }
    }

    pub(super) fn bytes_left(&self) -> u64 {
        self.disk_max.saturating_sub(lock(&self.book).bytes)
    }

    /// Takes one file or folder of the quota.
    pub(super) fn charge_file(&self) -> Result<(), Errno> {
        let mut book = lock(&self.book);
        if book.files >= self.files_max {
            book.hit.get_or_insert(Limit::Files);
            return Err(Errno::NOSPC);
        }
        book.files += 1;
        book.created += 1;
        Ok(())
    }

    /// Takes back a charge for a file that could not be created.
    pub(super) fn not_made(&self, error: Errno) {
        self.note_failure(error);
        let mut book = lock(&self.book);
        book.files = book.files.saturating_sub(1);
        book.created = book.created.saturating_sub(1);
    }

    /// A name is gone: gives back what the file took, at once or when its last handle closes.
    /// `counted`: it was charged as created.
    pub(super) fn release(&self, stat: &Stat, counted: bool) {
        // Another name keeps the bytes.
        let bytes = beneath::kind(stat) == FileType::RegularFile && stat.st_nlink == 1;
        let open = if bytes { self.body_at(key(stat)) } else { None };
        if let Some(body) = open {
            lock(&body.state).refund_files = Some(u64::from(counted));
            return;
        }
        let mut book = lock(&self.book);
        book.files = book.files.saturating_sub(u64::from(counted));
        if bytes {
            book.bytes = book.bytes.saturating_sub(beneath::size(stat));
        }
    }

    /// The shared state of an open file in writable storage.
    pub(super) fn body(self: &Arc<Self>, stat: &Stat) -> Arc<Body> {
        let key = key(stat);
        let mut book = lock(&self.book);
        if let Some(body) = book.bodies.get(&key).and_then(Weak::upgrade) {
            return body;
        }
        let state = BodyState { size: beneath::size(stat), refund_files: None };
        let body = Arc::new(Body { key, state: Mutex::new(state), ledger: self.clone() });
        book.bodies.insert(key, Arc::downgrade(&body));
        body
    }

    fn body_at(&self, key: (u64, u64)) -> Option<Arc<Body>> {
        lock(&self.book).bodies.get(&key).and_then(Weak::upgrade)
    }

    /// Counts one more open handle, until the ticket is dropped.
    pub(super) fn ticket(self: &Arc<Self>) -> Result<Ticket, Errno> {
        if self.handles.fetch_add(1, Relaxed) >= self.handles_max {
            self.handles.fetch_sub(1, Relaxed);
            self.note_hit(Limit::Handles);
            return Err(Errno::MFILE);
        }
        Ok(Ticket { listed: 0, ledger: self.clone() })
    }

    pub(super) fn count_read(&self, account: &Account, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
        account.read.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn count_written(&self, account: &Account, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
        account.written.fetch_add(bytes as u64, Relaxed);
    }

    /// The account of a guest path; one that nobody reads once there are too many.
    pub(super) fn account(&self, path: String) -> Arc<Account> {
        let mut book = lock(&self.book);
        if book.touched.len() >= TOUCHED_MAX && !book.touched.contains_key(&path) {
            return Arc::default();
        }
        book.touched.entry(path).or_default().clone()
    }

    /// The accounts so far. A file that was opened and no more is none.
    pub(super) fn touched(&self) -> BTreeMap<String, FileActivity> {
        let book = lock(&self.book);
        let accounts =
            book.touched.iter().map(|(path, account)| (path.clone(), account.snapshot()));
        accounts.filter(|(_, touched)| *touched != FileActivity::default()).collect()
    }
}

fn key(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// One open file in writable storage, shared by all its handles: they must agree on the size that
/// the quota counts.
#[derive(Debug)]
pub(super) struct Body {
    key: (u64, u64),
    pub(super) state: Mutex<BodyState>,
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
pub(super) struct BodyState {
    pub(super) size: u64,
    /// Its name is gone: with the last handle, the size and so many files go back to the quota.
    refund_files: Option<u64>,
}

impl Drop for Body {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut book = lock(&self.ledger.book);
        // A new body may have taken the key while this one waited for the lock.
        if book.bodies.get(&self.key).is_some_and(|body| body.strong_count() == 0) {
            book.bodies.remove(&self.key);
        }
        if let Some(files) = state.refund_files {
            book.files = book.files.saturating_sub(files);
            book.bytes = book.bytes.saturating_sub(state.size);
        }
    }
}

/// One open handle, counted.
#[derive(Debug)]
pub(super) struct Ticket {
    listed: u64,
    ledger: Arc<Ledger>,
}

impl Ticket {
    /// Counts the entries of a listing that the handle holds.
    pub(super) fn hold_entries<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<(), Errno> {
        let bytes: u64 = names.map(|name| name.len() as u64 + 64).sum();
        let before = self.ledger.listed.fetch_add(bytes, Relaxed);
        self.listed += bytes;
        if before.saturating_add(bytes) > LISTED_MAX {
            self.ledger.note_hit(Limit::Handles);
            return Err(Errno::NOMEM);
        }
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.handles.fetch_sub(1, Relaxed);
        self.ledger.listed.fetch_sub(self.listed, Relaxed);
    }
}
