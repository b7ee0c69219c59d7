//! The runs of one tenant of the run API: the queue, the results, the idempotency keys, and what the
//! tenant used in the last hour. One database per tenant, so that no query can reach another's rows.
//!
//! Requests and results are JSON of the server, which this module stores and does not read. A run is
//! stored before its client is answered, so a server that is killed loses none.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::database::{Database, DatabaseError, Tables};

/// Keeps the bytes of everything that counts towards the quota of storage: a sum over all runs would
/// take longer with each run that is stored.
macro_rules! stored_totals {
    () => {
        "
        CREATE TABLE IF NOT EXISTS stored (
            one INTEGER PRIMARY KEY CHECK (one = 1),
            bytes INTEGER NOT NULL
        );
        INSERT OR IGNORE INTO stored SELECT 1, (SELECT coalesce(sum(bytes), 0) FROM blobs)
            + (SELECT coalesce(sum(bytes), 0) FROM skills)
            + (SELECT coalesce(sum(bytes), 0) FROM runs);
        CREATE TRIGGER IF NOT EXISTS run_added AFTER INSERT ON runs
            BEGIN UPDATE stored SET bytes = bytes + new.bytes; END;
        CREATE TRIGGER IF NOT EXISTS run_grown AFTER UPDATE OF bytes ON runs
            BEGIN UPDATE stored SET bytes = bytes + new.bytes - old.bytes; END;
        CREATE TRIGGER IF NOT EXISTS run_removed AFTER DELETE ON runs
            BEGIN UPDATE stored SET bytes = bytes - old.bytes; END;
        CREATE TRIGGER IF NOT EXISTS blob_added AFTER INSERT ON blobs
            BEGIN UPDATE stored SET bytes = bytes + new.bytes; END;
        CREATE TRIGGER IF NOT EXISTS blob_removed AFTER DELETE ON blobs
            BEGIN UPDATE stored SET bytes = bytes - old.bytes; END;
        CREATE TRIGGER IF NOT EXISTS skill_added AFTER INSERT ON skills
            BEGIN UPDATE stored SET bytes = bytes + new.bytes; END;
        CREATE TRIGGER IF NOT EXISTS skill_changed AFTER UPDATE OF bytes ON skills
            BEGIN UPDATE stored SET bytes = bytes + new.bytes - old.bytes; END;
        CREATE TRIGGER IF NOT EXISTS skill_removed AFTER DELETE ON skills
            BEGIN UPDATE stored SET bytes = bytes - old.bytes; END;"
    };
}

/// Indexes that let [`RunStore::sweep`] find expired keys and runs without reading all others. The index
/// of runs leaves out those whose idempotency key is still remembered.
macro_rules! expiry {
    () => {
        "
        CREATE INDEX IF NOT EXISTS keys_by_time ON keys (created);
        CREATE INDEX IF NOT EXISTS results_by_run ON results (run);
        CREATE INDEX IF NOT EXISTS runs_by_end ON runs (ended) WHERE ended IS NOT NULL AND keyed = 0;"
    };
}

