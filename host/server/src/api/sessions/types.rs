//! What clients send and get about sessions. A program of a session is described as a run is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::types::{FileChange, FileSource, RunTarget};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{ChangeKind, Output};

/// A session to create.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionRequest {
    /// The skills whose permissions programs can have, as `skill` of a run names them; at least one.
    /// The first one is the default, and its rules hold for reading and writing files.
    pub skills: Vec<String>,
    /// The files of `/workspace` at the beginning, by their path in it.
    pub files: BTreeMap<String, FileSource>,
    /// The digest of a tree whose files `/workspace` has at the beginning: a snapshot, or a blob with
    /// a `Tree` as JSON. Not together with `files`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub tree: Option<String>,
    /// Seconds until the session expires, at most those of the quota `session-ttl`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    /// Seconds without a request or a program until the session expires, at most those of the quota
    /// `session-idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<u64>,
    /// The most bytes of changed files and of `/tmp`; a value above the limit `disk` of the first
    /// skill has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Permissions and limits to take away from the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<SessionPolicy>,
}

/// Permissions and limits that a session and its forks lose, although the tenant's policy grants them
/// to its skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionPolicy {
    /// Up to 64 entries, as in `deny` of a policy file, such as `Write` or
    /// `WebFetch(domain:example.com)`. They override everything that is allowed.
    #[schemars(length(max = 64))]
    pub deny: Vec<String>,
    /// Limits of each program, as those of a run. They can only lower those of the tenant's policy.
    pub limits: BTreeMap<Limit, u64>,
}

/// Where a session is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionStatus {
    /// It can be used.
    Active,
    /// A client ended it.
    Ended,
    /// It was not used for too long, or its time was up.
    Expired,
    /// The server, or in a fleet the worker that had it, ended. The files are gone.
    Lost,
}

impl SessionStatus {
    const ALL: [SessionStatus; 4] =
        [SessionStatus::Active, SessionStatus::Ended, SessionStatus::Expired, SessionStatus::Lost];

    /// Returns the status as one word.
    pub fn name(self) -> &'static str {
        match self {
            SessionStatus::Active => "active",
            SessionStatus::Ended => "ended",
            SessionStatus::Expired => "expired",
            SessionStatus::Lost => "lost",
        }
    }

    /// Returns the status of this name.
    pub fn of_name(name: &str) -> Option<SessionStatus> {
        SessionStatus::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Where it is in its life.
    pub status: SessionStatus,
    /// Its skills, as they were named.
    pub skills: Vec<String>,
    /// When it was created, RFC 3339 in UTC.
    pub created: String,
    /// When it expires at the latest; absent if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The session that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Bytes of changed files and of `/tmp`.
    #[serde(default)]
    pub disk: u64,
    /// The most of them.
    #[serde(default)]
    pub disk_limit: u64,
    /// Programs that have not ended.
    #[serde(default)]
    pub running: usize,
    /// The policy of the request that created it; absent if it has ended or its worker does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<SessionPolicy>,
}

/// Sessions, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
}

/// The token of a session for the `sandboxd` protocol.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxToken {
    /// Clients send it as `Authorization: Bearer TOKEN`. The server keeps a digest of it.
    pub token: String,
}

/// A program to run in a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramRequest {
    /// The skill whose permissions it has: one of the session's, by default the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The part of the skill to run. Without it, `args` is a program of the sandbox and its arguments,
    /// such as `["python3", "check.py"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<RunTarget>,
    /// The arguments.
    pub args: Vec<String>,
    /// The standard input: text, or base64. Empty by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Output>,
    /// Send the standard input later, to `/v1/sessions/ID/programs/PROGRAM/stdin`.
    pub stream_stdin: bool,
    /// Variables of a program of the sandbox. Not with `target`.
    pub env: BTreeMap<String, String>,
    /// The folder in which a program of the sandbox starts; by default `/workspace`. Not with `target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Limits, as those of a run. They can only lower those of the policy.
    pub limits: BTreeMap<Limit, u64>,
    /// Seconds to wait for the end before the answer, at most 60.
    pub wait: u64,
}

/// A signal to a program. Guests have no handlers: each of these ends it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// The signal.
    pub signal: Signal,
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Interrupt.
    Int,
    /// Terminate.
    Term,
    /// Kill.
    Kill,
}

/// A snapshot of the files of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotInfo {
    /// The digest of the tree, a blob. It expires as uploads do.
    pub tree: String,
    /// The files in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which snapshot to restore.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// The digest of the tree.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub tree: String,
}

/// What a session changed in `/workspace`, relative to its beginning or to the last `apply`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SessionChanges {
    /// The changes. The content of a new file is the blob with its digest.
    pub changes: Vec<FileChange>,
    /// The same as a unified diff, at most 1 MiB.
    pub diff: String,
}

/// The entries of a folder.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FileList {
    /// The entries, by path.
    pub entries: Vec<FileEntry>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Its path below the folder.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// The bytes of a file.
    pub bytes: u64,
    /// When it was last written, RFC 3339 in UTC.
    pub modified: String,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A symlink.
    Link,
}

/// A file that was written.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WrittenFile {
    /// Its bytes.
    pub bytes: u64,
}

/// The data of the event `change` of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WatchEvent {
    /// The path in `/workspace`.
    pub path: String,
    /// What happened to it last.
    pub change: ChangeKind,
}
