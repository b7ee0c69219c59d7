//! The database: levels, approvals and pending requests, in SQLite, next to the audit log.

mod changes;
mod queue;
mod upgrade;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Row, params};
use serde::Serialize;

use super::{LevelScope, PermissionLevel, PermissionSet, SettingValue, SkillPart, Term, Workspace};
use crate::database::{Database, DatabaseError, PAGE, Tables};

pub(super) use queue::Answer;

const TABLES: Tables = Tables {
    form: 4,
    make: "
        CREATE TABLE IF NOT EXISTS level (skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, level TEXT NOT NULL, digest TEXT,
            who TEXT NOT NULL, time TEXT NOT NULL, workspace TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL, until TEXT,
            PRIMARY KEY (skill, kind, name, workspace, device, inode)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS approval (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            digest TEXT NOT NULL, files TEXT NOT NULL, capabilities TEXT NOT NULL, term TEXT NOT NULL, session TEXT NOT NULL, who TEXT NOT NULL,
            time TEXT NOT NULL, over TEXT, input TEXT NOT NULL, permissions TEXT, until TEXT,
            rejected INTEGER NOT NULL);
        CREATE INDEX IF NOT EXISTS approval_of ON approval (skill, kind, name);
        CREATE TABLE IF NOT EXISTS pending (id INTEGER PRIMARY KEY AUTOINCREMENT, skill TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
            digest TEXT NOT NULL, files TEXT NOT NULL, capabilities TEXT NOT NULL, session TEXT NOT NULL, time TEXT NOT NULL, text TEXT NOT NULL,
            diff TEXT, input TEXT NOT NULL, permissions TEXT);
        CREATE TABLE IF NOT EXISTS change (pending INTEGER NOT NULL, number INTEGER NOT NULL, folder BLOB NOT NULL, guest TEXT NOT NULL,
            path TEXT NOT NULL, before TEXT, after TEXT, mode INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (pending, number));
        CREATE TABLE IF NOT EXISTS setting (skill TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, secret INTEGER NOT NULL,
            who TEXT NOT NULL, time TEXT NOT NULL, workspace TEXT NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
            PRIMARY KEY (skill, name, workspace)) WITHOUT ROWID;
        PRAGMA application_id = 1;",
    page: PAGE,
    upgrades: &[upgrade::FROM_1, upgrade::FROM_2, upgrade::FROM_3],
};

/// Why there is no decision. The run does not start.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The file cannot be read or written.
    #[error("cannot use the approvals in {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The skill's files cannot be read.
    #[error("cannot digest the skill's files: {0}")]
    Skill(String),
    /// No request of that number is pending.
    #[error("no pending request {0}")]
    NotPending(PendingId),
    /// The staged writes of a run are too large to store.
    #[error("the changes are larger than 64 MiB in total, so they are not stored")]
    TooLarge,
    /// The staged writes of a run cannot be stored or applied.
    #[error("{0}")]
    Changes(String),
    /// A level for a limited time would replace one without an end.
    #[error("a level without an end is set; remove it first, by the level `default`")]
    PermanentLevel,
    /// Too many requests are pending.
    #[error("{0}; answer some of them first: skillhost pending")]
    QueueFull(QueueLimit),
}

impl From<DatabaseError> for ApprovalError {
    fn from(DatabaseError { path, why }: DatabaseError) -> Self {
        ApprovalError::File { path, why }
    }
}

/// A limit on pending requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueLimit {
    /// On all requests.
    #[error("{} requests are pending", queue::MOST)]
    All,
    /// On the requests of one skill.
    #[error("{} requests of this skill are pending", queue::MOST_OF_SKILL)]
    Skill,
    /// On the requests of one tenant.
    #[error("{} requests of this tenant are pending", queue::MOST_OF_TENANT)]
    Tenant,
    /// On the bytes that are stored for them.
    #[error("changes of {} MiB are pending", queue::MOST_BYTES >> 20)]
    Bytes,
}

/// The number of a pending request.
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

/// A request that awaits approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PendingRequest {
    /// Its number.
    pub id: PendingId,
    /// The skill.
    pub skill: String,
    /// The part of the skill.
    #[serde(rename = "what")]
    pub part: SkillPart,
    /// The digest of the skill.
    pub digest: String,
    /// The skill's files and their digests.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
    /// The permissions that the run would have, one per line.
    pub capabilities: Vec<String>,
    /// The permissions that the run would have; `None` for staged writes.
    #[serde(skip)]
    pub permissions: Option<PermissionSet>,
    /// The session that asks.
    pub session: String,
    /// The digest of the input: arguments, text, stdin and files.
    pub input: String,
    /// When it was first requested.
    pub time: String,
    /// What a person should know before approving it.
    pub text: String,
    /// The staged writes as a unified diff; `None` if the request is for a run.
    pub diff: Option<String>,
}