static TABLES: Tables = Tables {
    form: 7,
    make: concat!(
        "
        CREATE TABLE IF NOT EXISTS runs (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            status TEXT NOT NULL,
            skill TEXT NOT NULL,
            submitted INTEGER NOT NULL,
            started INTEGER,
            ended INTEGER,
            kind TEXT,
            exit_code INTEGER,
            request TEXT NOT NULL,
            result TEXT,
            bytes INTEGER NOT NULL DEFAULT 0,
            stdout BLOB,
            stderr BLOB,
            keyed INTEGER NOT NULL DEFAULT 0
        );
        CREATE INDEX IF NOT EXISTS runs_by_status ON runs (status, seq);
        CREATE INDEX IF NOT EXISTS runs_by_skill ON runs (skill, seq);
        CREATE TABLE IF NOT EXISTS keys (
            key TEXT PRIMARY KEY,
            digest TEXT NOT NULL,
            run TEXT NOT NULL,
            created INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS usage (
            minute INTEGER PRIMARY KEY,
            cpu_ms INTEGER NOT NULL,
            bytes INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS blobs (
            digest TEXT PRIMARY KEY,
            bytes INTEGER NOT NULL,
            used INTEGER NOT NULL
        );
        CREATE TABLE IF NOT EXISTS skills (
            digest TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            bytes INTEGER NOT NULL,
            used INTEGER NOT NULL,
            uploaded INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS run_blobs (
            run TEXT NOT NULL,
            digest TEXT NOT NULL,
            PRIMARY KEY (run, digest)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS run_blobs_by_digest ON run_blobs (digest);
        CREATE TABLE IF NOT EXISTS results (
            key TEXT PRIMARY KEY,
            run TEXT NOT NULL
        ) WITHOUT ROWID;",
        stored_totals!(),
        expiry!()
    ),
    page: PAGE,
    upgrades: &[FROM_1, FROM_2, FROM_3, FROM_4, FROM_5, FROM_6],
};

const FROM_1: &str = "
        ALTER TABLE runs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
        UPDATE runs SET bytes = length(CAST(request AS BLOB));
        CREATE INDEX bytes_of_runs ON runs (bytes);
        ALTER TABLE skills ADD COLUMN uploaded INTEGER NOT NULL DEFAULT 0;
        UPDATE skills SET uploaded = used;
        CREATE TABLE run_blobs (
            run TEXT NOT NULL,
            digest TEXT NOT NULL,
            PRIMARY KEY (run, digest)
        ) WITHOUT ROWID;
        CREATE INDEX run_blobs_by_digest ON run_blobs (digest);";

const FROM_2: &str = "
        CREATE TABLE results (
            key TEXT PRIMARY KEY,
            run TEXT NOT NULL
        ) WITHOUT ROWID;";

const FROM_3: &str = concat!("DROP INDEX IF EXISTS bytes_of_runs;", stored_totals!());

const FROM_4: &str =
    "ALTER TABLE runs ADD COLUMN stdout BLOB; ALTER TABLE runs ADD COLUMN stderr BLOB;";

const FROM_5: &str = concat!(
    "ALTER TABLE runs ADD COLUMN keyed INTEGER NOT NULL DEFAULT 0;
        UPDATE runs SET keyed = 1 WHERE id IN (SELECT run FROM keys);
        DELETE FROM results WHERE run NOT IN (SELECT id FROM runs);",
    expiry!()
);

const FROM_6: &str = "
        ALTER TABLE runs ADD COLUMN kind TEXT; ALTER TABLE runs ADD COLUMN exit_code INTEGER;
        UPDATE runs SET kind = json_extract(result, '$.kind'),
            exit_code = json_extract(result, '$.exit_code') WHERE json_valid(result);";

/// The bytes of a page. A run changes about 20 pages, few bytes in each, and all of a changed page is written to
/// the log: 22 KiB for a run instead of 74 KiB with pages of 4 KiB, in two thirds of the processor time
/// (measured with these statements and 12,000 runs).
const PAGE: u32 = 1_024;
/// The pages in the log from which on a writer copies them itself, which takes the time of hundreds of
/// requests. [`RunStore::copy_log`] keeps the log shorter.
const LOG: u32 = 262_144;
/// The pages in the log from which on a writer copies those that [`RunStore::copy_log`] has left.
const LONG_LOG: i64 = 16_384;
/// The maximum number of runs or keys that a sweep removes in one transaction, in which requests wait.
/// Removing 200 runs from 18,000 took 8 ms, and a busy machine multiplies that.
const REMOVED: usize = 20;
/// The bytes of the runs that a sweep removes in one transaction from which on it removes no more. SQLite frees
/// each page.
const REMOVED_BYTES: u64 = 1 << 20;
/// What a link from a run to a blob takes in the database and its log, about twice the size of its row and of its
/// entry in the index.
const LINK: u64 = 512;
/// The maximum number of rows that a sweep examines in one transaction.
const EXAMINED: usize = 200;
/// The pause after a transaction that removed something. It bounds how fast the log grows, which
/// [`RunStore::copy_log`] has to keep shorter than [`LONG_LOG`].
const REMOVE_PAUSE: Duration = Duration::from_millis(10);
/// The pause after a transaction that only examined rows, so that waiting requests get the lock.
const EXAMINE_PAUSE: Duration = Duration::from_millis(2);
/// How long an idempotency key is remembered, in milliseconds.
pub const KEY_LIFE: i64 = 24 * 60 * 60 * 1000;
/// The time over which usage is summed, in minutes.
const HOUR: i64 = 60;
const MINUTE: i64 = 60_000;

/// The runs of a tenant.
#[derive(Debug)]
pub struct RunStore {
    database: Database,
    /// Opened once: closing one of several connections of a process releases the locks of all.
    open: Mutex<Connection>,
    /// Copies what was written from the log into the database, which waits for the disk.
    copier: Mutex<Connection>,
    /// Whether there is something to copy.
    is_behind: AtomicBool,
    /// Whether the next writer copies what is left.
    has_rest: AtomicBool,
}

/// The end of a run.
#[derive(Debug, Clone, Copy)]
pub struct EndOfRun<'a> {
    /// How it ended.
    pub status: RunStatus,
    /// The kind of its outcome.
    pub kind: Option<&'a str>,
    /// The exit code of its program.
    pub exit_code: Option<u8>,
    /// Its result, as JSON of the server.
    pub result: Option<&'a str>,
    /// The bytes that are stored of its output.
    pub output: u64,
    /// Standard output and error, if they are stored here and not in files.
    pub streams: [Option<&'a [u8]>; 2],
    /// The processor time that it used, in milliseconds.
    pub cpu_ms: u64,
    /// The bytes that went in and out.
    pub bytes: u64,
}

/// The store cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}: {why}", path.display())]
pub struct RunStoreError {
    /// The database.
    pub path: PathBuf,
    /// The cause.
    pub why: String,
}

/// Where a run is in its life.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// It waits for its turn.
    Queued,
    /// It runs.
    Running,
    /// The program exited with 0.
    Succeeded,
    /// It ended in another way, which the outcome describes.
    Failed,
    /// A client cancelled it.
    Cancelled,
    /// The server ended while it ran. It has no result, and whether it had an effect is unknown. In a
    /// fleet, all its attempts ended so, and an operator may queue it again.
    Lost,
    /// The worker ended while it ran, and it may have written to the network: it is not run again.
    Unknown,
}

/// A stored run.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// Its position in the order of submission.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The skill, as the client named it.
    pub skill: String,
    /// When it was submitted, in milliseconds since 1970.
    pub submitted: i64,
    /// When it started.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
    /// The kind of its outcome.
    pub kind: Option<String>,
    /// The exit code of its program.
    pub exit_code: Option<u8>,
}

/// A run to add.
#[derive(Debug)]
pub struct NewRun<'a> {
    /// Its id.
    pub id: &'a str,
    /// The skill, as the client named it.
    pub skill: &'a str,
    /// What was submitted, as JSON.
    pub request: &'a str,
    /// The digests of the blobs that it needs, which stay as long as the run does.
    pub blobs: &'a [&'a str],
    /// The idempotency key, and the digest of what was submitted with it.
    pub key: Option<(&'a str, &'a str)>,
    /// The most runs that may be queued.
    pub most_queued: u64,
    /// The time, in milliseconds since 1970.
    pub now: i64,
}

/// What came of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    /// The run was added.
    New,
    /// The same was submitted before under this key: the id of that run.
    Repeated(String),
    /// Something else was submitted under this key.
    OtherBody,
    /// Too many runs are queued.
    Full,
}

/// What a client lists.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only runs with this status.
    pub status: Option<RunStatus>,
    /// Only runs of this skill.
    pub skill: Option<String>,
    /// Only runs that were submitted before this one.
    pub before: Option<i64>,
    /// The most runs.
    pub limit: u32,
}

/// What a tenant used in the last hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HourlyUsage {
    /// Processor time of guests, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes that came in and went out.
    pub bytes: u64,
    /// Seconds until the oldest part no longer counts.
    pub expires_in: u64,
}

/// What a sweep removed from the database. The caller removes the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The ids of runs.
    pub runs: Vec<String>,
    /// The digests of blobs.
    pub blobs: Vec<String>,
    /// The digests of skills.
    pub skills: Vec<String>,
}

impl RunStatus {
    /// Checks whether the run has ended.
    pub fn has_ended(self) -> bool {
        !matches!(self, RunStatus::Queued | RunStatus::Running)
    }

    /// Returns the status as one word.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Queued => "queued",
            RunStatus::Running => "running",
            RunStatus::Succeeded => "succeeded",
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Lost => "lost",
            RunStatus::Unknown => "unknown",
        }
    }

    /// Returns the status of this name.
    pub fn of_name(name: &str) -> Option<RunStatus> {
        use RunStatus::{Cancelled, Failed, Lost, Queued, Running, Succeeded, Unknown};
        [Queued, Running, Succeeded, Failed, Cancelled, Lost, Unknown]
            .into_iter()
            .find(|status| status.name() == name)
    }
}

impl From<DatabaseError> for RunStoreError {
    fn from(DatabaseError { path, why }: DatabaseError) -> RunStoreError {
        RunStoreError { path, why }
    }
}

/// The columns of [`StoredRun`]. Requests and results may be large, and most readers need neither.
const COLUMNS: &str = "seq, id, status, skill, submitted, started, ended, kind, exit_code";

