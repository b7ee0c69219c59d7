//! Pending requests: limited in number and in size, and forgotten after a week.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    ApprovalError, PendingId, PendingRequest, QueueLimit, Store, changes, from_json, json, name,
    now, part, permissions, seconds,
};
use crate::approval::{PendingChange, TENANT_SESSION, Term};

/// The most pending requests. Further ones are refused until some are answered or expire.
pub(super) const MOST: i64 = 500;
/// The most pending requests of one skill, so that one skill leaves room for others. Each tenant has as many.
pub(super) const MOST_OF_SKILL: i64 = 50;
/// The most pending requests of one tenant, so that one tenant leaves room for others.
pub(super) const MOST_OF_TENANT: i64 = 100;
/// The most bytes to store for pending requests: staged writes, diffs and lists of files.
pub(super) const MOST_BYTES: i64 = 256 << 20;
/// How long a request stays pending.
const WAITS: SignedDuration = SignedDuration::from_hours(7 * 24);

const PENDING: &str = "SELECT id, skill, kind, name, digest, files, capabilities, session, time, text, diff, input, permissions FROM pending";
const BYTES: &str = "SELECT ifnull((SELECT sum(octet_length(files) + octet_length(capabilities) + ifnull(octet_length(permissions), 0) + octet_length(text) + ifnull(octet_length(diff), 0)) FROM pending), 0)
    + ifnull((SELECT sum(octet_length(bytes)) FROM change), 0)";

/// The answer to a pending request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Rejected.
    No,
    /// Approved, for this term, and at most until this time.
    Run(Term, Option<Timestamp>),
    /// Approved for the run that asks, and used up by it.
    Used,
    /// The staged writes have just been applied.
    Written,
}

impl Store {
    pub(crate) fn pending(&self) -> Result<Vec<PendingRequest>, ApprovalError> {
        Ok(self.database.all(
            &format!("{PENDING} WHERE time >= ?1 ORDER BY id"),
            [since()],
            pending,
        )?)
    }

    /// Adds a request unless it is pending already, and removes expired requests.
    pub(crate) fn note(
        &self,
        asked: PendingRequest,
        changes: &[PendingChange],
    ) -> Result<PendingId, ApprovalError> {
        let noted = self.database.write(|db| {
            forget(db)?;
            let capabilities = json(&asked.capabilities);
            let permissions = asked.permissions.as_ref().map(json);
            let same = "SELECT id FROM pending WHERE skill = ?1 AND kind = ?2 AND name = ?3 AND digest = ?4 AND permissions IS ?5
                AND session = ?6 AND input = ?7 AND diff IS NULL";
            let (kind, program) = asked.part.columns();
            let key = params![asked.skill, kind, program, asked.digest, permissions, asked.session, asked.input];
            if let (None, Some(id)) = (&asked.diff, db.query_row(same, key, |row| row.get(0)).optional()?) {
                return Ok(Ok(id));
            }
            db.execute(
                "INSERT INTO pending (skill, kind, name, digest, files, capabilities, session, time, text, diff, input, permissions)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    asked.skill,
                    kind,
                    program,
                    asked.digest,
                    json(&asked.files),
                    capabilities,
                    asked.session,
                    now(),
                    asked.text,
                    asked.diff,
                    asked.input,
                    permissions
                ],
            )?;
            let id = db.last_insert_rowid();
            changes::write(db, id, changes)?;
            let Some(full) = full(db, &asked.skill, &asked.session)? else { return Ok(Ok(id)) };
            remove(db, id)?;
            Ok(Err(full))
        });
        noted?.map(PendingId).map_err(ApprovalError::QueueFull)
    }

    /// Returns the staged writes of a request; empty if it asks for a run, or is not pending.
    pub(crate) fn changes(&self, id: PendingId) -> Result<Vec<PendingChange>, ApprovalError> {
        Ok(self.database.all(changes::SELECT, rusqlite::params![id.0, since()], changes::read)?)
    }

    /// Answers a request. The answer is kept.
    pub(crate) fn answer(
        &self,
        id: PendingId,
        answer: Answer,
        who: &str,
    ) -> Result<PendingRequest, ApprovalError> {
        let answered = self.database.write(|db| {
            forget(db)?;
            let Some(asked) = db.query_row(&format!("{PENDING} WHERE id = ?1"), [id.0], pending).optional()? else { return Ok(None) };
            remove(db, id.0)?;
            let (term, until, over) = match answer {
                Answer::No => (Term::Once, None, Some(now())),
                Answer::Run(term, until) => (term, until.map(seconds), None),
                Answer::Used | Answer::Written => (Term::Once, None, Some(now())),
            };
            let (files, capabilities) = (json(&asked.files), json(&asked.capabilities));
            let permissions = asked.permissions.as_ref().map(json);
            let (kind, program) = asked.part.columns();
            db.execute(
                "INSERT INTO approval (skill, kind, name, digest, files, capabilities, term, session, who, time, over, input, permissions, until, rejected)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                params![
                    asked.skill,
                    kind,
                    program,
                    asked.digest,
                    files,
                    capabilities,
                    name(term),
                    asked.session,
                    who,
                    now(),
                    over,
                    asked.input,
                    permissions,
                    until,
                    answer == Answer::No
                ],
            )?;
            Ok(Some(asked))
        });
        answered?.ok_or(ApprovalError::NotPending(id))
    }
}

