//! The host's own databases: SQLite files that this user alone may read, made when they are first needed, with tables of a known form.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior};

/// How long one process waits for another, which writes some rows.
const BUSY: Duration = Duration::from_secs(10);

/// A file, which need not be there.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    path: PathBuf,
    tables: &'static Tables,
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Their form, above 0, as `user_version`. A file of another one is left alone.
    pub(crate) form: i64,
    /// The statements that make them, where they are not there yet.
    pub(crate) make: &'static str,
}

/// A file that cannot be read or written.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl Database {
    /// The file at that place. Does no work.
    pub(crate) fn at(path: &Path, tables: &'static Tables) -> Database {
        Database { path: path.to_owned(), tables }
    }

    /// Rows; none where there is no file.
    pub(crate) fn all<T>(
        &self,
        select: &str,
        with: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Broken> {
        let rows = self.read(|db| db.prepare(select)?.query_map(with, read)?.collect())?;
        Ok(rows.unwrap_or_default())
    }

    /// What `work` finds; `None` where there is no file.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<Option<T>, Broken> {
        if !self.path.exists() {
            return Ok(None);
        }
        work(&mut self.connect()?).map(Some).map_err(|error| self.broken(&error))
    }

    /// Does `work` as one: all of it is there afterwards, or nothing.
    pub(crate) fn write<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Broken> {
        let mut db = self.connect()?;
        let done = db.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        done.map_err(|error| self.broken(&error))
    }

    fn connect(&self) -> Result<Connection, Broken> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| self.broken(&error))?;
        // SQLite would make it readable for all; what it puts beside it gets the same mode.
        #[expect(clippy::disallowed_methods, reason = "the databases are the host's own")]
        let made = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path);
        made.map_err(|error| self.broken(&error))?;
        let Tables { form: known, make } = self.tables;
        let open = || {
            let db = Connection::open(&self.path)?;
            db.busy_timeout(BUSY)?;
            let form: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if form == 0 {
                db.execute_batch(&format!("BEGIN IMMEDIATE; {make} PRAGMA user_version = {known}; COMMIT;"))?;
            }
            Ok((db, form))
        };
        match open().map_err(|error: rusqlite::Error| self.broken(&error))? {
            (db, form) if form == 0 || form == *known => Ok(db),
            (_, form) => Err(self.broken(&format!("its tables are of form {form}, and this version knows form {known}"))),
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> Broken {
        Broken { path: self.path.clone(), why: why.to_string() }
    }
}
