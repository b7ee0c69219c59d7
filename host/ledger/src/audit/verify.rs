//! Verifies the log: every record is unchanged, present and in order.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;

use super::AuditError;
use super::chain::{ChainHead, Link};
use super::columns::{Columns, RunEvent};
use super::journal::beside;
use super::store::{LogStore, Oddity, number, pruned};

/// The most faults to report one by one.
const MAX_FAULTS: usize = 1000;

/// The result of verifying every record.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Verification {
    /// The number of records.
    pub records: u64,
    /// The last record. If it is kept elsewhere, a log that lost its end can be recognised.
    pub head: ChainHead,
    /// The last record that was removed because of its age or the size of the log; the rest starts
    /// after it.
    pub pruned: Option<ChainHead>,
    /// The number of runs whose start is recorded and whose end is not: their host was killed, or
    /// still runs them.
    pub unfinished: u64,
    /// Bytes of records that were cut short, by a kill or a full disk, and set aside.
    pub torn: u64,
    /// The faults, in the order of the records: at most 1,000.
    pub faults: Vec<Fault>,
    /// The number of further faults.
    pub faults_omitted: u64,
}

/// A difference between the log and what was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Fault {
    /// What happened to the record.
    pub kind: FaultKind,
    /// The record, or the first of several.
    pub sequence: u64,
    /// The last of several, or the same.
    pub last: u64,
    /// The description.
    pub message: String,
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// Its content does not match its digest.
    Changed,
    /// It was replaced together with its digest: the next record follows a different one.
    Replaced,
    /// It is missing.
    Missing,
    /// It is in another place than where it was written.
    Moved,
    /// The host did not write it there.
    Foreign,
    /// The database's index does not match the record.
    Misfiled,
}

impl LogStore {
    /// Checks every record. `known` is a head that was kept elsewhere: that record must be present
    /// and unchanged.
    ///
    /// # Errors
    /// The database cannot be read. Faults of the log are not errors.
    pub fn verify(&self, known: Option<&ChainHead>) -> Result<Verification, AuditError> {
        let mut walk = Walk { faults: Vec::new(), omitted: 0 };
        let verified = walk.all(self, known).map_err(|error| self.failed(&error))?;
        let Walk { mut faults, omitted: faults_omitted } = walk;
        faults.sort_by_key(|fault| fault.sequence);
        let torn = beside(&self.path, "torn").metadata().map_or(0, |meta| meta.len());
        Ok(Verification { torn, faults, faults_omitted, ..verified })
    }
}

struct Walk {
    faults: Vec<Fault>,
    omitted: u64,
}