impl RunStore {
    /// Opens the database of a tenant, and creates it if it is missing.
    ///
    /// # Errors
    /// It cannot be created or opened, or another user may have written it.
    pub fn open(path: &Path) -> Result<RunStore, RunStoreError> {
        let database = Database::at(path, &TABLES);
        let open = database.connect()?;
        // A run must survive the server, and answering each request would otherwise wait for the
        // disk three times.
        open.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = {LOG};"
        ))
        .map_err(|error| database.broken(&error))?;
        let copier = Connection::open(path).map_err(|error| database.broken(&error))?;
        let (open, copier) = (Mutex::new(open), Mutex::new(copier));
        let (is_behind, has_rest) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(RunStore { database, open, copier, is_behind, has_rest })
    }

    /// Copies what was written from the log into the database. Waits for the disk, and lets others
    /// read and write meanwhile. If the log is long, the next writer copies the rest. Call it several times a
    /// second: otherwise, a writer that fills the log copies all of it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn copy_log(&self) -> Result<(), RunStoreError> {
        if !self.is_behind.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let copier = self.copier.lock().unwrap_or_else(PoisonError::into_inner);
        let pages = copy_log(&copier).map_err(|error| self.database.broken(&error))?;
        // Only when nothing is left to copy does a writer begin again at the start of the log.
        self.has_rest.store(pages > LONG_LOG, Ordering::Relaxed);
        Ok(())
    }

    /// Adds a run to the queue, unless its key is taken or the queue is full.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn submit(&self, run: &NewRun<'_>) -> Result<Submitted, RunStoreError> {
        self.write(|db| {
            if let Some(known) = run.key.map(|key| known_key(db, key, run.now)).transpose()?.flatten() {
                return Ok(known);
            }
            let queued: i64 = db.query_row(
                "SELECT count(*) FROM runs WHERE status = 'queued'",
                [],
                |row| row.get(0),
            )?;
            if unsigned(queued) >= run.most_queued {
                return Ok(Submitted::Full);
            }
            let bytes = clamped(run.request.len() as u64 + LINK * run.blobs.len() as u64);
            db.execute(
                "INSERT INTO runs (id, status, skill, submitted, request, bytes, keyed)
                 VALUES (?1, 'queued', ?2, ?3, ?4, ?5, ?6)",
                params![run.id, run.skill, run.now, run.request, bytes, run.key.is_some()],
            )?;
            keep(db, run.id, run.blobs)?;
            charge(db, 0, run.request.len() as u64, run.now)?;
            if let Some((key, digest)) = run.key {
                // The run that had this key before can now expire.
                db.execute(
                    "UPDATE runs SET keyed = 0 WHERE id IN (SELECT run FROM keys WHERE key = ?1)",
                    [key],
                )?;
                db.execute(
                    "INSERT OR REPLACE INTO keys (key, digest, run, created) VALUES (?1, ?2, ?3, ?4)",
                    params![key, digest, run.id, run.now],
                )?;
            }
            Ok(Submitted::New)
        })
    }

    /// Returns what [`RunStore::submit`] would answer because of the idempotency key; `None` if the
    /// key is not taken.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn submitted_before(
        &self,
        key: (&str, &str),
        now: i64,
    ) -> Result<Option<Submitted>, RunStoreError> {
        self.read(|db| known_key(db, key, now))
    }

    /// Returns what was submitted, as JSON.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn request(&self, id: &str) -> Result<Option<String>, RunStoreError> {
        self.read(|db| {
            let select = "SELECT request FROM runs WHERE id = ?1";
            db.query_row(select, [id], |row| row.get(0)).optional()
        })
    }

    /// Returns the result of a run, as JSON; `None` if it has none.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn result(&self, id: &str) -> Result<Option<String>, RunStoreError> {
        self.read(|db| {
            let select = "SELECT result FROM runs WHERE id = ?1";
            Ok(db.query_row(select, [id], |row| row.get(0)).optional()?.flatten())
        })
    }

    /// Returns the standard output and error of a run, each if it is stored here.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn streams(&self, id: &str) -> Result<[Option<Vec<u8>>; 2], RunStoreError> {
        self.read(|db| {
            let select = "SELECT stdout, stderr FROM runs WHERE id = ?1";
            let found = db.query_row(select, [id], |row| Ok([row.get(0)?, row.get(1)?]));
            found.optional().map(Option::unwrap_or_default)
        })
    }

    /// Returns a run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn get(&self, id: &str) -> Result<Option<StoredRun>, RunStoreError> {
        self.read(|db| {
            db.query_row(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"), [id], stored)
                .optional()
        })
    }

    /// Lists runs, the latest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<StoredRun>, RunStoreError> {
        self.read(|db| {
            let mut select = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM runs
                 WHERE seq < ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR skill = ?3)
                 ORDER BY seq DESC LIMIT ?4"
            ))?;
            let before = filter.before.unwrap_or(i64::MAX);
            let status = filter.status.map(RunStatus::name);
            select.query_map(params![before, status, filter.skill, filter.limit], stored)?.collect()
        })
    }

    /// Returns the ids of the runs that wait for their turn, the earliest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn queued(&self) -> Result<Vec<String>, RunStoreError> {
        self.read(|db| {
            let select = "SELECT id FROM runs WHERE status = 'queued' ORDER BY seq";
            db.prepare(select)?.query_map([], |row| row.get(0))?.collect()
        })
    }

    /// Marks a queued run as running. Returns whether it was queued.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn start(&self, id: &str, now: i64) -> Result<bool, RunStoreError> {
        let changed = self.write(|db| {
            db.execute(
                "UPDATE runs SET status = 'running', started = ?2 WHERE id = ?1 AND status = 'queued'",
                params![id, now],
            )
        })?;
        Ok(changed == 1)
    }

    /// Puts a run back into the queue that was started and has had no effect.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn requeue(&self, id: &str) -> Result<(), RunStoreError> {
        self.write(|db| {
            let update = "UPDATE runs SET status = 'queued', started = NULL WHERE id = ?1 AND status = 'running'";
            db.execute(update, [id]).map(|_| ())
        })
    }

    /// Stores the end of a run and what it used, once: a run that has ended keeps its result. Returns
    /// whether this was the end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn end(&self, id: &str, end: &EndOfRun<'_>, now: i64) -> Result<bool, RunStoreError> {
        let EndOfRun { status, kind, exit_code, result, output, streams, cpu_ms, bytes } = *end;
        let [stdout, stderr] = streams;
        let more = output.saturating_add(result.map_or(0, |result| result.len() as u64));
        let changed = self.write(|db| {
            let changed = db.execute(
                "UPDATE runs SET status = ?2, result = ?3, ended = ?4, bytes = bytes + ?5,
                     stdout = ?6, stderr = ?7, kind = ?8, exit_code = ?9
                 WHERE id = ?1 AND status IN ('queued', 'running')",
                params![
                    id,
                    status.name(),
                    result,
                    now,
                    clamped(more),
                    stdout,
                    stderr,
                    kind,
                    exit_code
                ],
            )?;
            if changed == 1 {
                charge(db, cpu_ms, bytes, now)?;
            }
            Ok(changed)
        })?;
        Ok(changed == 1)
    }

    /// Marks the runs as lost that a previous server was running. Returns their number.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn lose_running(&self, now: i64) -> Result<usize, RunStoreError> {
        self.write(|db| {
            db.execute(
                "UPDATE runs SET status = 'lost', ended = ?1 WHERE status = 'running'",
                [now],
            )
        })
    }

    /// Adds to the usage of the current minute.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn charge(&self, cpu_ms: u64, bytes: u64, now: i64) -> Result<(), RunStoreError> {
        self.write(|db| charge(db, cpu_ms, bytes, now))
    }

    /// Returns the usage of the last hour.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn usage(&self, now: i64) -> Result<HourlyUsage, RunStoreError> {
        self.read(|db| {
            db.query_row(
                "SELECT coalesce(sum(cpu_ms), 0), coalesce(sum(bytes), 0), min(minute) FROM usage WHERE minute > ?1",
                [now / MINUTE - HOUR],
                |row| {
                    let oldest: Option<i64> = row.get(2)?;
                    let expires = oldest.map_or(0, |minute| (minute + HOUR) * MINUTE - now);
                    Ok(HourlyUsage {
                        cpu_ms: unsigned(row.get(0)?),
                        bytes: unsigned(row.get(1)?),
                        expires_in: unsigned(expires / 1000) + 1,
                    })
                },
            )
        })
    }

    /// Notes that a blob was stored. Returns `false`, and notes nothing, if more than `storage` bytes
    /// would be stored with it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_blob(
        &self,
        digest: &str,
        bytes: u64,
        storage: u64,
        now: i64,
    ) -> Result<bool, RunStoreError> {
        self.write(|db| {
            let update = "UPDATE blobs SET used = ?2 WHERE digest = ?1";
            if db.execute(update, params![digest, now])? == 1 {
                return Ok(true);
            }
            if stored_bytes(db)?.saturating_add(bytes) > storage {
                return Ok(false);
            }
            let insert = "INSERT INTO blobs (digest, bytes, used) VALUES (?1, ?2, ?3)";
            db.execute(insert, params![digest, clamped(bytes), now])?;
            Ok(true)
        })
    }

    /// Checks whether a blob is stored.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_blob(&self, digest: &str) -> Result<bool, RunStoreError> {
        self.read(|db| {
            let select = "SELECT EXISTS (SELECT 1 FROM blobs WHERE digest = ?1)";
            db.query_row(select, [digest], |row| row.get(0))
        })
    }

    /// Checks whether a skill is stored.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn has_skill(&self, digest: &str) -> Result<bool, RunStoreError> {
        self.read(|db| {
            let select = "SELECT EXISTS (SELECT 1 FROM skills WHERE digest = ?1)";
            db.query_row(select, [digest], |row| row.get(0))
        })
    }

    /// Checks whether another thread uses the database now, so that the next call would wait.
    pub fn is_busy(&self) -> bool {
        matches!(self.open.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Keeps blobs as long as a run.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn keep_blobs(&self, run: &str, digests: &[&str]) -> Result<(), RunStoreError> {
        self.write(|db| {
            keep(db, run, digests)?;
            let bytes = clamped(LINK * digests.len() as u64);
            db.execute("UPDATE runs SET bytes = bytes + ?2 WHERE id = ?1", params![run, bytes])?;
            Ok(())
        })
    }

    /// Notes which run has the result of this key.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn remember_result(&self, key: &str, run: &str) -> Result<(), RunStoreError> {
        self.write(|db| {
            let insert = "INSERT OR REPLACE INTO results (key, run) VALUES (?1, ?2)";
            db.execute(insert, [key, run]).map(drop)
        })
    }

    /// Returns the run that has the result of this key, and its result; `None` if there is none, or
    /// if the run has not ended.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn known_result(&self, key: &str) -> Result<Option<(String, String)>, RunStoreError> {
        self.read(|db| {
            let select = "SELECT id, result FROM results JOIN runs ON runs.id = results.run
                WHERE key = ?1 AND status IN ('succeeded', 'failed') AND result IS NOT NULL";
            db.query_row(select, [key], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    /// Returns the size of a blob, and notes that it was used.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub fn use_blob(&self, digest: &str, now: i64) -> Result<Option<u64>, RunStoreError> {
        self.write(|db| {
            db.query_row(
                "UPDATE blobs SET used = ?2 WHERE digest = ?1 RETURNING bytes",
                params![digest, now],
                |row| row.get(0).map(unsigned),
            )
            .optional()
        })
    }

    /// Notes that a skill was uploaded. It replaces one of the same content. Returns `false`, and notes
    /// nothing, if more than `storage` bytes would be stored with it.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_skill(
        &self,
        digest: &str,
        name: &str,
        bytes: u64,
        storage: u64,
        now: i64,
    ) -> Result<bool, RunStoreError> {
        self.write(|db| {
            let select = "SELECT EXISTS (SELECT 1 FROM skills WHERE digest = ?1)";
            let is_known: bool = db.query_row(select, [digest], |row| row.get(0))?;
            if !is_known && stored_bytes(db)?.saturating_add(bytes) > storage {
                return Ok(false);
            }
            db.execute(
                // Not `OR REPLACE`, which calls no trigger for the row that it removes.
                "INSERT INTO skills (digest, name, bytes, used, uploaded) VALUES (?1, ?2, ?3, ?4, ?4)
                 ON CONFLICT (digest) DO UPDATE SET name = ?2, bytes = ?3, used = ?4, uploaded = ?4",
                params![digest, name, clamped(bytes), now],
            )?;
            Ok(true)
        })
    }

    /// Finds an uploaded skill by its digest or, the latest, by its name. Returns its digest and its
    /// name, and notes that it was used.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub fn use_skill(
        &self,
        named: &str,
        now: i64,
    ) -> Result<Option<(String, String)>, RunStoreError> {
        self.write(|db| {
            db.query_row(
                "UPDATE skills SET used = ?2 WHERE digest = (
                     SELECT digest FROM skills WHERE digest = ?1 OR name = ?1 ORDER BY uploaded DESC, digest LIMIT 1
                 ) RETURNING digest, name",
                params![named, now],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
        })
    }

    /// Returns the bytes of all blobs, skills, requests, results and outputs.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn stored_bytes(&self) -> Result<u64, RunStoreError> {
        self.read(stored_bytes)
    }

    /// Returns the earliest time such that the blobs and skills that have been used since then fit into this
    /// many bytes, in milliseconds since 1970; `None` if all of them fit.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn last_used_within(&self, bytes: u64) -> Result<Option<i64>, RunStoreError> {
        // Those that were used at the same time stay or go together.
        const BEYOND: &str = "
            SELECT used + 1 FROM (
                SELECT used, sum(bytes) OVER (ORDER BY used DESC RANGE UNBOUNDED PRECEDING) AS total
                FROM (SELECT used, bytes FROM blobs UNION ALL SELECT used, bytes FROM skills)
            ) WHERE total > ?1 ORDER BY used DESC LIMIT 1";
        self.read(|db| db.query_row(BEYOND, [clamped(bytes)], |row| row.get(0)).optional())
    }

    /// Removes expired data in small transactions: keys, runs that ended before `results`, and blobs and
    /// skills that were last used before `uploads`. After each transaction, calls `removed` with what was
    /// removed, so that the caller can delete its files. Continues until nothing is left or `stop` returns
    /// true. Times are in milliseconds since 1970.
    ///
    /// # Errors
    /// The database cannot be written. Earlier transactions stay committed.
    pub fn sweep(
        &self,
        (results, uploads, now): (i64, i64, i64),
        stop: &dyn Fn() -> bool,
        removed: &mut dyn FnMut(&Swept),
    ) -> Result<(), RunStoreError> {
        self.in_parts(stop, &mut |_| {}, |db| {
            let keys = remove_keys(db, now - KEY_LIFE)?;
            Ok((Swept::default(), keys == REMOVED))
        })?;
        self.in_parts(stop, removed, |db| {
            let (runs, is_full) = remove_runs(db, results)?;
            Ok((Swept { runs, ..Swept::default() }, is_full))
        })?;
        let mut last = String::new();
        self.in_parts(stop, &mut |_| {}, |db| {
            let is_full = remove_unused_links(db, &mut last)?;
            Ok((Swept::default(), is_full))
        })?;
        last.clear();
        self.in_parts(stop, removed, |db| {
            let (blobs, is_full) = remove_blobs(db, uploads, &mut last)?;
            Ok((Swept { blobs, ..Swept::default() }, is_full))
        })?;
        self.in_parts(stop, removed, |db| {
            let delete = "DELETE FROM skills WHERE used < ?1 RETURNING digest";
            let mut delete = db.prepare_cached(delete)?;
            let skills = delete.query_map([uploads], |row| row.get(0))?;
            Ok((Swept { skills: skills.collect::<Result<_, _>>()?, ..Swept::default() }, false))
        })
    }

    /// Calls `part` in transactions of its own until it returns that there is no more, and lets requests
    /// use the database in between.
    fn in_parts(
        &self,
        stop: &dyn Fn() -> bool,
        removed: &mut dyn FnMut(&Swept),
        mut part: impl FnMut(&Connection) -> rusqlite::Result<(Swept, bool)>,
    ) -> Result<(), RunStoreError> {
        while !stop() {
            let (swept, has_more, has_changed) = self.write(|db| {
                let before = db.total_changes();
                let (swept, has_more) = part(db)?;
                Ok((swept, has_more, db.total_changes() > before))
            })?;
            removed(&swept);
            if !has_more {
                break;
            }
            std::thread::sleep(if has_changed { REMOVE_PAUSE } else { EXAMINE_PAUSE });
        }
        Ok(())
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RunStoreError> {
        let db = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        work(&db).map_err(|error| self.database.broken(&error).into())
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RunStoreError> {
        let mut db = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let done = || {
            let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            self.is_behind.store(true, Ordering::Relaxed);
            if self.has_rest.swap(false, Ordering::Relaxed) {
                // It has been written, whatever comes of this; the copier reports what fails.
                copy_log(&db).ok();
            }
            Ok(done)
        };
        done().map_err(|error: rusqlite::Error| self.database.broken(&error).into())
    }
}

/// Removes up to [`REMOVED`] keys that were created by a time. Returns how many.
fn remove_keys(db: &Connection, until: i64) -> rusqlite::Result<usize> {
    let mut delete = db.prepare_cached(
        "DELETE FROM keys WHERE rowid IN (
             SELECT rowid FROM keys WHERE created <= ?1 LIMIT ?2
         ) RETURNING run",
    )?;
    let runs = delete.query_map(params![until, REMOVED as i64], |row| row.get(0))?;
    let runs: Vec<String> = runs.collect::<rusqlite::Result<_>>()?;
    let mut update = db.prepare_cached("UPDATE runs SET keyed = 0 WHERE id = ?1")?;
    runs.iter().try_for_each(|run| update.execute([run]).map(drop))?;
    Ok(runs.len())
}

