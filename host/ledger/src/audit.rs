//! The audit log: one record per run, whatever the outcome. A record is a JSON line, chained to the
//! line before it. A run that reaches a guest has a second record, written before the guest starts,
//! so that a host that is killed leaves a trace.
//!
//! `journal` is all that a run needs: it appends records. The other modules are for reading the
//! log: `store` is its database, indexed by `columns`; `query` finds and removes records;
//! `log_entry` is a parsed line; `verify` checks that nothing was altered. `content` is what a
//! record says about a run, with keyed digests (`key`) of anything that may be secret. `chain` is
//! the format of the end of a line, `lease` tells whether the host of a run is still alive, and
//! `origin` who requested it.

mod chain;
mod columns;
mod content;
mod journal;
mod key;
mod lease;
pub mod log_entry;
mod origin;
mod query;
mod store;
mod verify;

use std::collections::BTreeMap;
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
pub use origin::{SessionRecord, UserRecord};
pub use query::{RecordFilter, RemovalRecord, RetentionWindow};
pub use store::LogStore;
pub use verify::{Fault, FaultKind, Verification};

use key::LogKey;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::diagnostic::error_object;
use skillhost_policy::outcome::{LimitHit, Outcome, ResourceUsage};
use skillhost_skill::runtime::{self, Program, ScriptId};
use skillhost_skill::{Skill, SourceKind};

/// The version of the record format.
pub const VERSION: u32 = 3;

/// The record of a run. Contains no environment values, arguments, guest paths or output, only
/// keyed digests and sizes.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Record<'a> {
    /// The version of this format: 3.
    pub version: u32,
    /// The id of the run, as in the record of its start; absent if no guest was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// When the run was requested, RFC 3339 in UTC.
    pub time: String,
    /// The user whose process is the host; absent in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'a UserRecord>,
    /// The session that requested it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a SessionRecord>,
    /// The skill.
    pub skill: &'a SkillId,
    /// The skill's `metadata.version`, if it declares one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_version: Option<&'a str>,
    /// The program that ran; `null` if none was found.
    pub program: Option<ProgramRecord>,
    /// What it was granted, including limits.
    pub capabilities: &'a Capabilities,
    /// How it ended.
    pub status: StatusRecord,
    /// The resources that it used.
    pub usage: &'a ResourceUsage,
    /// The number of files touched, by guest path.
    pub files_touched: u64,
    /// The data that went through its standard streams.
    pub streams: StreamsRecord,
    /// Outbound HTTP requests.
    pub requests: Vec<RequestRecord>,
    /// The programs that were started, in order, at most 1,000.
    pub processes: Vec<ProcessRecord>,
    /// The number of further programs.
    pub processes_omitted: u64,
    /// The programs of the embedding application that it was allowed to start, and how often each was
    /// started; absent if it was allowed none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_programs: Option<&'a BTreeMap<String, u64>>,
    /// The attempts that were refused.
    pub denials: Vec<DenialRecord>,
    /// The limits that were hit.
    pub limits_hit: &'a [LimitHit],
    /// Its texts, if the policy keeps them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<TextRecord>,
    /// The digest of its receipt, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// The run of the run API whose result this run has: no guest was started for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
}

/// The record of a run that is about to start. The [`Record`] with the same `run` completes it.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct StartRecord<'a> {
    /// The version of this format: 3.
    pub version: u32,
    /// The id of the run.
    pub run: RunId,
    /// When the run was requested, RFC 3339 in UTC.
    pub time: &'a str,
    /// The user whose process is the host; absent in older records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'a UserRecord>,
    /// The session that requested it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a SessionRecord>,
    /// The skill.
    pub skill: &'a SkillId,
    /// The program that is about to run.
    pub program: ProgramRecord,
    /// Always `started`.
    pub status: StartStatus,
    /// The host that runs it.
    pub owner: HostId,
}

