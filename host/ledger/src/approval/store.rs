//! The file: levels, approvals and what is pending, in SQLite beside the audit log.

mod changes;
mod queue;
mod upgrade;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rusqlite::{Row, params};
use serde::Serialize;

use super::{PermissionLevel, SkillPart, Term};
use crate::database::{Database, DatabaseError, Tables};

pub(super) use queue::Answer;

/// Starts a line that names a path which a run would change.
pub(super) const CHANGE: &str = "change ";

const TABLES: Tables = Tables {
    form: 2,
    make: "
        CREATE TABLE IF NOT EXISTS level (skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, level TEXT NOT NULL, digest TEXT,
            who TEXT NOT NULL, time TEXT NOT NULL, PRIMARY KEY (skill, kind, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS approval (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            digest TEXT NOT NULL, files TEXT NOT NULL, capabilities TEXT NOT NULL, term TEXT NOT NULL, session TEXT NOT NULL, who TEXT NOT NULL,
            time TEXT NOT NULL, over TEXT, input TEXT NOT NULL);
        CREATE INDEX IF NOT EXISTS approval_of ON approval (skill, kind, name);
        CREATE TABLE IF NOT EXISTS pending (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            digest TEXT NOT NULL, files TEXT NOT NULL, capabilities TEXT NOT NULL, session TEXT NOT NULL, time TEXT NOT NULL, text TEXT NOT NULL,
            diff TEXT, input TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS change (pending INTEGER NOT NULL, number INTEGER NOT NULL, folder BLOB NOT NULL, guest TEXT NOT NULL,
            path TEXT NOT NULL, before TEXT, after TEXT, mode INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (pending, number));
        PRAGMA application_id = 1;",
    upgrade: Some(upgrade::FROM_1),
};

/// Why it cannot be told whether something runs: then it does not.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file cannot be read or written.
    #[error("the approvals {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The skill's files cannot be read.
    #[error("the skill's files cannot be digested: {0}")]
    Skill(String),
    /// There is nothing to answer.
    #[error("nothing is pending under {0}")]
    NotPending(PendingId),
    /// The changes of a run are more than are kept.
    #[error("the changes have more than 64 MiB together, so they are not kept")]
    TooLarge,
    /// The changes of a run cannot be kept or made.
    #[error("{0}")]
    Changes(String),
    /// Too much waits for an answer.
    #[error("{0} for an answer already: skillhost pending")]
    QueueFull(QueueLimit),
}

impl From<DatabaseError> for ApprovalError {
    fn from(DatabaseError { path, why }: DatabaseError) -> Self {
        ApprovalError::File { path, why }
    }
}

/// Which bound of what waits is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueLimit {
    /// That of all requests.
    #[error("{} requests wait", queue::MOST)]
    All,
    /// That of one skill.
    #[error("{} requests of this skill wait", queue::MOST_OF_SKILL)]
    Skill,
    /// That of the bytes that are kept for them.
    #[error("changes of {} MiB wait", queue::MOST_BYTES >> 20)]
    Bytes,
}

/// What a request that waits is called by.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct PendingId(pub i64);

impl fmt::Display for PendingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A request that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PendingRequest {
    /// What it is called by.
    pub id: PendingId,
    /// The skill.
    pub skill: String,
    /// The part of the skill.
    #[serde(rename = "what")]
    pub part: SkillPart,
    /// The digest of the skill.
    pub digest: String,
    /// Its files and their digests.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
    /// What it would be granted, a line each.
    pub capabilities: Vec<String>,
    /// Who asks.
    pub session: String,
    /// The digest of what the run is given: arguments, text, stdin, files.
    pub input: String,
    /// When it was asked first.
    pub time: String,
    /// What a person should know.
    pub text: String,
    /// What a run that has been would change, as a unified diff; `None` where a run is asked for.
    pub diff: Option<String>,
}

/// A word that was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Approval {
    id: i64,
    /// The skill.
    pub skill: String,
    /// The part of the skill.
    #[serde(rename = "what")]
    pub part: SkillPart,
    /// For which digest of the skill.
    pub digest: String,
    /// The files of the skill then, and their digests.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
    /// For which permissions.
    pub capabilities: Vec<String>,
    /// For how long.
    pub term: Term,
    /// Who had asked.
    pub session: String,
    /// The digest of what the run was given: one for a single run is for the same alone.
    pub input: String,
    /// Who gave it.
    pub who: String,
    /// When.
    pub time: String,
    /// When it was used up or taken back.
    #[serde(rename = "over")]
    pub ended: Option<String>,
}

impl Approval {
    /// Whether it let changes be written, rather than a program run.
    pub(super) fn is_for_changes(&self) -> bool {
        self.capabilities.iter().any(|line| line.starts_with(CHANGE))
    }

    /// Whether it still counts, for whoever asks now, with that input.
    pub(super) fn holds_for(&self, session: &str, input: &str) -> bool {
        self.ended.is_none()
            && match self.term {
                Term::Once => self.session == session && self.input == input,
                Term::Session => self.session == session,
                Term::Always => true,
            }
    }
}

/// A level that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LevelSetting {
    /// The skill.
    pub skill: String,
    /// The part of the skill.
    #[serde(rename = "what")]
    pub part: SkillPart,
    /// The level.
    pub level: PermissionLevel,
    /// The digest of the skill that it is for, where it is for one alone.
    pub digest: Option<String>,
    /// Who set it.
    pub who: String,
    /// When.
    pub time: String,
}

#[derive(Debug)]
pub(super) struct Store {
    database: Database,
}

