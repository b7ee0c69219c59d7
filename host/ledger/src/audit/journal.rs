//! The journal: the file that records are appended to, and the only part of the log that a run pays
//! for. An append locks the file, reads its last bytes to find the place in the chain (unless
//! no other host has written since), and writes one line.
//!
//! These files may exist next to `audit.jsonl`; their names start with its name:
//!
//! | file | holds |
//! |---|---|
//! | `audit.jsonl.NUMBER` | a journal that was full, sealed with the record of that number, until it is in the database |
//! | `audit.jsonl.db` | the database ([`super::store`]) |
//! | `audit.jsonl.key` | the key of its digests ([`super::key`]) |
//! | `audit.jsonl.running` | empty; each host locks a byte of it ([`super::lease`]) |
//! | `audit.jsonl.torn` | what was left of records whose writer was killed, or whose disk was full |
//! | `audit.jsonl.new` | a journal that is about to take its place |

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{FileType, FlockOperation, Stat, flock, fstat, stat};
use serde::Serialize;

use super::chain::{self, ChainHead, LINE, LINE_MAX, Link, TRAILER_MAX};
use super::key::LogKey;
use super::lease::Lease;
use super::{AuditError, HostId, store};
use skillhost_policy::Retention;
use skillhost_skill::private;

/// The size at which a journal is sealed and moved into the database: about 3,000 records. A
/// reader of the log reads and compares at most this much of the journal.
pub(super) const SEAL_AT: u64 = 4 << 20;

/// How much the nice value of the thread that moves a sealed journal is above that of others: it has a
/// tenth of the weight, so that it ends before the next journal is full even if nothing is idle.
const FOLDING_NICE: i32 = 10;

/// How often to reopen a journal that another host has just sealed before reporting an error.
const TRIES: usize = 100;

/// An open audit log, to which records can be appended.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    journal: Mutex<Journal>,
    seal_at: u64,
    folding: Mutex<Option<JoinHandle<()>>>,
    /// Taken when the first start is recorded.
    lease: OnceLock<Lease>,
    /// Read when the first record is written.
    key: OnceLock<LogKey>,
}

/// The open file, and what is known about it.
#[derive(Debug)]
struct Journal {
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    /// Whether it is a file, not a device or a pipe.
    is_regular: bool,
    /// The size of the file after our last record, and its place in the chain. If the size has not
    /// changed, no other host has written: records are only appended.
    last: Option<(u64, ChainHead)>,
}

impl Log {
    /// Opens a log for appending. Creates its folder, for this user alone, if it is missing. Call
    /// this before anything runs.
    ///
    /// # Errors
    /// The folder or the file cannot be created or opened.
    pub fn open(path: &Path) -> Result<Log, AuditError> {
        Log::open_sealing_at(path, SEAL_AT)
    }

