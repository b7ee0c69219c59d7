//! Finds records, and removes old ones.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, params, params_from_iter};
use serde::Serialize;

use super::chain::{ChainHead, Link};
use super::columns::{HOST, PROGRAM, SESSION, STARTED, USER};
use super::store::{LogStore, number};
use super::{AuditError, Log, VERSION};
use skillhost_policy::Retention;

/// Selects records. Each field narrows the selection; the default selects all.
#[derive(Debug, Clone, Default)]
pub struct RecordFilter {
    /// Of this skill.
    pub skill: Option<String>,
    /// With this `kind` of status.
    pub status: Option<String>,
    /// That ran this program: the first one, its script by path, or a started one.
    pub program: Option<String>,
    /// With an HTTP request to this host, including refused ones.
    pub host: Option<String>,
    /// Of a host of this user, by name or number.
    pub user: Option<String>,
    /// Requested by this session, by its id or the client's name.
    pub session: Option<String>,
    /// Requested at this time or later.
    pub since: Option<Timestamp>,
    /// Requested before this time.
    pub until: Option<Timestamp>,
    /// With a number greater than this.
    pub after: Option<u64>,
    /// At most this many.
    pub limit: Option<u64>,
    /// Oldest first, instead of newest first.
    pub oldest_first: bool,
    /// Includes all start records, instead of only those whose run has no recorded end.
    pub all_starts: bool,
}

/// The record of a removal. The remaining records start after this place.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct RemovalRecord {
    /// The version of this format: 3.
    pub version: u32,
    /// When the records were removed, RFC 3339 in UTC.
    pub time: String,
    /// The last removed record. The first remaining one has its digest as `previous`.
    pub pruned: ChainHead,
}

/// Which records to keep.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetentionWindow {
    /// Records since this time; `None` keeps records of any age.
    pub since: Option<Timestamp>,
    /// The newest records, up to this many bytes; `None` sets no limit.
    pub bytes: Option<u64>,
}

impl LogStore {
    /// Calls `each` with every selected record, ordered by time: its line, without the newline.
    ///
    /// # Errors
    /// The database cannot be read, or `each` returns an error.
    pub fn query<E: From<AuditError>>(
        &self,
        filter: &RecordFilter,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: rusqlite::Error| E::from(self.failed(&error));
        let (sql, values) = filter.sql();
        let mut statement = self.db.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(row.get_ref(0).and_then(|line| Ok(line.as_blob()?)).map_err(failed)?)?;
        }
        Ok(())
    }

    /// Returns one record by its number: its line, without the newline.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn record(&self, sequence: u64) -> Result<Option<Vec<u8>>, AuditError> {
        let line = self.db.query_row(
            "SELECT line FROM record WHERE sequence = ?1",
            [number(sequence)],
            |row| row.get(0),
        );
        line.optional().map_err(|error| self.failed(&error))
    }

    /// Removes the oldest records outside the window, and records the removal. Returns the last
    /// removed record.
    ///
    /// The chain is cut in one place only, so the rest can still be verified: it starts at a digest
    /// that the log itself records.
    ///
    /// # Errors
    /// The log or its database cannot be written.
    pub fn prune(
        &mut self,
        log: &Log,
        keep: RetentionWindow,
    ) -> Result<Option<RemovalRecord>, AuditError> {
        let Some(pruned) = self.last_to_remove(keep).map_err(|error| self.failed(&error))? else {
            return Ok(None);
        };
        let removal =
            RemovalRecord { version: VERSION, time: Timestamp::now().to_string(), pruned };
        // Recorded first: if the process is killed in between, the removal is recorded again.
        log.append(&removal)?;
        self.remove(&removal.pruned).map_err(|error| self.failed(&error))?;
        Ok(Some(removal))
    }

    /// Removes records that the policy does not keep. Returns the last removed record.
    ///
    /// # Errors
    /// As [`LogStore::prune`].
    pub fn retain(
        &mut self,
        log: &Log,
        retention: Retention,
    ) -> Result<Option<RemovalRecord>, AuditError> {
        if retention.is_forever() {
            return Ok(None);
        }
        // An age that reaches beyond the earliest timestamp keeps everything.
        let since =
            retention.age.map(|age| Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN));
        self.prune(log, RetentionWindow { since, bytes: retention.bytes })
    }

    fn last_to_remove(&self, keep: RetentionWindow) -> rusqlite::Result<Option<ChainHead>> {
        let newest =
            self.db.query_row("SELECT coalesce(max(sequence), 0) FROM record", [], |row| {
                row.get::<_, i64>(0)
            })?;
        let mut first_kept = 0;
        if let Some(since) = keep.since {
            let oldest = "SELECT min(sequence) FROM record WHERE time >= ?1";
            let oldest: Option<i64> =
                self.db.query_row(oldest, [nanoseconds(since)], |row| row.get(0))?;
            first_kept = oldest.unwrap_or(newest + 1);
        }
        if let Some(bytes) = keep.bytes {
            let mut statement = self
                .db
                .prepare("SELECT sequence, length(line) + 1 FROM record ORDER BY sequence DESC")?;
            let mut rows = statement.query([])?;
            let (mut sum, mut from) = (0, newest + 1);
            while let Some(row) = rows.next()? {
                sum += row.get::<_, i64>(1)?.cast_unsigned();
                if sum > bytes {
                    break;
                }
                from = row.get(0)?;
            }
            first_kept = first_kept.max(from);
        }
        let last = "SELECT line FROM record WHERE sequence < ?1 ORDER BY sequence DESC LIMIT 1";
        let line: Option<Vec<u8>> =
            self.db.query_row(last, [first_kept], |row| row.get(0)).optional()?;
        Ok(line.as_deref().and_then(Link::of).map(|link| link.head()))
    }

    fn remove(&mut self, last: &ChainHead) -> rusqlite::Result<()> {
        let work = self.db.transaction()?;
        let sequence = number(last.sequence);
        for table in ["record", "name", "oddity", "unfinished"] {
            work.execute(&format!("DELETE FROM {table} WHERE sequence <= ?1"), [sequence])?;
        }
        work.execute("DELETE FROM pruned", [])?;
        work.execute(
            "INSERT INTO pruned (sequence, digest) VALUES (?1, ?2)",
            params![sequence, last.digest],
        )?;
        work.commit()?;
        // Returns the freed space to the disk.
        self.db.execute_batch("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
    }
}

