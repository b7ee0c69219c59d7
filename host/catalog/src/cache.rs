//! The cache: one SQLite file with what is known of each skill, by path and the stamps of its
//! files, and the index of their words.
//!
//! It holds nothing that cannot be read again. A file that is broken, or that another version made,
//! is thrown away; where none can be written, the same tables are in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::CatalogError;
use skillhost_ledger::database::make_private;
use skillhost_skill::private;

/// The file in the cache folder.
const NAME: &str = "catalog.db";
/// How long one process waits for another that writes, which takes seconds for ten thousand new
/// skills.
const BUSY: Duration = Duration::from_secs(20);
/// Whose file it is, as `application_id`: `sklh`.
const OURS: i64 = 0x736b_6c68;
/// The form of the tables, as `user_version`. What is taken from a SKILL.md belongs to it.
const FORM: i64 = 2;

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    BEGIN IMMEDIATE;
    CREATE TABLE source (id INTEGER PRIMARY KEY, folder BLOB NOT NULL, links INTEGER NOT NULL, generation INTEGER NOT NULL, left_out TEXT NOT NULL,
        UNIQUE (folder, links));
    CREATE TABLE searched (source INTEGER NOT NULL, path BLOB NOT NULL, stamp BLOB NOT NULL, PRIMARY KEY (source, path)) WITHOUT ROWID;
    CREATE TABLE skill (id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, path BLOB NOT NULL, file TEXT NOT NULL, stamp BLOB NOT NULL,
        flags INTEGER NOT NULL, digest TEXT NOT NULL, tags TEXT NOT NULL, description TEXT NOT NULL, broken TEXT, UNIQUE (source, path));
    CREATE VIRTUAL TABLE words USING fts5 (name, description, keywords, body,
        content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2');
    CREATE TABLE word (word TEXT PRIMARY KEY) WITHOUT ROWID;
    PRAGMA application_id = 1936419944;
    PRAGMA user_version = 2;
    COMMIT;";

/// What goes wrong while the catalogue is put together.
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

/// The cache, open.
pub(super) struct Cache {
    pub(super) db: Connection,
    /// `None`: it is in memory.
    path: Option<PathBuf>,
}

impl Cache {
    /// The cache in a folder, which is made where it is missing.
    pub(super) fn open(folder: Option<&Path>) -> Result<Cache, CacheError> {
        let Some(path) = folder.map(|folder| folder.join(NAME)) else { return Cache::in_memory() };
        match connect(&path) {
            Ok(db) => Ok(Cache { db, path: Some(path) }),
            Err(error) => {
                Cache { db: Connection::open_in_memory()?, path: Some(path) }.after(&error)
            }
        }
    }

    /// The cache to go on with after an error: a file made anew where it was broken, else one in
    /// memory.
    pub(super) fn after(self, error: &CacheError) -> Result<Cache, CacheError> {
        let Cache { db, path } = self;
        drop(db);
        let Some(path) = path else { return Cache::in_memory() };
        if is_broken(error) {
            let anew = throw_away(&path).map_err(CacheError::from).and_then(|()| connect(&path));
            if let Ok(db) = anew {
                return Ok(Cache { db, path: Some(path) });
            }
        }
        tracing::warn!(path = %path.display(), %error, "the catalogue is kept in memory alone");
        Cache::in_memory()
    }

    /// Whether another may do better.
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
    // A cache that a power cut took is read anew.
    db.pragma_update(None, "synchronous", "OFF")?;
    if pragma(&db, "user_version")? == 0
        && db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0
    {
        match db.execute_batch(TABLES) {
            // Another process made them meanwhile; what it began is not ours to go on with.
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

/// Whether the file is none of ours, or not as it was written; a full disk or a lock is not that.
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

/// Removes the file and what SQLite has beside it. A process that has them open goes on with what
/// it has.
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