    /// Opens a log that is sealed at another size.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_sealing_at(path: &Path, bytes: u64) -> Result<Log, AuditError> {
        let open = || match Journal::open(path) {
            // Every run opens the log, but only the first has to create its folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private::create_missing(folder(path))?;
                Journal::open(path)
            }
            opened => opened,
        };
        let journal = open().map_err(|source| AuditError::write(path, source))?;
        Ok(Log {
            path: path.to_owned(),
            journal: Mutex::new(journal),
            seal_at: bytes,
            folding: Mutex::default(),
            lease: OnceLock::new(),
            key: OnceLock::new(),
        })
    }

    /// Checks whether the file still has its name, and was not moved away or removed.
    pub fn is_in_place(&self) -> bool {
        stat(&self.path).is_ok_and(|named| identity(&named) == lock(&self.journal).identity)
    }

    /// Appends a record, in one write, chained to the previous line. Returns its place in the
    /// chain.
    ///
    /// # Errors
    /// The record could not be written completely. Either none of it is left, or the next append
    /// sets the rest aside.
    pub fn append(&self, record: &impl Serialize) -> Result<ChainHead, AuditError> {
        self.append_with_retention(record, Retention::default())
    }

    /// Appends a record. If it fills the journal, its records are moved to the database in the
    /// background, and expired ones are removed.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_with_retention(
        &self,
        record: &impl Serialize,
        retention: Retention,
    ) -> Result<ChainHead, AuditError> {
        let failed = |source| AuditError::write(&self.path, source);
        let mut line = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        line.reserve(TRAILER_MAX);
        let mut journal = lock(&self.journal);
        let (head, sealed) = self.write(&mut journal, &mut line).map_err(failed)?;
        drop(journal);
        if sealed {
            self.fold(retention);
        }
        Ok(head)
    }

    /// Returns the key of the log, used for digests of values that may be secret.
    ///
    /// # Errors
    /// The key file cannot be created or read.
    pub fn key(&self) -> Result<&LogKey, AuditError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = if lock(&self.journal).is_regular {
            LogKey::of_log(&self.path).map_err(|source| AuditError::write(&self.path, source))?
        } else {
            LogKey::of_process()
        };
        Ok(self.key.get_or_init(|| key))
    }

    /// Returns this host's identity, as start records name it.
    ///
    /// # Errors
    /// The lock file of the hosts cannot be created or opened.
    pub fn owner(&self) -> Result<HostId, AuditError> {
        // Under the lock: the loser of a race would record a byte that is not locked.
        let journal = lock(&self.journal);
        // A log that is a device or a pipe cannot be read, so it needs no lease.
        if self.lease.get().is_none() && journal.is_regular {
            let lease =
                Lease::take(&self.path).map_err(|source| AuditError::write(&self.path, source))?;
            self.lease.get_or_init(|| lease);
        }
        Ok(HostId { pid: std::process::id(), lease: self.lease.get().map(|lease| lease.byte) })
    }

    fn write(&self, journal: &mut Journal, line: &mut Vec<u8>) -> io::Result<(ChainHead, bool)> {
        for _ in 0..TRIES {
            let locked = JournalLock::new(&journal.file)?;
            match stat(&self.path) {
                Ok(named) if identity(&named) == journal.identity => {
                    let last = journal.last.take();
                    let (head, size, sealed) = self.write_locked(&locked, &named, last, line)?;
                    drop(locked);
                    journal.last = Some((size, head.clone()));
                    return Ok((head, sealed));
                }
                // Another host has sealed it, or it was moved away. Records go to the file with the
                // log's name.
                Ok(_) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            drop(locked);
            *journal = Journal::open(&self.path)?;
        }
        Err(io::Error::other("another process keeps replacing it"))
    }

    /// Writes a line. Returns its place in the chain, the new size of the file, and whether the
    /// journal was sealed.
    fn write_locked(
        &self,
        locked: &JournalLock<'_>,
        named: &Stat,
        last: Option<(u64, ChainHead)>,
        line: &mut Vec<u8>,
    ) -> io::Result<(ChainHead, u64, bool)> {
        // A device, or a pipe to a program that stores the log.
        if FileType::from_raw_mode(named.st_mode) != FileType::RegularFile {
            let head = chain::close(line, &ChainHead::start());
            line.push(b'\n');
            return { locked.0 }.write_all(line).map(|()| (head, 0, false));
        }
        let size = named.st_size.cast_unsigned();
        let (head, size) = match last {
            Some((known, head)) if known == size && size > 0 => (head, size),
            _ => self.end(locked.0, size)?,
        };
        let head = chain::close(line, &head);
        line.push(b'\n');
        if let Err(error) = { locked.0 }.write_all(line) {
            // If this fails too, the next append sets the bytes aside.
            locked.0.set_len(size).ok();
            return Err(error);
        }
        let size = size + line.len() as u64;
        if size <= self.seal_at {
            return Ok((head, size, false));
        }
        // The record is written. If sealing fails now, the next append tries again.
        let sealed = self.seal(line, head.sequence);
        Ok((
            head,
            size,
            sealed
                .inspect_err(
                    |error| tracing::warn!(%error, "cannot seal the journal of the audit log"),
                )
                .is_ok(),
        ))
    }

    /// Returns the last record, and the size of the file after setting aside any bytes that follow
    /// it.
    fn end(&self, file: &File, size: u64) -> io::Result<(ChainHead, u64)> {
        if size == 0 {
            return Ok((store::head(&self.path)?.unwrap_or_else(ChainHead::start), 0));
        }
        let found = match last_within::<LINE>(file, size)? {
            None if size > LINE as u64 => last_within::<LINE_MAX>(file, size)?,
            found => found,
        };
        match found {
            Some(head) => Ok((head, size)),
            None => self.set_aside(file, size),
        }
    }

    /// Moves an unfinished line to the file of torn records, and keeps a complete record that is
    /// merely long. A complete line that is not a record was not written by a host: then the log is
    /// refused and left unchanged.
    #[cold]
    fn set_aside(&self, file: &File, size: u64) -> io::Result<(ChainHead, u64)> {
        if size > self.seal_at.max(SEAL_AT).saturating_mul(16) {
            return Err(io::Error::other(
                "it is too large for a journal: choose another file, or move it away",
            ));
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, 0)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let head = match bytes[..end].strip_suffix(b"\n") {
            None => store::head(&self.path)?.unwrap_or_else(ChainHead::start),
            Some(whole) => {
                let last = chain::last_record(whole, true);
                let foreign = || {
                    io::Error::other(
                        "its last line is not an audit record: choose another file, or move it away",
                    )
                };
                last.ok_or_else(foreign)?.head()
            }
        };
        if end as u64 == size {
            return Ok((head, size));
        }
        append_only(&beside(&self.path, "torn"))?.write_all(&[&bytes[end..], b"\n"].concat())?;
        file.set_len(end as u64)?;
        tracing::warn!(log = %self.path.display(), bytes = bytes.len() - end, "set aside an incomplete record");
        Ok((head, end as u64))
    }

    /// Renames the full journal, and replaces it by one that continues from its last line. A
    /// journal exists at every moment.
    fn seal(&self, last: &[u8], sequence: u64) -> io::Result<()> {
        let link = last
            .strip_suffix(b"\n")
            .and_then(Link::of)
            .ok_or_else(|| io::Error::other("the last line is not a record"))?;
        let new = beside(&self.path, "new");
        // Left by a host that was killed at this point.
        remove(&new)?;
        append_only(&new)?.write_all(&chain::anchor(&link))?;
        let sealed = sealed_name(&self.path, sequence);
        match std::fs::hard_link(&self.path, &sealed) {
            // Another file has this name, perhaps from an older log. Linking over it would lose
            // this journal.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && identity(&stat(&self.path)?) != identity(&stat(&sealed)?) =>
            {
                return Err(error);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        std::fs::rename(&new, &self.path)
    }

    /// Moves sealed journals into the database, in a background thread.
    #[cold]
    fn fold(&self, retention: Retention) {
        let path = self.path.clone();
        let work = move || {
            // Of this thread alone. Runs go first: they would otherwise wait for a core each time that
            // a journal is full. If it fails, the thread keeps the weight of others.
            let own = rustix::process::getpriority_process(None).unwrap_or(0);
            rustix::process::setpriority_process(None, own + FOLDING_NICE).ok();
            let folded = store::LogStore::open(&path);
            let store =
                folded.inspect_err(|error| tracing::warn!(%error, "cannot move sealed journals into the database; the next reader of the log tries again"));
            let Ok(mut store) = store else { return };
            // The record of the removal must not seal the journal again, since that would start
            // another thread.
            let removed =
                Log::open_sealing_at(&path, u64::MAX).and_then(|log| store.retain(&log, retention));
            if let Err(error) = removed {
                tracing::warn!(%error, "cannot remove expired records; trying again when the next journal is full");
            }
        };
        let mut folding = lock(&self.folding);
        // The previous thread has had the time of a thousand runs.
        if folding.as_ref().is_none_or(JoinHandle::is_finished) {
            let thread = std::thread::Builder::new().name("audit-fold".into()).spawn(work);
            // The next reader of the log moves the rest.
            *folding = thread.inspect_err(|error| tracing::warn!(%error, "cannot start the thread that moves sealed journals into the database")).ok();
        }
    }

    /// Waits for the background thread, if there is one. Call this before the process ends.
    pub fn settle(&self) {
        if let Some(folding) = lock(&self.folding).take() {
            // A panic has printed its message, and the journal is unchanged.
            folding.join().ok();
        }
    }
}

impl Journal {
    fn open(path: &Path) -> io::Result<Journal> {
        let file = open(path)?;
        let stat = fstat(&file)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(Journal { identity: identity(&stat), is_regular, file, last: None })
    }
}

/// Locks the file while a line is appended. The kernel releases the lock if the process dies.
struct JournalLock<'a>(&'a File);

impl<'a> JournalLock<'a> {
    fn new(file: &'a File) -> io::Result<JournalLock<'a>> {
        loop {
            match flock(file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(JournalLock(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for JournalLock<'_> {
    fn drop(&mut self) {
        // Closing the descriptor releases it at the latest.
        flock(self.0, FlockOperation::Unlock).ok();
    }
}

/// Returns the last record of a file of this size, if all of it is in the last `BYTES`.
// Not inlined, because a function touches all pages of its frame, and the caller's is small.
#[inline(never)]
fn last_within<const BYTES: usize>(file: &File, size: u64) -> io::Result<Option<ChainHead>> {
    let mut tail = [0; BYTES];
    let start = size.saturating_sub(BYTES as u64);
    let tail = &mut tail[..usize::try_from(size - start).unwrap_or(0)];
    file.read_exact_at(tail, start)?;
    let link = tail.strip_suffix(b"\n").and_then(|lines| chain::last_record(lines, start == 0));
    Ok(link.map(|link| link.head()))
}

/// Lists the sealed journals of a log, oldest first.
pub(super) fn sealed(path: &Path) -> io::Result<Vec<PathBuf>> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the folder of the log, which the operator named"
    )]
    let entries = match std::fs::read_dir(folder(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let number = entry.file_name();
        let number = number
            .as_encoded_bytes()
            .strip_prefix(name.as_encoded_bytes())
            .and_then(|rest| rest.strip_prefix(b"."));
        if number
            .is_some_and(|number| number.len() == DIGITS && number.iter().all(u8::is_ascii_digit))
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// The number of digits of the largest number, so that names sort like numbers.
const DIGITS: usize = 20;

fn sealed_name(path: &Path, sequence: u64) -> PathBuf {
    beside(path, &format!("{sequence:0DIGITS$}"))
}

/// Returns the path of a file that belongs to the log.
pub(super) fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open(path: &Path) -> io::Result<File> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the audit log is the host's own file, named by the operator"
    )]
    std::fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn append_only(path: &Path) -> io::Result<File> {
    #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Removes a file if it exists.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Device and inode: while this file is open, no other file has both.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
