//! The cache: one SQLite file with the facts about each skill, found by path and file stamps, and a
//! full-text index.
//!
//! Everything in the cache can be read again. A file that is broken, or that another version
//! created, is discarded. If no file can be written, the same tables are created in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::CatalogError;
use skillhost_ledger::database::make_private;
use skillhost_skill::private;

/// The name of the file in the cache folder.
const NAME: &str = "catalog.db";
/// The files of the cache in the cache folder: [`NAME`] and those that SQLite puts next to it.
pub const FILES: [&str; 4] =
    ["catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-journal"];
/// How long one process waits for another that writes. Writing ten thousand new skills takes
/// seconds.
const BUSY: Duration = Duration::from_secs(20);
/// Marks our files, as `application_id`: `sklh`.
const OURS: i64 = 0x736b_6c68;
/// The version of the tables, as `user_version`. Change it too if other facts are extracted from a
/// SKILL.md.
const FORM: i64 = 4;

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    BEGIN IMMEDIATE;
    CREATE TABLE source (id INTEGER PRIMARY KEY, folder BLOB NOT NULL, links INTEGER NOT NULL, generation INTEGER NOT NULL, left_out TEXT NOT NULL,
        UNIQUE (folder, links));
    CREATE TABLE searched (source INTEGER NOT NULL, path BLOB NOT NULL, stamp BLOB NOT NULL, PRIMARY KEY (source, path)) WITHOUT ROWID;
    CREATE TABLE skill (id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, path BLOB NOT NULL, file TEXT NOT NULL, stamp BLOB NOT NULL,
        flags INTEGER NOT NULL, digest TEXT NOT NULL, tags TEXT NOT NULL, description TEXT NOT NULL, hint TEXT NOT NULL, broken TEXT, UNIQUE (source, path));
    CREATE VIRTUAL TABLE words USING fts5 (name, description, keywords, body,
        content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2');
    CREATE TABLE word (word TEXT PRIMARY KEY) WITHOUT ROWID;
    PRAGMA application_id = 1936419944;
    PRAGMA user_version = 4;
    COMMIT;";

/// Why the catalogue cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum CacheError {
    #[error(transparent)]
    Index(#[from] rusqlite::Error),
    #[error(transparent)]
    Value(#[from] rusqlite::types::FromSqlError),
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Source(#[from] CatalogError),
}

impl From<CacheError> for CatalogError {
    fn from(failed: CacheError) -> CatalogError {
        match failed {
            CacheError::Source(error) => error,
            failed => CatalogError::Index(failed.to_string()),
        }
    }
}

/// An open cache.
pub(super) struct Cache {
    pub(super) db: Connection,
    /// `None` if it is in memory.
    path: Option<PathBuf>,
}

impl Cache {
    /// Opens the cache in a folder, and creates it if it is missing.
    pub(super) fn open(folder: Option<&Path>) -> Result<Cache, CacheError> {
        let Some(path) = folder.map(|folder| folder.join(NAME)) else { return Cache::in_memory() };
        match connect(&path) {
            Ok(db) => Ok(Cache { db, path: Some(path) }),
            Err(error) => {
                Cache { db: Connection::open_in_memory()?, path: Some(path) }.after(&error)
            }
        }
    }

    /// Replaces the cache after an error: by a new file if it was broken, or by one in memory.
    pub(super) fn after(self, error: &CacheError) -> Result<Cache, CacheError> {
        let Cache { db, path } = self;
        drop(db);
        let Some(path) = path else { return Cache::in_memory() };
        if is_broken(error) {
            let reopened =
                throw_away(&path).map_err(CacheError::from).and_then(|()| connect(&path));
            if let Ok(db) = reopened {
                return Ok(Cache { db, path: Some(path) });
            }
        }
        tracing::warn!(path = %path.display(), %error, "cannot use the cache file; keeping the catalogue in memory");
        Cache::in_memory()
    }

    /// Checks whether the cache is a file, so that another one may work better.
    pub(super) fn is_on_disk(&self) -> bool {
        self.path.is_some()
    }

    fn in_memory() -> Result<Cache, CacheError> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(TABLES)?;
        Ok(Cache { db, path: None })
    }
}

fn connect(path: &Path) -> Result<Connection, CacheError> {
    if let Some(folder) = path.parent() {
        private::open_or_create(folder)?;
    }
    make_private(path, TABLES)?;
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    // After a power cut the cache is simply rebuilt.
    db.pragma_update(None, "synchronous", "OFF")?;
    if pragma(&db, "user_version")? == 0
        && db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0
    {
        match db.execute_batch(TABLES) {
            // Another process created them in the meantime; end the transaction that ours began.
            Err(_) if pragma(&db, "user_version")? != 0 => {
                db.execute_batch("ROLLBACK").or(Ok::<(), rusqlite::Error>(()))?
            }
            made => made?,
        }
    }
    match (pragma(&db, "application_id")?, pragma(&db, "user_version")?) {
        (OURS, FORM) => Ok(db),
        _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
    }
}

fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, name, |row| row.get(0))
}

/// Checks whether the file is broken or not ours. A full disk or a lock does not count.
fn is_broken(error: &CacheError) -> bool {
    match error {
        CacheError::Index(error) => !matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
            )
        ),
        CacheError::File(error) => error.kind() == io::ErrorKind::InvalidData,
        CacheError::Value(_) => true,
        CacheError::Source(_) => false,
    }
}

/// Removes the cache from a folder. Processes that have it open keep using it, and the next one
/// reads all skills again.
///
/// # Errors
/// A file cannot be removed.
pub fn clear(folder: &Path) -> io::Result<()> {
    throw_away(&folder.join(NAME))
}

/// Removes the file and SQLite's files next to it. Processes that have them open keep using them.
fn throw_away(path: &Path) -> io::Result<()> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
