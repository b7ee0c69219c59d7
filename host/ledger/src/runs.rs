//! The runs of one tenant of the run API: the queue, the results, the idempotency keys, and what the
//! tenant used in the last hour. One database per tenant, so that no query can reach another's rows.
//!
//! Requests and results are JSON of the server, which this module stores and does not read. A run is
//! stored before its client is answered, so a server that is killed loses none.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};

use crate::database::{Database, DatabaseError, Tables};

static TABLES: Tables = Tables {
    form: 1,
    make: "
        CREATE TABLE IF NOT EXISTS runs (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            status TEXT NOT NULL,
            skill TEXT NOT NULL,
            submitted INTEGER NOT NULL,
            started INTEGER,
            ended INTEGER,
            request TEXT NOT NULL,
            result TEXT
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
            used INTEGER NOT NULL
        );",
    upgrades: &[],
};

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
    /// The server ended while it ran. It has no result, and whether it had an effect is unknown.
    Lost,
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
    /// What was submitted, as JSON.
    pub request: String,
    /// Its result, as JSON.
    pub result: Option<String>,
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
        }
    }

    /// Returns the status of this name.
    pub fn of_name(name: &str) -> Option<RunStatus> {
        use RunStatus::{Cancelled, Failed, Lost, Queued, Running, Succeeded};
        [Queued, Running, Succeeded, Failed, Cancelled, Lost]
            .into_iter()
            .find(|status| status.name() == name)
    }
}

impl From<DatabaseError> for RunStoreError {
    fn from(DatabaseError { path, why }: DatabaseError) -> RunStoreError {
        RunStoreError { path, why }
    }
}

