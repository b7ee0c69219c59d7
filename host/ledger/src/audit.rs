//! One record per invocation, whatever the outcome: a JSON line, chained to the line before it. A
//! run that reaches a guest has a second one, which is written before the guest starts, so that a
//! host that is killed leaves a trace.
//!
//! `journal` is what a run writes to. Everything else is for those who look at the log: `store` is
//! its database, with `columns` for an index, `query` finds and removes records, `told` is what is
//! read of one again, `verify` tells whether they are those that were written. `content` is what a
//! record holds of a run, by `key` where that may be secret. `chain` is the form of a line's end,
//! `lease` tells whether the host of a run is still alive.

mod chain;
mod columns;
mod content;
mod journal;
mod key;
mod lease;
pub mod log_entry;
mod query;
mod store;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use chain::ChainHead;
pub use content::{
    DenialRecord, DenialSubject, ExitRecord, ProcessRecord, ProgramRecord, Redactor, RequestRecord,
    StatusRecord, StreamsRecord, TextRecord,
};
pub use journal::Log;
pub use key::KeyedDigest;
pub use log_entry::LogEntry;
pub use query::{RecordFilter, RemovalRecord, RetentionWindow};
pub use store::LogStore;
pub use verify::{Fault, FaultKind, Verification};

use key::LogKey;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::diagnostic::error_object;
use skillhost_policy::outcome::{LimitHit, Outcome, ResourceUsage};
use skillhost_skill::runtime::{self, Program, ScriptId};
use skillhost_skill::{Skill, SourceKind};

/// The version of the record's form.
pub const VERSION: u32 = 3;

/// What is kept of one invocation. No environment values, no arguments, no paths of guests, no
/// output: keyed digests and sizes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Record<'a> {
    /// The form of this record: 3.
    pub version: u32,
    /// The id of the run, as in the record of its start; absent where no guest was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When the invocation was asked for, RFC 3339 in UTC.
    pub time: String,
    /// The skill.
    pub skill: &'a SkillId,
    /// The skill's `metadata.version`, where it declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_version: Option<&'a str>,
    /// What ran; `None` where nothing got so far.
    pub program: Option<ProgramRecord>,
    /// What it was allowed, limits included.
    pub capabilities: &'a Capabilities,
    /// How it ended.
    pub status: StatusRecord,
    /// What it cost.
    pub usage: &'a ResourceUsage,
    /// Files touched, by guest path: how many.
    pub files_touched: u64,
    /// What went through its standard streams.
    pub streams: StreamsRecord,
    /// Outbound HTTP requests.
    pub requests: Vec<RequestRecord>,
    /// Each program that was started, in order, at most 1,000.
    pub processes: Vec<ProcessRecord>,
    /// Programs that were started beyond those.
    pub processes_omitted: u64,
    /// What was refused.
    pub denials: Vec<DenialRecord>,
    /// Limits that were run into.
    pub limits_hit: &'a [LimitHit],
    /// Its texts, where the policy says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextRecord>,
    /// The digest of its receipt, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// The record of a run that is about to start. A [`Record`] with the same `run` completes it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct StartRecord<'a> {
    /// The form of this record: 3.
    pub version: u32,
    /// The id of the run.
    pub run: RunId,
    /// When the invocation was asked for, RFC 3339 in UTC.
    pub time: &'a str,
    /// The skill.
    pub skill: &'a SkillId,
    /// What is about to run.
    pub program: ProgramRecord,
    /// Always `started`.
    pub status: StartStatus,
    /// The host that runs it.
    pub owner: HostId,
}

/// The id of a run: 16 hex digits, chosen at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunId(u64);

/// The status of a run that has not ended.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StartStatus {
    /// It is about to start.
    StartStatus,
}

/// Which host runs something.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct HostId {
    /// Its process id, in its own PID namespace.
    pub pid: u32,
    /// The byte of `audit.jsonl.running` that it locks for as long as it lives; absent where the
    /// log is not a regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
}

/// Which skill: its source, its name there and its digest. Policies, approvals, records and
/// receipts go by these.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct SkillId {
    /// Its name in the catalogue: that of its folder.
    pub name: String,
    /// Who put it there.
    pub source: SourceKind,
    /// The name that the skill gives itself, where that is another. Nothing is granted by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// Over all its files; `None` where it could not be read.
    pub digest: Option<String>,
    /// Its `metadata.version`, where it declares one: in the audit log alone.
    #[serde(skip)]
    pub version: Option<String>,
}

impl SkillId {
    /// The identity of a loaded skill that has this digest.
    pub fn of(skill: &Skill, digest: Option<String>) -> SkillId {
        let declared =
            Some(&skill.manifest.name).filter(|declared| **declared != skill.name).cloned();
        let version = skill.manifest.metadata.get("version").cloned();
        SkillId { name: skill.name.clone(), source: skill.origin, declared, digest, version }
    }
}

