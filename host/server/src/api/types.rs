//! What clients send and get: plain data, which any queue can carry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use skillhost_ledger::runs::RunStatus;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Output};

/// A run to submit.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSubmission {
    /// The skill: its name, the digest that an upload returned (`sha256:...`), or `NAME@sha256:...`,
    /// which runs only if the skill has this digest.
    pub skill: String,
    /// The part of the skill to run.
    #[serde(default)]
    pub target: RunTarget,
    /// The arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// The standard input: text, or base64. Empty by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Output>,
    /// The files of `/workspace`, by their path in it.
    #[serde(default)]
    pub files: BTreeMap<String, FileSource>,
    /// The digest of a tree, whose files, folders and symlinks make up `/workspace`: a blob with a `Tree`
    /// as JSON, or a snapshot of a session. Not together with `files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub tree: Option<String>,
    /// Limits, in milliseconds, bytes or a count. They can only lower those of the policy: a higher
    /// value has no effect.
    #[serde(default)]
    pub limits: BTreeMap<Limit, u64>,
    /// Run deterministically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deterministic: Option<DeterministicRun>,
    /// Make a receipt. The output is in the log when the run has ended, not before.
    #[serde(default)]
    pub receipt: bool,
}

/// The part of a skill to run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunTarget {
    /// The command of the skill's component or, without one, its only script.
    #[default]
    Main,
    /// A script, by its path or name.
    Script(String),
    /// A typed tool.
    Tool(ToolCall),
    /// A command line for the shell.
    Command(String),
}

/// A call of a typed tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// Its input.
    pub input: Value,
}

/// A file of `/workspace`: either `digest` or `content`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSource {
    /// The digest of an uploaded blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// The content: text, or base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Output>,
    /// Whether the file is executable.
    #[serde(default)]
    pub executable: bool,
}

/// The settings of a deterministic run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeterministicRun {
    /// The seed of all randomness, by default the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The time at the start, in seconds since 1970, by default the policy's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
}

/// Where a run is in its life.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// The id of the run.
    pub id: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// The skill, as it was submitted.
    pub skill: String,
    /// When it was submitted, RFC 3339 in UTC.
    pub submitted: String,
    /// When it started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// How it ended: `exited`, `denied`, `invalid`, `failed`, `limit-hit`, `trapped`, `aborted` or
    /// `interrupted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The exit code of the program, if it exited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
}

/// Runs, the latest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<RunInfo>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The result of a run that has ended.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The run.
    pub run: RunInfo,
    /// What happened, as `skillhost run --json` prints it; absent if the run never started or is
    /// lost, or if the brokers of a fleet have lost its result. `stdout` and `stderr` have at most 1 MiB here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Outcome>")]
    pub outcome: Option<Value>,
    /// Whether `stdout` is longer than in `outcome`. All of it is at `/v1/runs/ID/stdout`.
    #[serde(default)]
    pub stdout_truncated: bool,
    /// Whether `stderr` is longer than in `outcome`. All of it is at `/v1/runs/ID/stderr`.
    #[serde(default)]
    pub stderr_truncated: bool,
    /// What the run wrote to `/workspace`, relative to the files that were submitted.
    #[serde(default)]
    pub changes: Vec<FileChange>,
    /// The same as a unified diff, at most 1 MiB.
    #[serde(default)]
    pub diff: String,
    /// The receipt, if one was requested and the run has a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Value>,
    /// The id of an earlier run of the tenant, if this run was answered with its result and not
    /// executed. Times and usage in `outcome` are those of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
}

impl RunResult {
    /// The result of a run of which nothing is known but its end.
    pub fn without_outcome(run: RunInfo) -> RunResult {
        RunResult {
            run,
            outcome: None,
            stdout_truncated: false,
            stderr_truncated: false,
            changes: Vec::new(),
            diff: String::new(),
            receipt: None,
            cached: None,
        }
    }
}

/// A path that a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The path in `/workspace`.
    pub path: String,
    /// What was there; absent if there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<FileState>,
    /// What is there now; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<FileState>,
}

/// A file, a folder or a symlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileState {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Its digest. The content of a new file is the blob with this digest.
        digest: String,
        /// Its mode, such as 420 for `rw-r--r--`; absent for a file that was there before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// A symlink.
    Link {
        /// Where it leads.
        target: String,
    },
}

/// The files of a folder as a value: what runs and sessions can start from, and what a snapshot is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    /// The entries, by their path. The folders above a path need no entry.
    pub entries: BTreeMap<String, FileState>,
}

/// A stored blob.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlobInfo {
    /// Its digest.
    pub digest: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A skill to upload, as a list of blobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillUpload {
    /// The name of its folder.
    pub name: String,
    /// Its files, by their path.
    pub files: BTreeMap<String, SkillFileSource>,
}

/// A file of a skill to upload.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillFileSource {
    /// The digest of an uploaded blob.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Whether the file is executable.
    #[serde(default)]
    pub executable: bool,
}

/// An uploaded skill.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// Its digest, by which runs can name it.
    pub digest: String,
}
