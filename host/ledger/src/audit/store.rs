//! The database: an index of all records, and the records that are no longer in a journal. Opening
//! it imports the journals first; a sealed journal is removed once its records are in the database.
//!
//! Lines are stored byte for byte, so that the chain can be checked; the other columns are
//! extracted from them. If the process is killed, the next one imports the same lines again and
//! skips those that are present.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::AuditError;
use super::chain::{self, ChainHead, Link};
use super::columns::{Columns, RunEvent};
use super::journal::{beside, remove, sealed};
use super::lease::Lease;
use super::log_entry::LogEntry;
use crate::database::make_private;

/// How long one host waits for another that imports a journal, which takes a fraction of a second.
const BUSY: Duration = Duration::from_secs(30);

/// The version of the tables, as `user_version`.
const FORM: i64 = 2;

const TABLES: &str = "
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS record (
        sequence INTEGER PRIMARY KEY, time INTEGER NOT NULL, skill TEXT NOT NULL, status TEXT NOT NULL, line BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS record_time ON record (time);
    CREATE INDEX IF NOT EXISTS record_skill ON record (skill, time);
    CREATE INDEX IF NOT EXISTS record_status ON record (status, time);
    CREATE TABLE IF NOT EXISTS name (
        kind TEXT NOT NULL, name TEXT NOT NULL, time INTEGER NOT NULL, sequence INTEGER NOT NULL,
        PRIMARY KEY (kind, name, time, sequence)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS oddity (digest TEXT PRIMARY KEY, sequence INTEGER NOT NULL, what TEXT NOT NULL, line BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS unfinished (run TEXT PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS pruned (sequence INTEGER NOT NULL, digest TEXT NOT NULL);
    PRAGMA user_version = 2;
    COMMIT;";

/// An audit log that is open for reading, with everything that was written before it was opened.
#[derive(Debug)]
pub struct LogStore {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    /// The last record of the journal, if it has any.
    pub(super) journal: Option<ChainHead>,
}

impl LogStore {
    /// Checks whether anything was ever written to the log whose journal is `path`.
    pub fn exists(path: &Path) -> bool {
        path.exists() || database(path).exists()
    }

    /// Checks whether no run was ever recorded in the log whose journal is `path`. The key is created
    /// with the log, so a key without a log means that the log was removed. What cannot be looked up
    /// may exist.
    pub fn is_unused(path: &Path) -> bool {
        [path.to_owned(), database(path), beside(path, "key")]
            .iter()
            .all(|file| matches!(file.try_exists(), Ok(false)))
    }

    /// Opens the database of the log whose journal is `path`, creates it if it is missing, and
    /// imports the journals.
    ///
    /// # Errors
    /// There is no such log, or its database cannot be written.
    pub fn open(path: &Path) -> Result<LogStore, AuditError> {
        // If the journal is sealed from here on, this descriptor still reads it, whatever its name.
        let live = existing(path).map_err(|error| AuditError::read(path, &error))?;
        if live.as_ref().is_some_and(|file| file.metadata().is_ok_and(|meta| !meta.is_file())) {
            return Err(AuditError::read(path, &"it is not a regular file, so it stores nothing"));
        }
        let database = database(path);
        if live.is_none() && !database.exists() {
            return Err(AuditError::read(path, &io::Error::from(io::ErrorKind::NotFound)));
        }
        let failed = |error: &dyn std::fmt::Display| AuditError::read(&database, error);
        let db = connect(&database).map_err(|error| failed(&error))?;
        let mut store = LogStore { db, path: path.to_owned(), journal: None };
        store.fold(live).map_err(|error| failed(&error))?;
        Ok(store)
    }

    fn fold(&mut self, live: Option<File>) -> Result<(), StoreError> {
        let path = self.path.clone();
        let work = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Listed inside the transaction: a journal that another host imports at the same time is
        // either still listed or already in the database.
        let sealed = sealed(&path)?;
        for file in &sealed {
            // Another host has imported and removed it.
            if let Some(mut file) = existing(file)? {
                take_in(&work, &mut file)?;
            }
        }
        self.journal = match live {
            Some(mut file) => take_in(&work, &mut file)?,
            None => None,
        };
        work.commit()?;
        sealed.iter().try_for_each(|file| remove(file))?;
        Ok(())
    }

    /// Returns the last known record.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn head(&self) -> Result<ChainHead, AuditError> {
        last(&self.db)
            .map(|head| head.unwrap_or_else(ChainHead::start))
            .map_err(|error| self.failed(&error))
    }

    /// Checks whether the host of a run without a recorded end is still alive.
    ///
    /// # Errors
    /// The lock file of the hosts cannot be opened.
    pub fn is_running(&self, start: &LogEntry) -> Result<bool, AuditError> {
        let lease = start.owner.as_ref().and_then(|owner| owner.lease);
        lease
            .map_or(Ok(false), |byte| Lease::is_held(&self.path, byte))
            .map_err(|error| AuditError::read(&self.path, &error))
    }

    pub(super) fn failed(&self, error: &dyn std::fmt::Display) -> AuditError {
        AuditError::read(&database(&self.path), error)
    }
}

/// Why a line of a journal does not fit into the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    /// A line that is not a record follows the record.
    NotARecord,
    /// The journal continues from another record of this number.
    WrongAnchor,
    /// The journal has another record of this number than the database.
    Differs,
    /// The record follows one with a higher number.
    OutOfOrder,
}

impl Oddity {
    const ALL: [Oddity; 4] =
        [Oddity::NotARecord, Oddity::WrongAnchor, Oddity::Differs, Oddity::OutOfOrder];

    /// Returns the name that the database stores.
    fn name(self) -> &'static str {
        match self {
            Oddity::NotARecord => "not-a-record",
            Oddity::WrongAnchor => "wrong-anchor",
            Oddity::Differs => "differs",
            Oddity::OutOfOrder => "out-of-order",
        }
    }

    /// Finds an oddity by its name.
    pub(super) fn from_name(name: &str) -> Option<Oddity> {
        Oddity::ALL.into_iter().find(|oddity| oddity.name() == name)
    }
}

/// An error of an open database.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Returns the path of a log's database.
pub(super) fn database(path: &Path) -> PathBuf {
    beside(path, "db")
}

/// Returns the last record before an empty journal, from the newest sealed journal or from the
/// database. `None` if nothing was ever written.
pub(super) fn head(path: &Path) -> io::Result<Option<ChainHead>> {
    let mut newest = sealed(path)?;
    while let Some(mut file) = newest.pop().map(|file| existing(&file)).transpose()?.flatten() {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if let Some(link) = bytes
            .strip_suffix(b"\n")
            .and_then(|rest| rest.split(|byte| *byte == b'\n').next_back())
            .and_then(Link::of)
        {
            return Ok(Some(link.head()));
        }
    }
    let database = database(path);
    if !database.exists() {
        return Ok(None);
    }
    connect(&database).and_then(|db| Ok(last(&db)?)).map_err(io::Error::other)
}

fn connect(database: &Path) -> Result<Connection, StoreError> {
    make_private(database, TABLES)?;
    let db = Connection::open(database)?;
    db.busy_timeout(BUSY)?;
    // A journal is removed once its records are here, so they must have reached the disk.
    db.pragma_update(None, "synchronous", "FULL")?;
    match db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))? {
        FORM => {}
        // Version 1 has no table of unfinished runs, and its records have none.
        0 | 1 => db.execute_batch(TABLES)?,
        form => {
            return Err(io::Error::other(format!(
                "its tables have version {form}, and this version of skillhost supports version {FORM}"
            ))
            .into());
        }
    }
    Ok(db)
}