/// The answer to a request: an approval, or a rejection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Approval {
    id: i64,
    /// The skill.
    pub skill: String,
    /// The part of the skill.
    #[serde(rename = "what")]
    pub part: SkillPart,
    /// The digest of the skill that it covers.
    pub digest: String,
    /// The files of that version of the skill, and their digests.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
    /// The permissions that it covers, one per line.
    pub capabilities: Vec<String>,
    /// The permissions that it covers; `None` if it approved staged writes.
    #[serde(skip)]
    pub permissions: Option<PermissionSet>,
    /// How long it lasts.
    pub term: Term,
    /// The session that asked.
    pub session: String,
    /// The digest of the input. An approval for one run covers this input only.
    pub input: String,
    /// Who gave it.
    pub who: String,
    /// When it was given.
    pub time: String,
    /// When it was used up or revoked.
    #[serde(rename = "over")]
    pub ended: Option<String>,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether the request was rejected. Then this approves nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejected: bool,
}

impl Approval {
    /// Checks whether it approved staged writes, rather than a run.
    pub(super) fn is_for_changes(&self) -> bool {
        self.permissions.is_none()
    }

    /// Checks whether it still covers a run with this input in this session.
    pub(super) fn holds_for(&self, session: &str, input: &str) -> bool {
        !self.rejected
            && self.ended.is_none()
            && self.until.as_ref().is_none_or(|until| *until > seconds(Timestamp::now()))
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
    /// The only digest of the skill that it applies to, if there is one.
    pub digest: Option<String>,
    /// Who set it.
    pub who: String,
    /// When it was set.
    pub time: String,
    /// The only workspace that it applies to, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl LevelSetting {
    /// Checks whether it applies to a run with this workspace.
    pub(super) fn is_for(&self, run: Option<&Workspace>, policy: &[Workspace]) -> bool {
        self.workspace.as_ref().is_none_or(|own| own.covers(run, policy, self.level))
    }
}

#[derive(Debug)]
pub(super) struct Store {
    database: Database,
}

/// Marks a file in which no level is set. Most runs need to know nothing else.
const NO_LEVELS: u32 = 1;
/// Marks a file in which levels are set.
const LEVELS: u32 = 2;

const APPROVAL: &str = "SELECT id, skill, kind, name, digest, files, capabilities, term, session, who, time, over, input, permissions, until, rejected FROM approval";
const LEVEL: &str =
    "SELECT skill, kind, name, level, digest, who, time, workspace, device, inode, until FROM level
    WHERE (until IS NULL OR until > ?1)";

impl Store {
    pub(super) fn at(path: &Path) -> Store {
        Store { database: Database::at(path, &TABLES) }
    }

    pub(super) fn levels(&self) -> Result<Vec<LevelSetting>, ApprovalError> {
        Ok(self.database.all(
            &format!("{LEVEL} ORDER BY skill, kind, name, workspace"),
            [seconds(Timestamp::now())],
            level,
        )?)
    }

    /// As [`Database::mark`]: not while another thread uses the file.
    pub(super) fn has_no_levels(&self) -> bool {
        self.database.mark() == Some(NO_LEVELS) || !self.database.is_there()
    }

    pub(super) fn levels_of(&self, skill: &str) -> Result<Vec<LevelSetting>, ApprovalError> {
        Ok(self.database.all(
            &format!("{LEVEL} AND skill = ?2"),
            [&seconds(Timestamp::now()), skill],
            level,
        )?)
    }

    pub(super) fn approvals(&self) -> Result<Vec<Approval>, ApprovalError> {
        Ok(self.database.all(&format!("{APPROVAL} ORDER BY id DESC"), [], approval)?)
    }

    /// Newest first.
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

