//! The host's own databases: SQLite files that only this user can read, created when they are first
//! needed.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior};

use skillhost_skill::ownership;
use skillhost_skill::private;

/// How long one process waits for another, which only writes a few rows.
const BUSY: Duration = Duration::from_secs(10);

/// A database file, which may be missing.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    path: PathBuf,
    tables: &'static Tables,
}

/// The default of SQLite.
pub(crate) const PAGE: u32 = 4_096;

/// The tables of a database.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Their version, above 0, stored as `user_version`. A file with another version is not
    /// touched.
    pub(crate) form: i64,
    /// The statements that create the tables if they do not exist.
    pub(crate) make: &'static str,
    /// The bytes of a page of a new file.
    pub(crate) page: u32,
    /// The statements that upgrade a file: from version 1 to 2, from 2 to 3, and so on.
    pub(crate) upgrades: &'static [&'static str],
}

/// A database that cannot be read or written.
#[derive(Debug)]
pub(crate) struct DatabaseError {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl Database {
    /// Names a file. Does no work.
    pub(crate) fn at(path: &Path, tables: &'static Tables) -> Database {
        Database { path: path.to_owned(), tables }
    }

    /// Reads the number that `PRAGMA application_id` has stored in the file header. Opening the
    /// database would take as long as a small run. `None` if only the database can tell. Do not
    /// call it while another thread uses the database: see [`make_private`].
    pub(crate) fn mark(&self) -> Option<u32> {
        // https://www.sqlite.org/fileformat2.html#the_database_header
        const NAME: &[u8] = b"SQLite format 3\0";
        const JOURNALLED: [u8; 2] = [1, 1];
        let mut head = [0; 72];
        #[expect(clippy::disallowed_methods, reason = "the databases are the host's own")]
        let file = std::fs::File::open(&self.path).ok()?;
        ownership::check(&self.path, &rustix::fs::fstat(&file).ok()?).ok()?;
        file.read_exact_at(&mut head, 0).ok()?;
        let mut journal = self.path.clone().into_os_string();
        journal.push("-journal");
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let is_ours = head.starts_with(NAME)
            && head[18..20] == JOURNALLED
            && i64::from(number(60)) == self.tables.form;
        // While a journal exists, the header may be out of date.
        let is_certain = is_ours && std::fs::symlink_metadata(journal).is_err();
        Some(number(68)).filter(|mark| is_certain && *mark > 0)
    }

    /// Checks whether the file exists.
    pub(crate) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Returns the rows of a query; none if the file does not exist.
    pub(crate) fn all<T>(
        &self,
        select: &str,
        with: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, DatabaseError> {
        let rows = self.read(|db| db.prepare(select)?.query_map(with, read)?.collect())?;
        Ok(rows.unwrap_or_default())
    }

    /// Returns the result of `work`; `None` if the file does not exist.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, DatabaseError> {
        if !self.is_there() {
            return Ok(None);
        }
        work(&mut self.connect()?).map(Some).map_err(|error| self.broken(&error))
    }

    /// Runs `work` in one transaction.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let mut db = self.connect()?;
        let done =
            db.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                let done = work(&transaction)?;
                transaction.commit()?;
                Ok(done)
            });
        done.map_err(|error| self.broken(&error))
    }

    /// Opens the file, and creates it if it is missing.
    pub(crate) fn connect(&self) -> Result<Connection, DatabaseError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private::create_missing(folder).map_err(|error| self.broken(&error))?;
        let Tables { form: known, make, page, upgrades } = self.tables;
        // The size of pages has no effect on a file that has any.
        let make = format!(
            "PRAGMA page_size = {page}; BEGIN IMMEDIATE; {make} PRAGMA user_version = {known}; COMMIT;"
        );
        make_private(&self.path, &make).map_err(|error| self.broken(&error))?;
        let found = rustix::fs::stat(&self.path).map_err(|error| self.broken(&error))?;
        ownership::check(&self.path, &found).map_err(|error| self.broken(&error))?;
        let open = || {
            let db = Connection::open(&self.path)?;
            db.busy_timeout(BUSY)?;
            let form: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            match form {
                0 => db.execute_batch(&make)?,
                1.. if form < *known && !upgrades.is_empty() => upgrade(&db, upgrades, *known)?,
                _ => return Ok((db, form)),
            }
            Ok((db, *known))
        };
        match open().map_err(|error: rusqlite::Error| self.broken(&error))? {
            (db, form) if form == *known => Ok(db),
            (_, form) => Err(self.broken(&format!(
                "its tables have version {form}, and this version of skillhost supports version {known}"
            ))),
        }
    }

    pub(crate) fn broken(&self, why: &dyn std::fmt::Display) -> DatabaseError {
        DatabaseError { path: self.path.clone(), why: why.to_string() }
    }
}

