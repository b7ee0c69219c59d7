//! The usage file: sessions, and the counts of each skill in each session, in SQLite, next to the
//! approvals.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior, params};
use serde::Serialize;

use super::tally::{Batch, Counts, Row};
use super::{MAX_SESSIONS, RETENTION_DAYS, UsageError};
use crate::database::{Database, PAGE, Tables};

/// Session ids are never reused, so that a wiped session does not return as another one.
const TABLES: Tables = Tables {
    form: 2,
    make: "
        CREATE TABLE IF NOT EXISTS session (id INTEGER PRIMARY KEY AUTOINCREMENT, started INTEGER NOT NULL, alone INTEGER NOT NULL,
            whole INTEGER NOT NULL, listed INTEGER NOT NULL, told INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS session_started ON session (started);
        CREATE TABLE IF NOT EXISTS used (session INTEGER NOT NULL, skill TEXT NOT NULL, discovered INTEGER NOT NULL, activated INTEGER NOT NULL,
            read INTEGER NOT NULL, runs INTEGER NOT NULL, succeeded INTEGER NOT NULL, denials INTEGER NOT NULL, sent INTEGER NOT NULL,
            defined INTEGER NOT NULL, waited_ms INTEGER, activated_always INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (session, skill)) WITHOUT ROWID;",
    page: PAGE,
    upgrades: &["ALTER TABLE used ADD COLUMN activated_always INTEGER NOT NULL DEFAULT 0;"],
};

/// How many recent sessions suggestions are based on.
const WINDOW: u64 = 50;
/// The fewest sessions for suggestions: one of one is not a habit.
const LEAST: u64 = 10;
/// The share of sessions that must have used a skill, in percent.
const PERCENT: u64 = 30;
/// The most skills to suggest.
const MOST: usize = 10;

/// The skills that many sessions use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestions {
    /// The number of sessions considered: at most the last 50.
    pub sessions: u64,
    /// The fewest sessions for suggestions: 10.
    pub sessions_needed: u64,
    /// Skills that at least 30 % of these sessions used, most used first; at most 10.
    pub skills: Vec<Suggestion>,
}

/// A skill that many sessions use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suggestion {
    /// The skill.
    pub skill: String,
    /// The number of sessions that used it.
    pub sessions: u64,
    /// The share of sessions that used it, from 0 to 1.
    pub share: f64,
}

/// The number of removed sessions and skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WipeCounts {
    /// Removed sessions.
    pub sessions: u64,
    /// Skills that appeared in them.
    pub skills: u64,
}

/// The usage file, which may be missing.
#[derive(Debug, Clone)]
pub struct UsageStore {
    database: Database,
}

/// A stored session.
pub(super) struct SessionRow {
    pub(super) id: i64,
    pub(super) started: Timestamp,
    pub(super) alone: bool,
    /// Bytes of all skills' definitions, less what was sent.
    pub(super) spared: i64,
}