    /// Uses an approval; one for a single run is then used up. `false`: another run was faster.
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
        scope: &LevelScope,
    ) -> Result<(), ApprovalError> {
        let (kind, name) = part.columns();
        let (workspace, device, inode) = columns(scope.workspace.as_ref());
        let set = self.database.write(|db| {
            // What ends by itself must leave what was set before in force.
            let permanent = "SELECT EXISTS (SELECT 1 FROM level WHERE skill = ?1 AND kind = ?2 AND name = ?3 AND workspace = ?4 AND until IS NULL)";
            if to.is_some() && scope.until.is_some() && db.query_row(permanent, params![skill, kind, name, workspace], |row| row.get(0))? {
                return Ok(false);
            }
            match to {
                Some(level) => db.execute(
                    "INSERT OR REPLACE INTO level (skill, kind, name, level, digest, who, time, workspace, device, inode, until)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                    params![
                        skill,
                        kind,
                        name,
                        level.name(),
                        digest,
                        who,
                        now(),
                        workspace,
                        device,
                        inode,
                        scope.until.map(seconds)
                    ],
                )?,
                None => db.execute(
                    "DELETE FROM level WHERE skill = ?1 AND kind = ?2 AND name = ?3
                        AND (workspace = ?4 OR ?4 <> '' AND device = ?5 AND inode = ?6)",
                    params![skill, kind, name, workspace, device, inode],
                )?,
            };
            let any: bool = db.query_row("SELECT EXISTS (SELECT 1 FROM level)", [], |row| row.get(0))?;
            db.pragma_update(None, "application_id", if any { LEVELS } else { NO_LEVELS })?;
            Ok(true)
        })?;
        if set { Ok(()) } else { Err(ApprovalError::PermanentLevel) }
    }

    pub(super) fn set_setting(
        &self,
        skill: &str,
        name: &str,
        value: Option<(&str, bool)>,
        workspace: Option<&Workspace>,
        who: &str,
    ) -> Result<(), ApprovalError> {
        let (workspace, device, inode) = columns(workspace);
        Ok(self.database.write(|db| {
            match value {
                Some((value, secret)) => db.execute(
                    "INSERT OR REPLACE INTO setting (skill, name, value, secret, who, time, workspace, device, inode)
                        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                    params![skill, name, value, secret, who, now(), workspace, device, inode],
                ),
                None => db.execute(
                    "DELETE FROM setting WHERE skill = ?1 AND name = ?2 AND workspace = ?3",
                    params![skill, name, workspace],
                ),
            }
            .map(drop)
        })?)
    }

    pub(super) fn settings(&self) -> Result<Vec<SettingValue>, ApprovalError> {
        let select = "SELECT skill, name, value, who, time, workspace, device, inode, secret FROM setting ORDER BY skill, name, workspace";
        Ok(self.database.all(select, [], |row| {
            Ok(SettingValue {
                skill: row.get(0)?,
                name: row.get(1)?,
                value: row.get(2)?,
                who: row.get(3)?,
                time: row.get(4)?,
                workspace: workspace(row, 5)?,
                secret: row.get(8)?,
            })
        })?)
    }

    pub(super) fn revoke(&self, skill: &str) -> Result<usize, ApprovalError> {
        let over = "UPDATE approval SET over = ?2 WHERE skill = ?1 AND over IS NULL";
        Ok(self.database.write(|db| db.execute(over, params![skill, now()]))?)
    }
}

fn level(row: &Row<'_>) -> rusqlite::Result<LevelSetting> {
    let level: String = row.get(3)?;
    // Read an unknown level as the strictest one.
    let level = PermissionLevel::from_name(&level).unwrap_or(PermissionLevel::Blocked);
    Ok(LevelSetting {
        skill: row.get(0)?,
        part: part(row, 1)?,
        level,
        digest: row.get(4)?,
        who: row.get(5)?,
        time: row.get(6)?,
        workspace: workspace(row, 7)?,
        until: row.get(10)?,
    })
}

/// Returns the columns of a workspace: its path, device and inode. An empty path means every
/// workspace. SQLite has no unsigned integers; the bits are kept.
fn columns(workspace: Option<&Workspace>) -> (&str, i64, i64) {
    workspace.map_or(("", 0, 0), |workspace| {
        let (device, inode) = workspace.identity;
        (&workspace.path, device.cast_signed(), inode.cast_signed())
    })
}

/// Reads a workspace from its [`columns`].
fn workspace(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Workspace>> {
    let path: String = row.get(at)?;
    let (device, inode): (i64, i64) = (row.get(at + 1)?, row.get(at + 2)?);
    let identity = (device.cast_unsigned(), inode.cast_unsigned());
    Ok((!path.is_empty()).then_some(Workspace { path, identity }))
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
        permissions: permissions(row, 13)?,
        until: row.get(14)?,
        rejected: row.get(15)?,
    })
}

/// Reads the part of a skill from two columns. An unknown kind makes the file unreadable, and then
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
    // Strings and maps of strings always serialize.
    serde_json::to_string(value).unwrap_or_default()
}

/// Reads the permissions of a request or approval; `None` for staged writes. Permissions that cannot
/// be read make the file unreadable, and then nothing runs.
fn permissions(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<PermissionSet>> {
    match row.get_ref(at)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => from_json(row, at).map(Some),
    }
}

fn from_json<T: serde::de::DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text: String = row.get(at)?;
    serde_json::from_str(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.into())
    })
}

fn now() -> String {
    Timestamp::now().to_string()
}

/// Formats a time so that texts compare as times do: in whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