/// Removes up to [`REMOVED`] runs that ended before a time. Returns their ids, and whether there are more. Keeps
/// a run whose key is still remembered.
fn remove_runs(db: &Connection, before: i64) -> rusqlite::Result<(Vec<String>, bool)> {
    let select = "SELECT id, bytes FROM runs WHERE ended < ?1 AND keyed = 0 LIMIT ?2";
    let mut select = db.prepare_cached(select)?;
    let mut expired = select.query(params![before, REMOVED as i64])?;
    let (mut removed, mut bytes) = (Vec::new(), 0);
    while bytes < REMOVED_BYTES
        && let Some(row) = expired.next()?
    {
        removed.push(row.get(0)?);
        bytes += unsigned(row.get(1)?);
    }
    let is_full = removed.len() == REMOVED || bytes >= REMOVED_BYTES;
    for delete in [
        "DELETE FROM runs WHERE id = ?1",
        "DELETE FROM results WHERE run = ?1",
        "DELETE FROM run_blobs WHERE run = ?1",
    ] {
        let mut delete = db.prepare_cached(delete)?;
        removed.iter().try_for_each(|run: &String| delete.execute([run]).map(drop))?;
    }
    Ok((removed, is_full))
}

/// Removes links to blobs whose run is not in this database, such as those of programs of sessions.
/// Examines up to [`EXAMINED`] links after the run `last`, and sets `last` to the last run that it examined.
/// Returns whether there are more.
fn remove_unused_links(db: &Connection, last: &mut String) -> rusqlite::Result<bool> {
    let select = "SELECT run FROM run_blobs WHERE run > ?1 ORDER BY run LIMIT ?2";
    let Some((end, is_full)) = part(db, select, last)? else { return Ok(false) };
    let delete = "DELETE FROM run_blobs WHERE run > ?1 AND run <= ?2
        AND NOT EXISTS (SELECT 1 FROM runs WHERE id = run_blobs.run)";
    db.prepare_cached(delete)?.execute([&*last, &end])?;
    *last = end;
    Ok(is_full)
}