impl UsageStore {
    /// Names the file. Does no work.
    pub fn at(path: &Path) -> UsageStore {
        UsageStore { database: Database::at(path, &TABLES) }
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn wipe(&self) -> Result<WipeCounts, UsageError> {
        let wiped = self.database.read(|db| {
            db.pragma_update(None, "secure_delete", true)?;
            let work = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let count = |what: &str| {
                work.query_row(what, [], |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
            };
            let sessions = count("SELECT count(*) FROM session")?;
            let skills = count("SELECT count(DISTINCT skill) FROM used")?;
            work.execute_batch("DELETE FROM used; DELETE FROM session")?;
            work.commit()?;
            db.execute_batch("VACUUM")?;
            Ok(WipeCounts { sessions, skills })
        })?;
        Ok(wiped.unwrap_or(WipeCounts { sessions: 0, skills: 0 }))
    }

    /// Returns the skills that at least 30 % of the recent sessions used.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn suggestions(&self) -> Result<Suggestions, UsageError> {
        let mut found = Suggestions { sessions: 0, sessions_needed: LEAST, skills: Vec::new() };
        let latest =
            format!("SELECT id FROM session WHERE alone = 0 ORDER BY id DESC LIMIT {WINDOW}");
        let read = self.database.read(|db| {
            let sessions: i64 = db.query_row(&format!("SELECT count(*) FROM ({latest})"), [], |row| row.get(0))?;
            let used = format!(
                "SELECT skill, count(*) AS sessions FROM used WHERE session IN ({latest}) AND activated + read + runs > 0
                 GROUP BY skill ORDER BY sessions DESC, skill"
            );
            let mut used = db.prepare(&used)?;
            let used = used.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?;
            Ok((sessions.cast_unsigned(), used.collect::<rusqlite::Result<Vec<_>>>()?))
        })?;
        let Some((sessions, used)) = read else { return Ok(found) };
        found.sessions = sessions;
        if sessions >= LEAST {
            let many = used.into_iter().filter(|(_, by)| by * 100 >= sessions * PERCENT).take(MOST);
            found.skills = many
                .map(|(skill, by)| Suggestion {
                    skill,
                    sessions: by,
                    share: by as f64 / sessions as f64,
                })
                .collect();
        }
        Ok(found)
    }

    /// Adds the counts of a session to its row, or to a new one if it has none or it was removed.
    pub(super) fn add(&self, row: Row, batch: &Batch) -> Result<i64, UsageError> {
        let id = self.database.write(|work| {
            let id = match row.id.map(|id| update(work, id, row, batch)).transpose()?.flatten() {
                Some(id) => id,
                None => insert(work, row, batch)?,
            };
            let mut used = work.prepare(
                "INSERT INTO used (session, skill, discovered, activated, read, runs, succeeded, denials, sent, defined, waited_ms, activated_always)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) ON CONFLICT DO UPDATE SET
                 discovered = discovered + excluded.discovered, activated = activated + excluded.activated, read = read + excluded.read,
                 runs = runs + excluded.runs, succeeded = succeeded + excluded.succeeded, denials = denials + excluded.denials,
                 sent = sent + excluded.sent, defined = excluded.defined, activated_always = activated_always + excluded.activated_always, waited_ms = coalesce(waited_ms, excluded.waited_ms)",
            )?;
            for (skill, counts) in &batch.skills {
                let Counts { discovered, activated, activated_always, read, runs, succeeded, denials, sent, defined, waited_ms } = *counts;
                let [discovered, activated, read, runs] = [discovered, activated, read, runs].map(u64::cast_signed);
                let [succeeded, denials, sent, defined] = [succeeded, denials, sent, defined].map(u64::cast_signed);
                let (waited, always) = (waited_ms.map(u64::cast_signed), activated_always.cast_signed());
                used.execute(params![id, skill, discovered, activated, read, runs, succeeded, denials, sent, defined, waited, always])?;
            }
            Ok(id)
        })?;
        Ok(id)
    }

    /// Returns the sessions that began since then, newest first.
    pub(super) fn sessions(&self, since: Timestamp) -> Result<Vec<SessionRow>, UsageError> {
        let select = "SELECT id, started, alone, whole - listed - told FROM session WHERE started >= ?1 ORDER BY started DESC, id DESC";
        let rows = self.database.all(select, [since.as_second()], |row| {
            let started = Timestamp::from_second(row.get(1)?).unwrap_or_default();
            Ok(SessionRow { id: row.get(0)?, started, alone: row.get(2)?, spared: row.get(3)? })
        })?;
        Ok(rows)
    }

    /// Returns the counts of each skill in the sessions that began since then.
    pub(super) fn used(&self, since: Timestamp) -> Result<Vec<(i64, String, Counts)>, UsageError> {
        let select = "SELECT session, skill, discovered, activated, read, runs, succeeded, denials, sent, defined, waited_ms, activated_always
            FROM used WHERE session IN (SELECT id FROM session WHERE started >= ?1) ORDER BY session, skill";
        let rows = self.database.all(select, [since.as_second()], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
            let counts = Counts {
                discovered: number(2)?,
                activated: number(3)?,
                activated_always: number(11)?,
                read: number(4)?,
                runs: number(5)?,
                succeeded: number(6)?,
                denials: number(7)?,
                sent: number(8)?,
                defined: number(9)?,
                waited_ms: row.get::<_, Option<i64>>(10)?.map(i64::cast_unsigned),
            };
            Ok((row.get(0)?, row.get(1)?, counts))
        })?;
        Ok(rows)
    }
}

/// `None`: the row no longer exists.
fn update(work: &Connection, id: i64, row: Row, batch: &Batch) -> rusqlite::Result<Option<i64>> {
    let set = "UPDATE session SET whole = ?2, listed = ?3, told = told + ?4 WHERE id = ?1";
    let changed = work.execute(
        set,
        params![id, row.whole.cast_signed(), row.listed.cast_signed(), batch.told.cast_signed()],
    )?;
    Ok((changed == 1).then_some(id))
}