impl Walk {
    fn all(
        &mut self,
        store: &LogStore,
        known: Option<&ChainHead>,
    ) -> rusqlite::Result<Verification> {
        let db = &store.db;
        let pruned = pruned(db)?;
        let mut expected = pruned.clone().unwrap_or_else(ChainHead::start);
        // Whether the next record has to follow the digest in `expected`.
        let mut joined = true;
        let (mut records, mut names, mut announced) = (0, 0, pruned.is_none());
        let mut unfinished = BTreeMap::new();
        let mut statement =
            db.prepare("SELECT sequence, time, skill, status, line FROM record ORDER BY sequence")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let sequence = row.get::<_, i64>(0)?.cast_unsigned();
            let line = row.get_ref(4)?.as_blob()?;
            records += 1;
            if sequence > expected.sequence + 1 {
                self.report(FaultKind::Missing, expected.sequence + 1, sequence - 1, "missing");
                joined = false;
            }
            let Some(link) = Link::of(line).filter(|link| link.sequence == sequence) else {
                self.report(
                    FaultKind::Changed,
                    sequence,
                    sequence,
                    "damaged: not a valid record of this number",
                );
                (expected.sequence, joined) = (sequence, false);
                continue;
            };
            if joined && link.previous != expected.digest {
                let before = expected.sequence.max(1);
                self.report(
                    FaultKind::Replaced,
                    before,
                    before,
                    "not the original: the next record follows a different one",
                );
            }
            if !link.holds() {
                self.report(
                    FaultKind::Changed,
                    sequence,
                    sequence,
                    "modified: its digest does not match",
                );
            }
            (expected, joined) = (link.head(), true);
            let columns = Columns::of(line);
            if (columns.time, columns.skill.as_str(), columns.status.as_str())
                != (row.get(1)?, row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?)
                || !filed(db, sequence, &columns)?
            {
                self.report(
                    FaultKind::Misfiled,
                    sequence,
                    sequence,
                    "not indexed correctly: the database was altered",
                );
            }
            names += columns.names.len() as u64;
            match columns.run {
                Some(RunEvent::Start(run)) => drop(unfinished.insert(run, sequence)),
                Some(RunEvent::End(run)) => drop(unfinished.remove(&run)),
                None => {}
            }
            announced |= columns.status == "pruned"
                && pruned.as_ref().is_some_and(|pruned| announces(line, pruned));
        }
        self.rest(store, &expected, known, names)?;
        if listed(db)? != unfinished {
            self.report(
                FaultKind::Misfiled,
                0,
                0,
                "not listed correctly as unfinished: the database was altered",
            );
        }
        if let Some(head) = pruned.as_ref().filter(|_| !announced) {
            self.report(
                FaultKind::Missing,
                1,
                head.sequence,
                "missing, and no record documents their removal",
            );
        }
        let unfinished = unfinished.len() as u64;
        Ok(Verification {
            records,
            head: expected,
            pruned,
            unfinished,
            torn: 0,
            faults: Vec::new(),
            faults_omitted: 0,
        })
    }

    /// Checks what the records alone cannot show.
    fn rest(
        &mut self,
        store: &LogStore,
        head: &ChainHead,
        known: Option<&ChainHead>,
        names: u64,
    ) -> rusqlite::Result<()> {
        let db = &store.db;
        let filed: i64 = db.query_row("SELECT count(*) FROM name", [], |row| row.get(0))?;
        if filed.cast_unsigned() > names {
            self.report(
                FaultKind::Misfiled,
                0,
                0,
                "indexed by names that they do not contain: the database was altered",
            );
        }
        let mut statement = db.prepare("SELECT sequence, what FROM oddity ORDER BY sequence")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (sequence, what) =
                (row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, String>(1)?);
            let (kind, what) = match Oddity::from_name(&what) {
                Some(Oddity::OutOfOrder) => {
                    (FaultKind::Moved, "was moved: it follows a record with a higher number")
                }
                Some(Oddity::Differs) => {
                    (FaultKind::Foreign, "was modified: log and database disagree")
                }
                Some(Oddity::WrongAnchor) => {
                    (FaultKind::Foreign, "differs from the one that the journal continues")
                }
                Some(Oddity::NotARecord) | None => {
                    (FaultKind::Foreign, "is followed by a line that is not a record")
                }
            };
            self.push(kind, sequence, sequence, format!("record {sequence} {what}"));
        }
        // A journal continues where the previous one ended, so its end is never before the last
        // known record.
        let end = store.journal.as_ref().map_or(0, |end| end.sequence);
        if end < head.sequence {
            self.report(
                FaultKind::Missing,
                end + 1,
                head.sequence,
                "missing from the journal, whose end was cut off; the database has them",
            );
        }
        if let Some(known) = known {
            let here = store.db.query_row(
                "SELECT line FROM record WHERE sequence = ?1",
                [number(known.sequence)],
                |row| row.get::<_, Vec<u8>>(0),
            );
            let here = match here {
                Err(rusqlite::Error::QueryReturnedNoRows) => None,
                line => Some(line?),
            };
            let removed =
                super::store::pruned(db)?.is_some_and(|pruned| pruned.sequence >= known.sequence);
            match here.as_deref().map(Link::of) {
                Some(Some(link)) if link.digest == known.digest => {}
                None if removed => {}
                None => self.report(
                    FaultKind::Missing,
                    head.sequence + 1,
                    known.sequence,
                    "missing: the end of the log was cut off",
                ),
                Some(_) => self.report(
                    FaultKind::Replaced,
                    known.sequence,
                    known.sequence,
                    "not the one that the given head names",
                ),
            }
        }
        Ok(())
    }

    fn report(&mut self, kind: FaultKind, first: u64, last: u64, what: &str) {
        let message = match (first, last) {
            (0, 0) => format!("records are {what}"),
            (first, last) if first == last => format!("record {first} is {what}"),
            (first, last) => format!("records {first} to {last} are {what}"),
        };
        self.push(kind, first, last, message);
    }

    fn push(&mut self, kind: FaultKind, sequence: u64, last: u64, message: String) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(Fault { kind, sequence, last, message });
        } else {
            self.omitted += 1;
        }
    }
}

/// Returns the runs that the database lists as unfinished, with the numbers of their start records.
fn listed(db: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    let mut statement = db.prepare("SELECT run, sequence FROM unfinished")?;
    let rows =
        statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
    rows.collect()
}

/// Checks whether a record can be found by each program and host that it names.
fn filed(db: &Connection, sequence: u64, columns: &Columns) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(
        "SELECT 1 FROM name WHERE kind = ?1 AND name = ?2 AND time = ?3 AND sequence = ?4",
    )?;
    for (kind, name) in &columns.names {
        if !statement.exists(rusqlite::params![kind, name, columns.time, number(sequence)])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Checks whether a record announces the removal of everything up to `pruned`.
fn announces(line: &[u8], pruned: &ChainHead) -> bool {
    #[derive(serde::Deserialize)]
    struct RemovalLine {
        pruned: ChainHead,
    }
    serde_json::from_slice::<RemovalLine>(line).is_ok_and(|says| says.pruned == *pruned)
}