/// Removes blobs that no run uses and that were last used before a time. Examines up to [`EXAMINED`] blobs
/// after `last`, and sets `last` to the last one that it examined. Returns the digests of those that it
/// removed, and whether there are more.
fn remove_blobs(
    db: &Connection,
    before: i64,
    last: &mut String,
) -> rusqlite::Result<(Vec<String>, bool)> {
    let select = "SELECT digest FROM blobs WHERE digest > ?1 ORDER BY digest LIMIT ?2";
    let Some((end, is_full)) = part(db, select, last)? else { return Ok((Vec::new(), false)) };
    let delete = "DELETE FROM blobs WHERE digest > ?1 AND digest <= ?2 AND used < ?3
        AND NOT EXISTS (SELECT 1 FROM run_blobs WHERE digest = blobs.digest) RETURNING digest";
    let removed = db
        .prepare_cached(delete)?
        .query_map(params![&*last, end, before], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    *last = end;
    Ok((removed, is_full))
}

/// Returns the key at which the next part of a table ends, and whether the part is full; `None` if there
/// are no rows after `after`.
fn part(db: &Connection, select: &str, after: &str) -> rusqlite::Result<Option<(String, bool)>> {
    let mut select = db.prepare_cached(select)?;
    let keys = select.query_map(params![after, EXAMINED as i64], |row| row.get(0))?;
    let mut keys: Vec<String> = keys.collect::<rusqlite::Result<_>>()?;
    let is_full = keys.len() == EXAMINED;
    Ok(keys.pop().map(|last| (last, is_full)))
}

fn known_key(
    db: &Connection,
    (key, digest): (&str, &str),
    now: i64,
) -> rusqlite::Result<Option<Submitted>> {
    let known = db
        .query_row(
            "SELECT digest, run FROM keys WHERE key = ?1 AND created > ?2",
            params![key, now - KEY_LIFE],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )
        .optional()?;
    Ok(known.map(|(same, id)| match same == digest {
        true => Submitted::Repeated(id),
        false => Submitted::OtherBody,
    }))
}

fn charge(db: &Connection, cpu_ms: u64, bytes: u64, now: i64) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO usage (minute, cpu_ms, bytes) VALUES (?1, ?2, ?3)
         ON CONFLICT (minute) DO UPDATE SET cpu_ms = cpu_ms + ?2, bytes = bytes + ?3",
        params![now / MINUTE, clamped(cpu_ms), clamped(bytes)],
    )?;
    db.execute("DELETE FROM usage WHERE minute <= ?1", [now / MINUTE - HOUR]).map(|_| ())
}