/// Inserts a session, and removes the oldest ones.
fn insert(work: &Connection, row: Row, batch: &Batch) -> rusqlite::Result<i64> {
    let started = batch.started.unwrap_or_else(Timestamp::now).as_second();
    let [whole, listed, told] = [row.whole, row.listed, batch.told].map(u64::cast_signed);
    let insert =
        "INSERT INTO session (started, alone, whole, listed, told) VALUES (?1, ?2, ?3, ?4, ?5)";
    work.execute(insert, params![started, row.alone, whole, listed, told])?;
    let id = work.last_insert_rowid();
    let oldest = started - (RETENTION_DAYS * 24 * 60 * 60).cast_signed();
    let gone = "DELETE FROM session WHERE started < ?1 OR id <= (SELECT id FROM session ORDER BY id DESC LIMIT 1 OFFSET ?2)";
    if work.execute(gone, params![oldest, MAX_SESSIONS.cast_signed()])? > 0 {
        work.execute("DELETE FROM used WHERE session NOT IN (SELECT id FROM session)", [])?;
    }
    Ok(id)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, UsageStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = UsageStore::at(&folder.path().join("state/usage.db"));
        (folder, store)
    }

    fn batch(skill: &str, counts: Counts) -> Batch {
        Batch {
            started: Some(Timestamp::now()),
            told: 0,
            skills: [(skill.to_owned(), counts)].into(),
        }
    }

    const ROW: Row = Row { id: None, alone: false, whole: 100, listed: 10 };

    #[test]
    fn counts_add_up_and_wiped_sessions_stay_wiped() {
        let (_folder, store) = store();
        let ran = Counts { runs: 1, defined: 5, ..Counts::default() };
        let id = store.add(ROW, &batch("a", ran)).unwrap();
        assert_eq!(store.add(Row { id: Some(id), ..ROW }, &batch("a", ran)).unwrap(), id);
        assert_eq!(
            store.used(Timestamp::UNIX_EPOCH).unwrap(),
            [(id, "a".into(), Counts { runs: 2, ..ran })]
        );
        assert_eq!(store.wipe().unwrap(), WipeCounts { sessions: 1, skills: 1 });
        let again = store.add(Row { id: Some(id), ..ROW }, &batch("a", ran)).unwrap();
        assert_ne!(again, id, "a number is used once");
        assert_eq!(store.used(Timestamp::UNIX_EPOCH).unwrap(), [(again, "a".into(), ran)]);
    }

    #[test]
    fn a_file_of_the_first_version_keeps_its_counts() {
        let (_folder, store) = store();
        let ran = Counts { activated: 2, defined: 5, ..Counts::default() };
        let id = store.add(ROW, &batch("a", ran)).unwrap();
        store
            .database
            .write(|db| {
                db.execute_batch(
                    "ALTER TABLE used DROP COLUMN activated_always; PRAGMA user_version = 1;",
                )
            })
            .unwrap();
        let more = Counts { activated: 1, activated_always: 1, defined: 5, ..Counts::default() };
        store.add(Row { id: Some(id), ..ROW }, &batch("a", more)).unwrap();
        let sum = Counts { activated: 3, ..more };
        assert_eq!(store.used(Timestamp::UNIX_EPOCH).unwrap(), [(id, "a".into(), sum)]);
    }

    #[test]
    fn the_oldest_sessions_are_removed_with_their_skills() {
        let (_folder, store) = store();
        let old =
            Timestamp::now() - std::time::Duration::from_secs((RETENTION_DAYS + 1) * 24 * 60 * 60);
        let counts = Counts { activated: 1, ..Counts::default() };
        store.add(ROW, &Batch { started: Some(old), ..batch("old", counts) }).unwrap();
        let new = store.add(ROW, &batch("new", counts)).unwrap();
        let used = store.used(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            used.iter().map(|(id, skill, _)| (*id, skill.as_str())).collect::<Vec<_>>(),
            [(new, "new")]
        );
        // The maximum, and one more.
        let fill = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_SESSIONS})
             INSERT INTO session (started, alone, whole, listed, told) SELECT {}, 0, 0, 0, 0 FROM n",
            Timestamp::now().as_second()
        );
        store.database.write(|db| db.execute_batch(&fill)).unwrap();
        store.add(ROW, &batch("last", counts)).unwrap();
        let count: Vec<i64> =
            store.database.all("SELECT count(*) FROM session", [], |row| row.get(0)).unwrap();
        assert_eq!(count, [MAX_SESSIONS.cast_signed()]);
        let used = store.used(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(used.iter().map(|(_, skill, _)| skill.as_str()).collect::<Vec<_>>(), ["last"]);
    }

    #[test]
    fn suggestions_need_ten_sessions_and_thirty_percent() {
        let (_folder, store) = store();
        let used = Counts { activated: 1, ..Counts::default() };
        let found = Counts { discovered: 1, ..Counts::default() };
        let suggested = || {
            store
                .suggestions()
                .unwrap()
                .skills
                .into_iter()
                .map(|one| (one.skill, one.sessions))
                .collect::<Vec<_>>()
        };
        store.add(ROW, &batch("often", used)).unwrap();
        assert_eq!(suggested(), [], "1 of 1");
        for number in 1..9 {
            let counts = if number < 3 { used } else { found };
            store.add(ROW, &batch("often", counts)).unwrap();
        }
        assert_eq!(suggested(), [], "3 of 9");
        store.add(ROW, &batch("seldom", used)).unwrap();
        assert_eq!(suggested(), [("often".to_owned(), 3)], "3 of 10, and 1 of 10");
        // Requests without a session do not count.
        for _ in 0..20 {
            store.add(Row { alone: true, ..ROW }, &batch("other", used)).unwrap();
        }
        assert_eq!(suggested(), [("often".to_owned(), 3)]);
        store.add(ROW, &batch("seldom", found)).unwrap();
        assert_eq!(suggested(), [], "3 of 11");
        // Old sessions do not count.
        for _ in 0..WINDOW {
            store.add(ROW, &batch("seldom", used)).unwrap();
        }
        assert_eq!(suggested(), [("seldom".to_owned(), WINDOW)]);
    }
}