impl RecordFilter {
    /// Builds the query. Each condition has an index that is ordered by time too.
    fn sql(&self) -> (String, Vec<Value>) {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        // The first one drives the query, so the one that most records have comes last.
        let names = [
            (PROGRAM, &self.program),
            (HOST, &self.host),
            (SESSION, &self.session),
            (USER, &self.user),
        ]
        .into_iter()
        .filter_map(|(kind, name)| Some((kind, name.as_ref()?)));
        let (mut from, mut order) = ("record AS r", "r");
        for (nth, (kind, name)) in names.enumerate() {
            if nth == 0 {
                // CROSS JOIN fixes the order: from names to records.
                (from, order) =
                    ("name AS n CROSS JOIN record AS r ON r.sequence = n.sequence", "n");
                conditions.push("n.kind = ? AND n.name = ?".to_owned());
            } else {
                let other = "SELECT 1 FROM name AS m WHERE m.kind = ? AND m.name = ? AND m.time = r.time AND m.sequence = r.sequence";
                conditions.push(format!("EXISTS ({other})"));
            }
            values.extend([Value::from(kind.to_owned()), name.clone().into()]);
        }
        for (column, wanted) in [("skill", &self.skill), ("status", &self.status)] {
            if let Some(wanted) = wanted {
                conditions.push(format!("r.{column} = ?"));
                values.push(wanted.clone().into());
            }
        }
        if !self.all_starts {
            conditions.push(format!(
                "(r.status <> '{STARTED}' OR r.sequence IN (SELECT sequence FROM unfinished))"
            ));
        }
        if let Some(after) = self.after {
            conditions.push(format!("r.sequence > {}", number(after)));
        }
        for (compare, time) in [(">=", self.since), ("<", self.until)] {
            if let Some(time) = time {
                conditions.push(format!("{order}.time {compare} ?"));
                values.push(nanoseconds(time).into());
            }
        }
        let filter = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
        let direction = if self.oldest_first { "ASC" } else { "DESC" };
        let limit = self.limit.map_or(-1, number);
        let sql = format!(
            "SELECT r.line FROM {from} WHERE {filter} ORDER BY {order}.time {direction}, {order}.sequence {direction} LIMIT {limit}"
        );
        (sql, values)
    }
}

fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(if time.as_nanosecond() < 0 {
        i64::MIN
    } else {
        i64::MAX
    })
}
