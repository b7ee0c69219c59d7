//! The host's own databases: SQLite files that this user alone may read, made when they are first
//! needed, with tables of a known form.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Row, TransactionBehavior};

use skillhost_skill::ownership;
use skillhost_skill::private;

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
    /// The statements that turn a file of the form before into one of this form.
    pub(crate) upgrade: Option<&'static str>,
}

/// A file that cannot be read or written.
#[derive(Debug)]
pub(crate) struct DatabaseError {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

impl Database {
    /// The file at that place. Does no work.
    pub(crate) fn at(path: &Path, tables: &'static Tables) -> Database {
        Database { path: path.to_owned(), tables }
    }

    /// The number that its owner has put into the head of the file by `PRAGMA application_id`, read
    /// without opening the database, which takes as long as a small run. `None` where only the
    /// database can tell. Not while another thread uses the database: see [`make_private`].
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
        // With a journal, what was read may not be what holds.
        let is_certain = is_ours && std::fs::symlink_metadata(journal).is_err();
        Some(number(68)).filter(|mark| is_certain && *mark > 0)
    }

    /// Whether there is a file.
    pub(crate) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Rows; none where there is no file.
    pub(crate) fn all<T>(
        &self,
        select: &str,
        with: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, DatabaseError> {
        let rows = self.read(|db| db.prepare(select)?.query_map(with, read)?.collect())?;
        Ok(rows.unwrap_or_default())
    }

    /// What `work` finds; `None` where there is no file.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, DatabaseError> {
        if !self.is_there() {
            return Ok(None);
        }
        work(&mut self.connect()?).map(Some).map_err(|error| self.broken(&error))
    }

    /// Does `work` as one: all of it is there afterwards, or nothing.
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

    fn connect(&self) -> Result<Connection, DatabaseError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        private::create_missing(folder).map_err(|error| self.broken(&error))?;
        let Tables { form: known, make, upgrade } = self.tables;
        let make = format!("BEGIN IMMEDIATE; {make} PRAGMA user_version = {known}; COMMIT;");
        make_private(&self.path, &make).map_err(|error| self.broken(&error))?;
        let found = rustix::fs::stat(&self.path).map_err(|error| self.broken(&error))?;
        ownership::check(&self.path, &found).map_err(|error| self.broken(&error))?;
        let open = || {
            let db = Connection::open(&self.path)?;
            db.busy_timeout(BUSY)?;
            let form: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            match upgrade {
                _ if form == 0 => db.execute_batch(&make)?,
                Some(upgrade) if form + 1 == *known => upgrade_once(&db, upgrade, *known)?,
                _ => return Ok((db, form)),
            }
            Ok((db, *known))
        };
        match open().map_err(|error: rusqlite::Error| self.broken(&error))? {
            (db, form) if form == *known => Ok(db),
            (_, form) => Err(self.broken(&format!(
                "its tables are of form {form}, and this version knows form {known}"
            ))),
        }
    }

    fn broken(&self, why: &dyn std::fmt::Display) -> DatabaseError {
        DatabaseError { path: self.path.clone(), why: why.to_string() }
    }
}

/// Brings the file to a form, unless another process has done so since its form was read.
fn upgrade_once(db: &Connection, upgrade: &str, to: i64) -> rusqlite::Result<()> {
    let transaction = rusqlite::Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    let form: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if form < to {
        transaction.execute_batch(upgrade)?;
        transaction.pragma_update(None, "user_version", to)?;
    }
    transaction.commit()
}

/// Makes a database that this user alone may read, where there is none: SQLite would make it
/// readable for all. What it puts beside it gets the same mode. It comes to its place with its
/// tables, so that nobody meets one that is being made: some statements wait for no lock. Nor is
/// the file itself opened: whoever closes one gives up the locks that his process has on it,
/// SQLite's in other threads too (<https://www.sqlite.org/howtocorrupt.html>).
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
        // Or another was quicker.
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test breaks its own files")]
mod tests {
    use super::*;

    const TABLES: Tables =
        Tables { form: 3, make: "CREATE TABLE a (b); PRAGMA application_id = 7;", upgrade: None };
    const OTHER: Tables = Tables { form: 4, ..TABLES };

    #[test]
    fn a_mark_is_what_the_database_would_say_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let database = Database::at(&path, &TABLES);
        assert_eq!(database.mark(), None, "it is not there");
        database.write(|db| db.execute("INSERT INTO a VALUES (1)", [])).unwrap();
        assert_eq!(database.mark(), Some(7));
        let told = |mark: u32| {
            database.write(|db| db.pragma_update(None, "application_id", mark)).unwrap()
        };
        told(8);
        assert_eq!(database.mark(), Some(8));
        let undone = database.write(|db| {
            db.pragma_update(None, "application_id", 9)
                .and(Err::<(), _>(rusqlite::Error::InvalidQuery))
        });
        assert!(undone.is_err() && database.mark() == Some(8), "{:?}", database.mark());
        let journal = folder.path().join("a.db-journal");
        std::fs::write(&journal, "").unwrap();
        assert_eq!(database.mark(), None, "somebody writes, or died of it");
        std::fs::remove_file(journal).unwrap();
        assert_eq!(Database::at(&path, &OTHER).mark(), None, "another version's");
        told(0);
        assert_eq!(database.mark(), None, "made before there were marks");
        std::fs::write(&path, "SQLite format 3").unwrap();
        assert_eq!(database.mark(), None, "cut");
    }

    #[test]
    fn the_mark_of_another_user_s_database_does_not_count() {
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