/// Returns the limit that is exceeded, if any.
fn full(db: &Connection, skill: &str, session: &str) -> rusqlite::Result<Option<QueueLimit>> {
    let is_tenant = session.starts_with(TENANT_SESSION);
    // Sessions of tenants count apart, and all others together.
    let (all, own, of_tenant): (i64, i64, i64) = db.query_row(
        "SELECT count(*),
             count(*) FILTER (WHERE skill = ?1 AND (session = ?2 OR NOT ?3 AND NOT is_of_tenant)),
             count(*) FILTER (WHERE ?3 AND session = ?2)
         FROM (SELECT skill, session, substr(session, 1, length(?4)) = ?4 AS is_of_tenant FROM pending)",
        params![skill, session, is_tenant, TENANT_SESSION],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let bytes: i64 = db.query_row(BYTES, [], |row| row.get(0))?;
    Ok(match () {
        () if all > MOST => Some(QueueLimit::All),
        () if own > MOST_OF_SKILL => Some(QueueLimit::Skill),
        () if of_tenant > MOST_OF_TENANT => Some(QueueLimit::Tenant),
        () if bytes > MOST_BYTES => Some(QueueLimit::Bytes),
        () => None,
    })
}

fn remove(db: &Connection, id: i64) -> rusqlite::Result<()> {
    db.execute("DELETE FROM change WHERE pending = ?1", [id])?;
    db.execute("DELETE FROM pending WHERE id = ?1", [id])?;
    Ok(())
}

/// Removes expired requests.
fn forget(db: &Connection) -> rusqlite::Result<()> {
    let since = since();
    db.execute(
        "DELETE FROM change WHERE pending IN (SELECT id FROM pending WHERE time < ?1)",
        [&since],
    )?;
    db.execute("DELETE FROM pending WHERE time < ?1", [&since])?;
    Ok(())
}

/// Returns the time before which requests have expired. Timestamps in one format compare as text,
/// to the second.
fn since() -> String {
    Timestamp::now().checked_sub(WAITS).unwrap_or(Timestamp::MIN).to_string()
}

fn pending(row: &Row<'_>) -> rusqlite::Result<PendingRequest> {
    Ok(PendingRequest {
        id: PendingId(row.get(0)?),
        skill: row.get(1)?,
        part: part(row, 2)?,
        digest: row.get(4)?,
        files: from_json(row, 5)?,
        capabilities: from_json(row, 6)?,
        session: row.get(7)?,
        time: row.get(8)?,
        text: row.get(9)?,
        diff: row.get(10)?,
        input: row.get(11)?,
        permissions: permissions(row, 12)?,
    })
}