const COLUMNS: &str = "seq, id, status, skill, submitted, started, ended, request, result";

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
        open.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
            .map_err(|error| database.broken(&error))?;
        Ok(RunStore { database, open: Mutex::new(open) })
    }

    /// Adds a run to the queue, unless its key is taken or the queue is full.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn submit(&self, run: &NewRun<'_>) -> Result<Submitted, RunStoreError> {
        self.write(|db| {
            if let Some((key, digest)) = run.key {
                let known = db
                    .query_row(
                        "SELECT digest, run FROM keys WHERE key = ?1 AND created > ?2",
                        params![key, run.now - KEY_LIFE],
                        |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
                    )
                    .optional()?;
                match known {
                    Some((same, id)) if same == digest => return Ok(Submitted::Repeated(id)),
                    Some(_) => return Ok(Submitted::OtherBody),
                    None => {}
                }
            }
            let queued: i64 = db.query_row(
                "SELECT count(*) FROM runs WHERE status = 'queued'",
                [],
                |row| row.get(0),
            )?;
            if unsigned(queued) >= run.most_queued {
                return Ok(Submitted::Full);
            }
            db.execute(
                "INSERT INTO runs (id, status, skill, submitted, request) VALUES (?1, 'queued', ?2, ?3, ?4)",
                params![run.id, run.skill, run.now, run.request],
            )?;
            if let Some((key, digest)) = run.key {
                db.execute(
                    "INSERT OR REPLACE INTO keys (key, digest, run, created) VALUES (?1, ?2, ?3, ?4)",
                    params![key, digest, run.id, run.now],
                )?;
            }
            Ok(Submitted::New)
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

    /// Lists runs, the latest first, without their requests, and with the fields `kind` and `exit_code`
    /// of their results only.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn list(&self, filter: &RunFilter) -> Result<Vec<StoredRun>, RunStoreError> {
        self.read(|db| {
            let mut select = db.prepare_cached(
                "SELECT seq, id, status, skill, submitted, started, ended, '', json_object(
                     'kind', json_extract(result, '$.kind'), 'exit_code', json_extract(result, '$.exit_code')
                 ) FROM runs
                 WHERE seq < ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR skill = ?3)
                 ORDER BY seq DESC LIMIT ?4",
            )?;
            let before = filter.before.unwrap_or(i64::MAX);
            let status = filter.status.map(RunStatus::name);
            select.query_map(params![before, status, filter.skill, filter.limit], stored)?.collect()
        })
    }

    /// Returns the runs that wait for their turn, the earliest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn queued(&self) -> Result<Vec<StoredRun>, RunStoreError> {
        self.read(|db| {
            let select = format!("SELECT {COLUMNS} FROM runs WHERE status = 'queued' ORDER BY seq");
            db.prepare(&select)?.query_map([], stored)?.collect()
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

    /// Stores the end of a run, once: a run that has ended keeps its result. Returns whether this was
    /// the end.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn end(
        &self,
        id: &str,
        status: RunStatus,
        result: Option<&str>,
        now: i64,
    ) -> Result<bool, RunStoreError> {
        let changed = self.write(|db| {
            db.execute(
                "UPDATE runs SET status = ?2, result = ?3, ended = ?4
                 WHERE id = ?1 AND status IN ('queued', 'running')",
                params![id, status.name(), result, now],
            )
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
        self.write(|db| {
            db.execute(
                "INSERT INTO usage (minute, cpu_ms, bytes) VALUES (?1, ?2, ?3)
                 ON CONFLICT (minute) DO UPDATE SET cpu_ms = cpu_ms + ?2, bytes = bytes + ?3",
                params![now / MINUTE, clamped(cpu_ms), clamped(bytes)],
            )?;
            db.execute("DELETE FROM usage WHERE minute <= ?1", [now / MINUTE - HOUR]).map(|_| ())
        })
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

    /// Notes that a blob was stored or used.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_blob(&self, digest: &str, bytes: u64, now: i64) -> Result<(), RunStoreError> {
        self.write(|db| {
            db.execute(
                "INSERT INTO blobs (digest, bytes, used) VALUES (?1, ?2, ?3)
                 ON CONFLICT (digest) DO UPDATE SET used = ?3",
                params![digest, clamped(bytes), now],
            )
            .map(|_| ())
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

    /// Notes that a skill was uploaded. It replaces one of the same content.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn put_skill(
        &self,
        digest: &str,
        name: &str,
        bytes: u64,
        now: i64,
    ) -> Result<(), RunStoreError> {
        self.write(|db| {
            db.execute(
                "INSERT OR REPLACE INTO skills (digest, name, bytes, used) VALUES (?1, ?2, ?3, ?4)",
                params![digest, name, clamped(bytes), now],
            )
            .map(|_| ())
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
                     SELECT digest FROM skills WHERE digest = ?1 OR name = ?1 ORDER BY used DESC, digest LIMIT 1
                 ) RETURNING digest, name",
                params![named, now],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
        })
    }

    /// Returns the bytes of all blobs and skills.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn stored_bytes(&self) -> Result<u64, RunStoreError> {
        self.read(|db| {
            db.query_row(
                "SELECT (SELECT coalesce(sum(bytes), 0) FROM blobs) + (SELECT coalesce(sum(bytes), 0) FROM skills)",
                [],
                |row| row.get(0).map(unsigned),
            )
        })
    }

    /// Removes what is too old: keys, runs that ended before `results`, and blobs and skills that were
    /// last used before `uploads`.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn sweep(&self, results: i64, uploads: i64, now: i64) -> Result<Swept, RunStoreError> {
        self.write(|db| {
            db.execute("DELETE FROM keys WHERE created <= ?1", [now - KEY_LIFE])?;
            let removed = |statement: &str, before: i64| -> rusqlite::Result<Vec<String>> {
                db.prepare(statement)?.query_map([before], |row| row.get(0))?.collect()
            };
            // A key that is still remembered must find its run.
            let runs = removed(
                "DELETE FROM runs WHERE ended < ?1 AND id NOT IN (SELECT run FROM keys) RETURNING id",
                results,
            )?;
            let blobs = removed("DELETE FROM blobs WHERE used < ?1 RETURNING digest", uploads)?;
            let skills = removed("DELETE FROM skills WHERE used < ?1 RETURNING digest", uploads)?;
            Ok(Swept { runs, blobs, skills })
        })
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
            Ok(done)
        };
        done().map_err(|error: rusqlite::Error| self.database.broken(&error).into())
    }
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
        request: row.get(7)?,
        result: row.get(8)?,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use super::*;

    fn run<'a>(id: &'a str, key: Option<(&'a str, &'a str)>, now: i64) -> NewRun<'a> {
        NewRun { id, skill: "one", request: "{}", key, most_queued: 2, now }
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
        assert!(store.end("a", RunStatus::Succeeded, Some("{}"), 2).unwrap());
        assert!(!store.end("a", RunStatus::Cancelled, None, 3).unwrap());
        let found = store.get("a").unwrap().unwrap();
        assert_eq!((found.status, found.result.as_deref()), (RunStatus::Succeeded, Some("{}")));
        assert!(store.get("b").unwrap().is_none());
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
        let queued: Vec<String> = store.queued().unwrap().into_iter().map(|run| run.id).collect();
        assert_eq!(queued, ["b"]);
    }

    #[test]
    fn lists_are_filtered_and_continue_where_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::open(&folder.path().join("runs.db")).unwrap();
        for id in ["a", "b"] {
            store.submit(&run(id, None, 0)).unwrap();
            store.end(id, RunStatus::Failed, None, 0).unwrap();
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
            store.end(id, RunStatus::Failed, None, 10).unwrap();
        }
        store.put_blob("x", 5, 0).unwrap();
        store.put_blob("y", 6, 0).unwrap();
        assert_eq!(store.use_blob("y", 50).unwrap(), Some(6));
        assert_eq!(store.use_blob("z", 50).unwrap(), None);
        store.put_skill("s", "one", 7, 0).unwrap();
        assert_eq!(store.stored_bytes().unwrap(), 18);
        assert_eq!(store.use_skill("one", 1).unwrap(), Some(("s".into(), "one".into())));
        let swept = store.sweep(20, 20, 100).unwrap();
        let gone = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let expected = Swept { runs: gone(&["a"]), blobs: gone(&["x"]), skills: gone(&["s"]) };
        assert_eq!(swept, expected);
        assert_eq!(store.sweep(20, 20, KEY_LIFE).unwrap().runs, ["b"]);
    }
}