/// The mark of a file in which no level is set: most runs ask for nothing else.
const NO_LEVELS: u32 = 1;
/// That of one in which some are.
const LEVELS: u32 = 2;

const APPROVAL: &str = "SELECT id, skill, kind, name, digest, files, capabilities, term, session, who, time, over, input FROM approval";
const LEVEL: &str = "SELECT skill, kind, name, level, digest, who, time FROM level";

impl Store {
    pub(super) fn at(path: &Path) -> Store {
        Store { database: Database::at(path, &TABLES) }
    }

    pub(super) fn levels(&self) -> Result<Vec<LevelSetting>, ApprovalError> {
        Ok(self.database.all(&format!("{LEVEL} ORDER BY skill, kind, name"), [], level)?)
    }

    /// As [`Database::mark`]: not while another thread uses the file.
    pub(super) fn has_no_levels(&self) -> bool {
        self.database.mark() == Some(NO_LEVELS) || !self.database.is_there()
    }

    pub(super) fn levels_of(&self, skill: &str) -> Result<Vec<LevelSetting>, ApprovalError> {
        Ok(self.database.all(&format!("{LEVEL} WHERE skill = ?1"), [skill], level)?)
    }

    pub(super) fn approvals(&self) -> Result<Vec<Approval>, ApprovalError> {
        Ok(self.database.all(&format!("{APPROVAL} ORDER BY id DESC"), [], approval)?)
    }

    /// The newest first.
    pub(super) fn approvals_of(
        &self,
        skill: &str,
        part: &SkillPart,
    ) -> Result<Vec<Approval>, ApprovalError> {
        let (kind, name) = part.columns();
        let select =
            format!("{APPROVAL} WHERE skill = ?1 AND kind = ?2 AND name = ?3 ORDER BY id DESC");
        Ok(self.database.all(&select, [skill, kind, name], approval)?)
    }

    pub(super) fn approvals_of_digest(
        &self,
        skill: &str,
        digest: &str,
    ) -> Result<Vec<Approval>, ApprovalError> {
        Ok(self.database.all(
            &format!("{APPROVAL} WHERE skill = ?1 AND digest = ?2"),
            [skill, digest],
            approval,
        )?)
    }

    /// Uses an approval: one for a single run is over with it. `false`: another run was quicker.
    pub(super) fn take(&self, approval: &Approval) -> Result<bool, ApprovalError> {
        if approval.term != Term::Once {
            return Ok(true);
        }
        let over = "UPDATE approval SET over = ?2 WHERE id = ?1 AND over IS NULL";
        Ok(self.database.write(|db| Ok(db.execute(over, params![approval.id, now()])? == 1))?)
    }

    pub(super) fn set_level(
        &self,
        skill: &str,
        part: &SkillPart,
        to: Option<PermissionLevel>,
        digest: Option<&str>,
        who: &str,
    ) -> Result<(), ApprovalError> {
        let (kind, name) = part.columns();
        Ok(self.database.write(|db| {
            match to {
                Some(level) => db.execute(
                    "INSERT OR REPLACE INTO level (skill, kind, name, level, digest, who, time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![skill, kind, name, level.name(), digest, who, now()],
                )?,
                None => db.execute("DELETE FROM level WHERE skill = ?1 AND kind = ?2 AND name = ?3", params![skill, kind, name])?,
            };
            let any: bool = db.query_row("SELECT EXISTS (SELECT 1 FROM level)", [], |row| row.get(0))?;
            db.pragma_update(None, "application_id", if any { LEVELS } else { NO_LEVELS })
        })?)
    }

    pub(super) fn revoke(&self, skill: &str) -> Result<usize, ApprovalError> {
        let over = "UPDATE approval SET over = ?2 WHERE skill = ?1 AND over IS NULL";
        Ok(self.database.write(|db| db.execute(over, params![skill, now()]))?)
    }
}

fn level(row: &Row<'_>) -> rusqlite::Result<LevelSetting> {
    let level: String = row.get(3)?;
    // A word that is not known is the strictest one.
    let level = PermissionLevel::from_name(&level).unwrap_or(PermissionLevel::Blocked);
    Ok(LevelSetting {
        skill: row.get(0)?,
        part: part(row, 1)?,
        level,
        digest: row.get(4)?,
        who: row.get(5)?,
        time: row.get(6)?,
    })
}

fn approval(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let term: String = row.get(7)?;
    Ok(Approval {
        id: row.get(0)?,
        skill: row.get(1)?,
        part: part(row, 2)?,
        digest: row.get(4)?,
        files: from_json(row, 5)?,
        capabilities: from_json(row, 6)?,
        term: [Term::Always, Term::Session]
            .into_iter()
            .find(|one| name(*one) == term)
            .unwrap_or(Term::Once),
        session: row.get(8)?,
        who: row.get(9)?,
        time: row.get(10)?,
        ended: row.get(11)?,
        input: row.get(12)?,
    })
}

/// The part of a skill in two columns. A row of an unknown kind makes the file unreadable, and then
/// nothing runs.
fn part(row: &Row<'_>, at: usize) -> rusqlite::Result<SkillPart> {
    let (kind, name): (String, String) = (row.get(at)?, row.get(at + 1)?);
    SkillPart::from_columns(&kind, name).ok_or_else(|| {
        rusqlite::Error::FromSqlConversionFailure(
            at,
            rusqlite::types::Type::Text,
            format!("unknown kind of program `{kind}`").into(),
        )
    })
}

fn name(term: Term) -> &'static str {
    match term {
        Term::Once => "once",
        Term::Session => "session",
        Term::Always => "always",
    }
}

fn json(value: &impl Serialize) -> String {
    // Strings and maps of them.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.into())
    })
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}