/// The id of a run: 16 random hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunId(u64);

/// The status of a run that has not ended.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StartStatus {
    /// It is about to start.
    Started,
}

/// The identity of a host process.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct HostId {
    /// The process id, in the host's own PID namespace.
    pub pid: u32,
    /// The byte of `audit.jsonl.running` that the host locks while it is alive; absent if the log
    /// is not a regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<u64>,
}

/// The identity of a skill: its source, its name there, and its digest. Policies, approvals,
/// records and receipts use these.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct SkillId {
    /// Its name in the catalogue, which is the name of its folder.
    pub name: String,
    /// Where it comes from.
    pub source: SourceKind,
    /// The name that the skill declares, if it differs. Nothing is granted to this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// The digest of all its files; `null` if they could not be read.
    pub digest: Option<String>,
    /// The skill's `metadata.version`, if it declares one; only in the audit log.
    #[serde(skip)]
    pub version: Option<String>,
}

impl SkillId {
    /// Returns the identity of a loaded skill with this digest.
    pub fn of(skill: &Skill, digest: Option<String>) -> SkillId {
        let declared =
            Some(&skill.manifest.name).filter(|declared| **declared != skill.name).cloned();
        let version = skill.manifest.metadata.get("version").cloned();
        SkillId { name: skill.name.clone(), source: skill.origin, declared, digest, version }
    }
}

/// The identity of a program, with its arguments.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ProgramId {
    /// The name that it was started by.
    pub name: String,
    /// The version of a built-in program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The script of the skill that it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptId>,
    /// The typed tool that was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The component's digest.
    pub component: String,
    /// The digest of the arguments, each followed by a NUL; for a tool, of its input.
    pub arguments: String,
}

/// The content of a line of the log.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum LineContent<'a> {
    /// A run that has ended.
    Run(Box<Record<'a>>),
    /// A run that is about to start.
    Start(StartRecord<'a>),
    /// A removal of records.
    Removal(RemovalRecord),
}

/// A line of the log: a record and its place in the chain.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Line<'a> {
    /// The record.
    #[serde(flatten)]
    pub entry: LineContent<'a>,
    /// The number of the record, from 1, without gaps.
    pub sequence: u64,
    /// The digest of the previous record; 64 zeros before the first.
    pub previous: String,
    /// The digest of all bytes of the line before `,"digest":`.
    pub digest: String,
}

/// The log cannot be written, in which case the run has failed, or it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The log cannot be written.
    #[error("cannot write the audit log {}: {source}", path.display())]
    Write {
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The log cannot be read.
    #[error("cannot read the audit log {}: {message}", path.display())]
    Read {
        /// The journal, or the database.
        path: PathBuf,
        /// The cause.
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
    /// Creates the record, with digests by the log's key.
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
            user: Some(UserRecord::of_process()),
            session: None,
            skill,
            program: ProgramRecord::of(program, key),
            status: StartStatus::Started,
            owner,
        }
    }
}

impl RunId {
    /// Returns a new random id.
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
    /// Returns the identity of a program.
    pub fn of(program: &Program) -> ProgramId {
        let (tool, arguments) = match &program.entry {
            runtime::EntryPoint::Tool { name, input, .. } => {
                (Some(name.clone()), runtime::digest(input.as_bytes()))
            }
            runtime::EntryPoint::Command | runtime::EntryPoint::ListTools => {
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
    /// Creates the record of an outcome, with digests by the key of the log it is for.
    ///
    /// # Errors
    /// The key cannot be created or read.
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
            user: Some(UserRecord::of_process()),
            session: None,
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
            host_programs: Some(&outcome.host_programs).filter(|programs| !programs.is_empty()),
            denials: outcome.denials.iter().map(|denial| DenialRecord::of(denial, key)).collect(),
            limits_hit: &outcome.limits_hit,
            text: None,
            receipt: None,
            cached: None,
        })
    }
}