/// Which program of it, with which arguments.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ProgramId {
    /// The name it was started by.
    pub name: String,
    /// The version of a built-in program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The skill's script that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptId>,
    /// The typed tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The component's digest.
    pub component: String,
    /// Over the arguments, each closed by a NUL (for a tool: over its input).
    pub arguments: String,
}

/// What a line of the log records.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum LineContent<'a> {
    /// An invocation that has ended.
    Run(Box<Record<'a>>),
    /// A run that is about to start.
    StartRecord(StartRecord<'a>),
    /// Records that were removed.
    RemovalRecord(RemovalRecord),
}

/// A line of the log: a record and its place in the chain.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Line<'a> {
    /// What happened.
    #[serde(flatten)]
    pub entry: LineContent<'a>,
    /// The record's number, from 1, without a gap.
    pub sequence: u64,
    /// The digest of the record before; 64 zeros before the first.
    pub previous: String,
    /// Over all bytes of the line before `,"digest":`.
    pub digest: String,
}

/// The log cannot be written, so the invocation has failed; or it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be written.
    #[error("the audit log {} cannot be written: {source}", path.display())]
    Write {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("the audit log {} cannot be read: {message}", path.display())]
    Read {
        /// The journal, or its database.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

impl Serialize for AuditError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (code, path) = match self {
            AuditError::Write { path, .. } => ("audit-write", path),
            AuditError::Read { path, .. } => ("audit-read", path),
        };
        error_object(code, self, serde_json::json!({ "path": path.display().to_string() }))
            .serialize(serializer)
    }
}

impl AuditError {
    fn write(path: &Path, source: io::Error) -> AuditError {
        AuditError::Write { path: path.to_owned(), source }
    }

    fn read(path: &Path, error: &dyn std::fmt::Display) -> AuditError {
        AuditError::Read { path: path.to_owned(), message: error.to_string() }
    }
}

impl<'a> StartRecord<'a> {
    /// A run that is about to start, by the key of the log.
    pub fn of(
        run: RunId,
        time: &'a str,
        skill: &'a SkillId,
        program: &ProgramId,
        owner: HostId,
        key: &LogKey,
    ) -> StartRecord<'a> {
        StartRecord {
            version: VERSION,
            run,
            time,
            skill,
            program: ProgramRecord::of(program, key),
            status: StartStatus::Started,
            owner,
        }
    }
}

impl RunId {
    /// A new one.
    pub fn random() -> RunId {
        RunId(rand::random())
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl schemars::JsonSchema for RunId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RunId".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "The id of a run.", "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

impl ProgramId {
    /// What a record says of a program.
    pub fn of(program: &Program) -> ProgramId {
        let (tool, arguments) = match &program.entry {
            runtime::LineContent::Tool { name, input, .. } => {
                (Some(name.clone()), runtime::digest(input.as_bytes()))
            }
            runtime::LineContent::Command | runtime::LineContent::ListTools => {
                let joined: Vec<u8> =
                    program.args.iter().flat_map(|arg| arg.bytes().chain([0])).collect();
                (None, runtime::digest(&joined))
            }
        };
        let version =
            program.component.built_in().map(|built_in| built_in.description.version.clone());
        let component = program.component.digest.clone();
        ProgramId {
            name: program.name.clone(),
            version,
            script: program.script.clone(),
            tool,
            component,
            arguments,
        }
    }
}

impl<'a> Record<'a> {
    /// What is kept of an outcome, by the key of the log that it is for.
    ///
    /// # Errors
    /// The key cannot be made or read.
    pub fn of(
        time: String,
        skill: &'a SkillId,
        program: Option<&ProgramId>,
        capabilities: &'a Capabilities,
        outcome: &'a Outcome,
        log: &Log,
    ) -> Result<Record<'a>, AuditError> {
        let key = log.key()?;
        Ok(Record {
            version: VERSION,
            run: None,
            time,
            skill,
            skill_version: skill.version.as_deref(),
            program: program.map(|program| ProgramRecord::of(program, key)),
            capabilities,
            status: StatusRecord::of(&outcome.status, key),
            usage: &outcome.usage,
            files_touched: outcome.files.len() as u64,
            streams: StreamsRecord::of(&outcome.streams, key),
            requests: outcome
                .requests
                .iter()
                .map(|request| RequestRecord::of(request, key))
                .collect(),
            processes: outcome
                .processes
                .iter()
                .map(|process| ProcessRecord::of(process, key))
                .collect(),
            processes_omitted: outcome.processes_omitted,
            denials: outcome.denials.iter().map(|denial| DenialRecord::of(denial, key)).collect(),
            limits_hit: &outcome.limits_hit,
            text: None,
            receipt: None,
        })
    }
}