/// Upgrades the file to a version, unless another process has done so since its version was read.
fn upgrade(db: &Connection, upgrades: &[&str], to: i64) -> rusqlite::Result<()> {
    let transaction = rusqlite::Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let form: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (from, statements) in (1..to).zip(upgrades) {
        if from >= form {
            transaction.execute_batch(statements)?;
        }
    }
    transaction.pragma_update(None, "user_version", form.max(to))?;
    transaction.commit()
}

/// Creates a database that only this user can read; SQLite would make it readable for everyone.
/// SQLite's other files get the same mode. The file appears under its name together with its
/// tables, since some statements do not wait for locks. An existing file is not opened, because
/// closing it would release the locks that other threads of this process hold on it
/// (<https://www.sqlite.org/howtocorrupt.html>).
pub fn make_private(path: &Path, tables: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let new =
        tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?.into_temp_path();
    let make = || {
        let db = Connection::open(&new)?;
        db.execute_batch(tables)?;
        db.close().map_err(|(_, error)| error)
    };
    make().map_err(io::Error::other)?;
    match new.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        // Or another process was faster.
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test breaks its own files")]
mod tests {
    use super::*;

    const TABLES: Tables = Tables {
        form: 3,
        make: "CREATE TABLE a (b); PRAGMA application_id = 7;",
        page: PAGE,
        upgrades: &[],
    };
    const OTHER: Tables = Tables { form: 4, ..TABLES };

    #[test]
    fn marks_match_the_database_and_are_absent_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Database::at(&path, &TABLES);
        assert_eq!(database.mark(), None, "the database does not exist yet");
        database.write(|db| db.execute("INSERT INTO a VALUES (1)", [])).unwrap();
        assert_eq!(database.mark(), Some(7));
        let set_mark = |mark: u32| {
            database.write(|db| db.pragma_update(None, "application_id", mark)).unwrap()
        };
        set_mark(8);
        assert_eq!(database.mark(), Some(8));
        let undone = database.write(|db| {
            db.pragma_update(None, "application_id", 9)
                .and(Err::<(), _>(rusqlite::Error::InvalidQuery))
        });
        assert!(undone.is_err() && database.mark() == Some(8), "{:?}", database.mark());
        let journal = folder.path().join("a.db-journal");
        std::fs::write(&journal, "").unwrap();
        assert_eq!(database.mark(), None, "another process writes, or died while writing");
        std::fs::remove_file(journal).unwrap();
        assert_eq!(Database::at(&path, &OTHER).mark(), None, "another version's");
        set_mark(0);
        assert_eq!(database.mark(), None, "created before marks existed");
        std::fs::write(&path, "SQLite format 3").unwrap();
        assert_eq!(database.mark(), None, "cut");
    }

    #[test]
    fn the_mark_of_another_users_database_is_ignored() {
        // Only root can give a file away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Database::at(&path, &TABLES);
        database.write(|db| db.execute("INSERT INTO a VALUES (1)", [])).unwrap();
        assert_eq!(database.mark(), Some(7));
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert_eq!(database.mark(), None);
    }
}