fn last(db: &Connection) -> rusqlite::Result<Option<ChainHead>> {
    let line: Option<Vec<u8>> = db
        .query_row("SELECT line FROM record ORDER BY sequence DESC LIMIT 1", [], |row| row.get(0))
        .optional()?;
    match line.as_deref().and_then(Link::of) {
        Some(link) => Ok(Some(link.head())),
        None => pruned(db),
    }
}

/// Returns the last record that was removed because of its age or the size of the log.
pub(super) fn pruned(db: &Connection) -> rusqlite::Result<Option<ChainHead>> {
    let read = |row: &rusqlite::Row<'_>| {
        Ok(ChainHead { sequence: row.get::<_, i64>(0)?.cast_unsigned(), digest: row.get(1)? })
    };
    db.query_row("SELECT sequence, digest FROM pruned", [], read).optional()
}

fn existing(path: &Path) -> io::Result<Option<File>> {
    #[expect(clippy::disallowed_methods, reason = "a file of the audit log's own")]
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// Imports the lines of a journal, in order, and returns the last record. Lines that do not fit are
/// stored for `verify` to report: nothing that was found in a journal is lost.
fn take_in(db: &Transaction<'_>, file: &mut File) -> Result<Option<ChainHead>, StoreError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let floor = pruned(db)?.map_or(0, |head| head.sequence);
    let mut known = db.prepare("SELECT line FROM record WHERE sequence = ?1")?;
    let mut end: Option<ChainHead> = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // Being written, or torn.
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let Some(link) = Link::of(line) else {
            odd(db, end.as_ref().map_or(0, |head| head.sequence), Oddity::NotARecord, line)?;
            continue;
        };
        let before = end.replace(link.head());
        if link.sequence <= floor {
            continue;
        }
        let known: Option<Vec<u8>> =
            known.query_row([number(link.sequence)], |row| row.get(0)).optional()?;
        match known {
            _ if chain::is_anchor(line) => {
                // It stands for a line that has been imported; otherwise, the chain shows the gap.
                let same = known
                    .as_deref()
                    .and_then(Link::of)
                    .is_some_and(|known| known.digest == link.digest);
                if known.is_some() && !same {
                    odd(db, link.sequence, Oddity::WrongAnchor, line)?;
                }
            }
            Some(known) if known == line => {}
            Some(_) => odd(db, link.sequence, Oddity::Differs, line)?,
            None => insert(db, &link, line)?,
        }
        if before.is_some_and(|before| before.sequence >= link.sequence) {
            odd(db, link.sequence, Oddity::OutOfOrder, line)?;
        }
    }
    Ok(end)
}