fn keep(db: &Connection, run: &str, digests: &[&str]) -> rusqlite::Result<()> {
    let insert = "INSERT OR IGNORE INTO run_blobs (run, digest) VALUES (?1, ?2)";
    let mut insert = db.prepare_cached(insert)?;
    digests.iter().try_for_each(|digest| insert.execute([run, digest]).map(drop))
}

fn stored_bytes(db: &Connection) -> rusqlite::Result<u64> {
    db.query_row("SELECT bytes FROM stored", [], |row| row.get(0).map(unsigned))
}

/// Copies as much of the log into the database as others allow. Returns how many pages the log has.
fn copy_log(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))
}

/// SQLite's numbers are signed.
fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredRun> {
    let status: String = row.get(2)?;
    Ok(StoredRun {
        seq: row.get(0)?,
        id: row.get(1)?,
        status: RunStatus::of_name(&status).ok_or(rusqlite::Error::InvalidQuery)?,
        skill: row.get(3)?,
        submitted: row.get(4)?,
        started: row.get(5)?,
        ended: row.get(6)?,
        kind: row.get(7)?,
        exit_code: row.get(8)?,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;

    fn end(status: RunStatus, result: Option<&str>, output: u64) -> EndOfRun<'_> {
        EndOfRun {
            status,
            kind: None,
            exit_code: None,
            result,
            output,
            streams: [None, None],
            cpu_ms: 3,
            bytes: 4,
        }
    }

    /// Removes what is too old, and returns it.
    fn sweep(store: &RunStore, results: i64, uploads: i64, now: i64) -> Swept {
        let mut all = Swept::default();
        let mut add = |swept: &Swept| {
            all.runs.extend(swept.runs.clone());
            all.blobs.extend(swept.blobs.clone());
            all.skills.extend(swept.skills.clone());
        };
        store.sweep((results, uploads, now), &|| false, &mut add).unwrap();
        all
    }

    fn run<'a>(id: &'a str, key: Option<(&'a str, &'a str)>, now: i64) -> NewRun<'a> {
        NewRun { id, skill: "one", request: "{}", blobs: &[], key, most_queued: 2, now }
    }

    #[test]
    fn a_key_names_one_run_for_a_day_and_survives_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let store = RunStore::open(&path).unwrap();
        assert_eq!(store.submit(&run("a", Some(("k", "1")), 0)).unwrap(), Submitted::New);
        drop(store);
        let store = RunStore::open(&path).unwrap();
        let again = store.submit(&run("b", Some(("k", "1")), 1)).unwrap();
        assert_eq!(again, Submitted::Repeated("a".into()));
        assert_eq!(store.submit(&run("b", Some(("k", "2")), 1)).unwrap(), Submitted::OtherBody);
        let later = store.submit(&run("b", Some(("k", "2")), KEY_LIFE)).unwrap();
        assert_eq!(later, Submitted::New, "the key has expired");
        assert_eq!(store.submit(&run("c", None, KEY_LIFE)).unwrap(), Submitted::Full);
    }

    #[test]
    fn a_run_ends_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        store.submit(&run("a", None, 0)).unwrap();
        assert!(store.start("a", 1).unwrap() && !store.start("a", 1).unwrap());
        let result = r#"{"kind":"exited","exit_code":0,"diff":"x"}"#;
        let ended = EndOfRun {
            kind: Some("exited"),
            exit_code: Some(0),
            streams: [Some(b"hello"), None],
            ..end(RunStatus::Succeeded, Some(result), 5)
        };
        assert!(store.end("a", &ended, 2).unwrap());
        assert!(!store.end("a", &end(RunStatus::Cancelled, None, 0), 3).unwrap());
        let found = store.get("a").unwrap().unwrap();
        assert_eq!(found.status, RunStatus::Succeeded);
        assert_eq!((found.kind.as_deref(), found.exit_code), (Some("exited"), Some(0)));
        assert_eq!(store.result("a").unwrap().as_deref(), Some(result));
        assert_eq!(store.streams("a").unwrap(), [Some(b"hello".to_vec()), None]);
        assert_eq!(store.streams("b").unwrap(), [None, None]);
        assert_eq!(store.request("a").unwrap().as_deref(), Some("{}"));
        let usage = store.usage(3).unwrap();
        assert_eq!((usage.cpu_ms, usage.bytes), (3, 4 + 2), "of the run, and of its request");
        store.copy_log().unwrap();
        // The request, the result and the output.
        assert_eq!(store.stored_bytes().unwrap(), 2 + result.len() as u64 + 5);
        assert!(store.get("b").unwrap().is_none() && store.result("b").unwrap().is_none());
        assert!(store.request("b").unwrap().is_none());
    }

    #[test]
    fn runs_of_a_killed_server_are_lost_and_queued_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        store.submit(&run("a", None, 0)).unwrap();
        store.submit(&run("b", None, 0)).unwrap();
        store.start("a", 1).unwrap();
        assert_eq!(store.lose_running(2).unwrap(), 1);
        assert_eq!(store.get("a").unwrap().unwrap().status, RunStatus::Lost);
        assert_eq!(store.queued().unwrap(), ["b"]);
    }

    #[test]
    fn lists_are_filtered_and_continue_where_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for id in ["a", "b"] {
            store.submit(&run(id, None, 0)).unwrap();
            store.end(id, &end(RunStatus::Failed, None, 0), 0).unwrap();
        }
        store.submit(&run("c", None, 0)).unwrap();
        let ids = |filter: RunFilter| -> Vec<String> {
            store.list(&filter).unwrap().into_iter().map(|run| run.id).collect()
        };
        let all = RunFilter { limit: 10, ..RunFilter::default() };
        assert_eq!(ids(all.clone()), ["c", "b", "a"]);
        assert_eq!(ids(RunFilter { status: Some(RunStatus::Failed), ..all.clone() }), ["b", "a"]);
        assert_eq!(ids(RunFilter { skill: Some("two".into()), ..all.clone() }), [""; 0]);
        let first = store.list(&RunFilter { limit: 1, ..all.clone() }).unwrap();
        assert_eq!(ids(RunFilter { before: Some(first[0].seq), ..all }), ["b", "a"]);
    }

    #[test]
    fn usage_counts_for_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        store.charge(5, 7, 0).unwrap();
        store.charge(5, 7, 10 * MINUTE).unwrap();
        let usage = store.usage(30 * MINUTE).unwrap();
        assert_eq!((usage.cpu_ms, usage.bytes, usage.expires_in), (10, 14, 1801));
        assert_eq!(store.usage(61 * MINUTE).unwrap().cpu_ms, 5);
        assert_eq!(store.usage(200 * MINUTE).unwrap().bytes, 0);
    }

    #[test]
    fn a_sweep_removes_what_is_old_and_no_run_of_a_remembered_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for (id, key) in [("a", None), ("b", Some(("k", "1")))] {
            store.submit(&run(id, key, 0)).unwrap();
            store.end(id, &end(RunStatus::Failed, None, 0), 10).unwrap();
        }
        assert!(store.put_blob("x", 5, 100, 0).unwrap());
        assert!(store.put_blob("y", 6, 100, 0).unwrap());
        assert_eq!(store.use_blob("y", 50).unwrap(), Some(6));
        assert_eq!(store.use_blob("z", 50).unwrap(), None);
        assert!(store.put_skill("s", "one", 7, 100, 0).unwrap());
        assert_eq!(store.stored_bytes().unwrap(), 18 + 4, "two requests of two bytes");
        assert_eq!(store.use_skill("one", 1).unwrap(), Some(("s".into(), "one".into())));
        let swept = sweep(&store, 20, 20, 100);
        let gone = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let expected = Swept { runs: gone(&["a"]), blobs: gone(&["x"]), skills: gone(&["s"]) };
        assert_eq!(swept, expected);
        assert_eq!(store.stored_bytes().unwrap(), 6 + 2, "a blob and a request");
        assert_eq!(sweep(&store, 20, 20, KEY_LIFE).runs, ["b"]);
        let many: Vec<String> = (0..EXAMINED + 1).map(|number| format!("{number:04}")).collect();
        for id in &many {
            store.submit(&run(id, None, 0)).unwrap();
            store.end(id, &end(RunStatus::Failed, None, 0), 10).unwrap();
        }
        let mut swept = sweep(&store, 20, 20, 100).runs;
        swept.sort();
        assert_eq!(swept, many);
    }

    #[test]
    fn rows_removed_before_a_failure_or_a_stop_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for digest in ["x", "y"] {
            store.put_blob(digest, 1, 100, 0).unwrap();
        }
        for number in 0..=REMOVED {
            store.submit(&run(&number.to_string(), None, 0)).unwrap();
            store.end(&number.to_string(), &end(RunStatus::Failed, None, 0), 10).unwrap();
        }
        let mut reported = Vec::new();
        let parts = std::cell::Cell::new(0);
        // One part for keys, and one for the first runs.
        let stop = || parts.replace(parts.get() + 1) >= 2;
        store
            .sweep((20, 20, 100), &stop, &mut |swept| reported.extend(swept.runs.clone()))
            .unwrap();
        assert_eq!(reported.len(), REMOVED);
        {
            let db = store.open.lock().unwrap();
            let fail = "CREATE TRIGGER fails BEFORE DELETE ON blobs BEGIN SELECT raise(ABORT, 'full'); END;";
            db.execute_batch(fail).unwrap();
        }
        let failed =
            store.sweep((20, 20, 100), &|| false, &mut |swept| reported.extend(swept.runs.clone()));
        assert!(failed.is_err(), "{failed:?}");
        assert_eq!(reported.len(), REMOVED + 1);
    }

    #[test]
    fn a_run_goes_when_another_run_has_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for (id, now) in [("a", 0), ("b", KEY_LIFE)] {
            assert_eq!(store.submit(&run(id, Some(("k", id)), now)).unwrap(), Submitted::New);
            store.end(id, &end(RunStatus::Failed, None, 0), now).unwrap();
        }
        assert_eq!(sweep(&store, KEY_LIFE + 1, 0, KEY_LIFE + 1).runs, ["a"]);
        assert_eq!(sweep(&store, KEY_LIFE + 1, 0, 2 * KEY_LIFE).runs, ["b"]);
    }

    #[test]
    fn old_runs_and_keys_are_found_by_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        let plan = |query: &str| -> Vec<String> {
            let db = store.open.lock().unwrap();
            let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
            plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect()
        };
        for (query, index) in [
            ("SELECT seq FROM runs WHERE ended < 5 AND keyed = 0 LIMIT 9", "runs_by_end"),
            ("SELECT rowid FROM keys WHERE created <= 5 LIMIT 9", "keys_by_time"),
            ("DELETE FROM results WHERE run = 'a'", "results_by_run"),
        ] {
            let plan = plan(query);
            assert!(plan.len() == 1 && plan[0].starts_with("SEARCH"), "{plan:?}");
            assert!(plan[0].contains(index), "{plan:?}");
        }
    }

    #[test]
    fn what_would_exceed_the_storage_is_not_noted() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        assert!(store.put_blob("x", 6, 10, 0).unwrap());
        assert!(!store.put_blob("y", 5, 10, 0).unwrap() && !store.has_blob("y").unwrap());
        assert!(store.put_blob("x", 6, 1, 0).unwrap(), "it is stored already");
        assert!(!store.put_skill("s", "one", 5, 10, 0).unwrap());
        assert!(store.put_skill("s", "one", 4, 10, 0).unwrap());
    }

    #[test]
    fn the_log_stays_short_while_runs_are_submitted_all_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let store = RunStore::open(&path).unwrap();
        let request = "x".repeat(64 << 10);
        let is_written = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..3_000 {
                    let id = number.to_string();
                    let new =
                        NewRun { request: &request, most_queued: u64::MAX, ..run(&id, None, 0) };
                    assert_eq!(store.submit(&new).unwrap(), Submitted::New);
                }
                is_written.store(true, Ordering::Relaxed);
            });
            while !is_written.load(Ordering::Relaxed) {
                store.copy_log().unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let log = std::fs::metadata(folder.path().join("runs.db-wal")).unwrap().len();
        let page: u32 =
            store.read(|db| db.pragma_query_value(None, "page_size", |row| row.get(0))).unwrap();
        assert_eq!(page, PAGE);
        let (long, written) =
            (LONG_LOG.unsigned_abs() * u64::from(PAGE), 3_000 * request.len() as u64);
        assert!(log < 8 * long && written > 11 * long, "{log} bytes");
    }

    #[test]
    fn what_was_used_last_fits_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        assert_eq!(store.last_used_within(0).unwrap(), None);
        for (digest, used) in [("a", 10), ("b", 20), ("c", 20)] {
            assert!(store.put_blob(digest, 4, 100, used).unwrap());
        }
        assert!(store.put_skill("s", "one", 4, 100, 30).unwrap());
        assert_eq!(store.last_used_within(16).unwrap(), None);
        assert_eq!(store.last_used_within(15).unwrap(), Some(11));
        assert_eq!(store.last_used_within(11).unwrap(), Some(21), "`b` and `c` go together");
        assert_eq!(store.last_used_within(3).unwrap(), Some(31));
        let since = store.last_used_within(12).unwrap().unwrap();
        assert_eq!(sweep(&store, 0, since, 100).blobs, ["a"]);
    }

    #[test]
    fn an_older_file_gets_the_bytes_that_it_stores() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        let store = RunStore::open(&path).unwrap();
        store.submit(&run("a", Some(("k", "1")), 0)).unwrap();
        let result = r#"{"kind":"exited","exit_code":3}"#;
        store.end("a", &end(RunStatus::Failed, Some(result), 0), 10).unwrap();
        store.put_blob("x", 5, 100, 0).unwrap();
        store.put_skill("s", "one", 7, 100, 0).unwrap();
        let stored = 2 + result.len() as u64 + 5 + 7;
        let older = "DROP TABLE stored; CREATE INDEX bytes_of_runs ON runs (bytes);
            DROP INDEX keys_by_time; DROP INDEX results_by_run; DROP INDEX runs_by_end;
            ALTER TABLE runs DROP COLUMN stdout; ALTER TABLE runs DROP COLUMN stderr;
            ALTER TABLE runs DROP COLUMN keyed;
            ALTER TABLE runs DROP COLUMN kind; ALTER TABLE runs DROP COLUMN exit_code;
            PRAGMA user_version = 3;";
        {
            let db = store.open.lock().unwrap();
            let mut select =
                db.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
            let triggers: Vec<String> =
                select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            for trigger in triggers {
                db.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
            }
            db.execute_batch(older).unwrap();
        }
        drop(store);
        let store = RunStore::open(&path).unwrap();
        assert_eq!(store.stored_bytes().unwrap(), stored);
        store.put_skill("s", "one", 9, 100, 0).unwrap();
        store.put_blob("y", 1, 100, 0).unwrap();
        assert_eq!(store.stored_bytes().unwrap(), stored + 2 + 1);
        let found = store.get("a").unwrap().unwrap();
        assert_eq!((found.kind.as_deref(), found.exit_code), (Some("exited"), Some(3)));
        assert_eq!(store.streams("a").unwrap(), [None, None]);
        assert_eq!(sweep(&store, 20, 0, 100), Swept::default(), "the key is remembered");
        assert_eq!(sweep(&store, 20, 0, KEY_LIFE).runs, ["a"]);
    }

    #[test]
    fn the_blobs_of_a_run_stay_as_long_as_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for digest in ["in", "out", "other"] {
            store.put_blob(digest, 1, 100, 0).unwrap();
        }
        store.submit(&NewRun { blobs: &["in"], ..run("a", None, 0) }).unwrap();
        assert_eq!(sweep(&store, 50, 50, 100).blobs.len(), 2, "all but `in`");
        let before = store.stored_bytes().unwrap();
        assert!(!store.put_blob("out", 1, 100, 0).unwrap(), "a link counts as stored");
        assert!(store.put_blob("out", 1, 10_000, 0).unwrap());
        store.keep_blobs("a", &["out", "out"]).unwrap();
        assert_eq!(store.stored_bytes().unwrap(), before + 1 + 2 * LINK);
        store.end("a", &end(RunStatus::Succeeded, None, 0), 60).unwrap();
        assert_eq!(sweep(&store, 50, 50, 100), Swept::default());
        let mut swept = sweep(&store, 70, 50, 100);
        swept.blobs.sort();
        assert_eq!((swept.runs, swept.blobs), (vec!["a".into()], vec!["in".into(), "out".into()]));
    }

    #[test]
    fn a_name_means_the_latest_upload_however_often_others_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        store.put_skill("old", "one", 1, 100, 1).unwrap();
        store.put_skill("new", "one", 1, 100, 2).unwrap();
        store.use_skill("old", 9).unwrap();
        assert_eq!(store.use_skill("one", 10).unwrap().unwrap().0, "new");
    }

    #[test]
    fn a_result_is_known_once_its_run_has_ended_and_as_long_as_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        store.submit(&run("a", None, 0)).unwrap();
        store.remember_result("k", "a").unwrap();
        assert_eq!(store.known_result("k").unwrap(), None, "it has not ended");
        store.end("a", &end(RunStatus::Succeeded, Some("{}"), 0), 10).unwrap();
        assert_eq!(store.known_result("k").unwrap(), Some(("a".into(), "{}".into())));
        assert_eq!(store.known_result("l").unwrap(), None);
        for (id, status) in [("b", RunStatus::Cancelled), ("c", RunStatus::Lost)] {
            store.submit(&run(id, None, 0)).unwrap();
            store.remember_result("l", id).unwrap();
            store.end(id, &end(status, Some("{}"), 0), 10).unwrap();
            assert_eq!(store.known_result("l").unwrap(), None, "{status:?}");
        }
        sweep(&store, 20, 20, 100);
        assert_eq!(store.known_result("k").unwrap(), None, "it has expired");
    }

    #[test]
    fn a_key_is_found_before_anything_is_stored() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        assert_eq!(store.submitted_before(("k", "1"), 0).unwrap(), None);
        store.submit(&run("a", Some(("k", "1")), 0)).unwrap();
        let found = |digest| store.submitted_before(("k", digest), 1).unwrap();
        assert_eq!(found("1"), Some(Submitted::Repeated("a".into())));
        assert_eq!(found("2"), Some(Submitted::OtherBody));
    }
}