fn insert(db: &Transaction<'_>, link: &Link<'_>, line: &[u8]) -> rusqlite::Result<()> {
    let Columns { time, skill, status, names, run } = Columns::of(line);
    let mut record = db.prepare_cached(
        "INSERT INTO record (sequence, time, skill, status, line) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    record.execute(params![number(link.sequence), time, skill, status, line])?;
    let mut name = db.prepare_cached(
        "INSERT OR IGNORE INTO name (kind, name, time, sequence) VALUES (?1, ?2, ?3, ?4)",
    )?;
    names.iter().try_for_each(|(kind, text)| {
        name.execute(params![kind, text, time, number(link.sequence)]).map(drop)
    })?;
    match run {
        Some(RunEvent::Start(run)) => {
            let mut start = db.prepare_cached(
                "INSERT OR REPLACE INTO unfinished (run, sequence) VALUES (?1, ?2)",
            )?;
            start.execute(params![run, number(link.sequence)]).map(drop)
        }
        Some(RunEvent::End(run)) => {
            db.prepare_cached("DELETE FROM unfinished WHERE run = ?1")?.execute([run]).map(drop)
        }
        None => Ok(()),
    }
}

fn odd(db: &Transaction<'_>, sequence: u64, oddity: Oddity, line: &[u8]) -> rusqlite::Result<()> {
    let digest = skillhost_skill::runtime::digest(line);
    let mut statement = db.prepare_cached(
        "INSERT OR IGNORE INTO oddity (digest, sequence, what, line) VALUES (?1, ?2, ?3, ?4)",
    )?;
    statement.execute(params![digest, number(sequence), oddity.name(), line]).map(drop)
}

/// Converts a sequence number for the database. No log gets near the limit of either type.
pub(super) fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
