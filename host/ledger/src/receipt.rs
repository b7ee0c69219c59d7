//! A receipt: what ran, of what, with what, and what it came to, as one canonical JSON document
//! that anyone can check.
//!
//! It names no folder, user or time of the host, so two hosts that did the same have the same
//! receipt, where the run was deterministic. `canonical` is its text, `key` and `envelope` sign it,
//! `compare` tells in what two of them differ.

pub mod canonical;
pub mod compare;
pub mod envelope;
pub mod key;
mod policy;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::audit::{ProgramId, SkillId};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::{HttpRequest, LimitHit, Outcome, Output, ProcessEnd, Status};
use skillhost_sandbox::{ENGINE, Evidence, Mode, fingerprint};
use skillhost_skill::runtime::{self, EntryPoint, Program};

pub use policy::digest as policy_digest;

/// The host and its version.
pub const HOST: &str = concat!("skillhost ", env!("CARGO_PKG_VERSION"));

/// The version of the receipt's form.
pub const VERSION: u32 = 1;

/// Bytes of an output that a receipt holds as they are; of the rest it has the digest alone.
const HEAD: usize = 4096;

/// What one run was, and what it came to. Numbers above 2^53 - 1 are strings, as RFC 8785 needs it.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Receipt {
    /// The form of this receipt: 1.
    pub version: u32,
    /// The skill: its source and name, and the digest over all its files.
    pub skill: SkillId,
    /// What of it ran.
    pub program: ProgramId,
    /// What it ran in.
    pub runtime: ReceiptRuntime,
    /// What it was allowed.
    pub grant: ReceiptGrant,
    /// What it was given.
    pub input: ReceiptInput,
    /// What it came to.
    pub result: ReceiptResult,
}

/// What a run stands on.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptRuntime {
    /// The host and its version.
    pub host: &'static str,
    /// The engine and its version.
    pub engine: &'static str,
    /// Which of its ways to run: only `deterministic` promises the same result everywhere.
    pub mode: Mode,
    /// Over what of the engine decides the result.
    pub fingerprint: String,
    /// The built-in programs that it could start, by name: their digests.
    pub programs: BTreeMap<String, String>,
    /// Folders of packages that it could read, by guest path: a digest over all that is in each.
    pub packages: BTreeMap<String, String>,
}

/// What a run was allowed.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptGrant {
    /// Over the policy: its rules, without the names of files and folders of the host.
    pub policy: String,
    /// Over the capabilities below, as canonical JSON.
    pub digest: String,
    /// The capabilities, as in an audit record, without folders and files of the host. Seed and
    /// start time of a deterministic run are in `determinism`.
    pub capabilities: Value,
}

/// What a run was given.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptInput {
    /// The arguments, in the clear: whoever checks the receipt needs them.
    pub arguments: Vec<String>,
    /// The input of a typed tool, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<String>,
    /// The command line of the shell, where one was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Standard input.
    pub stdin: ContentDigest,
    /// The operator's variables, by name: the digests of their values.
    pub environment: BTreeMap<String, String>,
    /// The granted folders as the guest found them.
    pub files: FileTable,
}

/// Bytes that a receipt knows by digest.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ContentDigest {
    /// How many.
    pub bytes: u64,
    /// Their digest.
    pub digest: String,
}

/// Folders that a receipt knows by digest.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct FileTable {
    /// Over the table below, as canonical JSON.
    pub digest: String,
    /// Each guest path that could be read: the digest of a file, `folder`, or `link` and where it
    /// leads.
    pub table: BTreeMap<String, String>,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptResult {
    /// How it ended.
    pub status: Status,
    /// Standard output.
    pub stdout: OutputDigest,
    /// Standard error.
    pub stderr: OutputDigest,
    /// The result of a typed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// What a typed tool said instead of a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The granted folders as the guest left them, writes that were kept aside included.
    pub files: FileChanges,
    /// What it cost, without times.
    pub cost: Cost,
    /// The programs that it started, in order, at most 1,000.
    pub processes: Vec<ReceiptProcess>,
    /// Programs that were started beyond those.
    pub processes_omitted: u64,
    /// Its HTTP requests, in order, refused ones included.
    pub requests: Vec<HttpRequest>,
    /// What it tried and was not allowed, in the guest's terms.
    pub denials: Vec<String>,
    /// The limits it ran into, in order.
    pub limits_hit: Vec<LimitHit>,
}

/// An output.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct OutputDigest {
    /// How many bytes.
    pub bytes: u64,
    /// Their digest.
    pub digest: String,
    /// The first 4,096 of them.
    pub head: Output,
}

/// Folders after a run.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct FileChanges {
    /// Over the whole table of what is there, as in the input.
    pub digest: String,
    /// Each guest path that is not as it was: what is there now, `null` where there is nothing.
    pub changed: BTreeMap<String, Option<String>>,
}

/// What a run cost, as far as it is the same everywhere.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[expect(missing_docs, reason = "as in the outcome's `usage`")]
pub struct Cost {
    /// Fuel burnt; only on the engines that count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    pub memory_peak: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub files_created: u64,
    pub http_sent: u64,
    pub http_received: u64,
    pub processes: u64,
}

/// A program that was started.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptProcess {
    /// The name it was started by.
    pub argv0: String,
    /// Over the whole command line, each word closed by a NUL.
    pub argv_digest: String,
    /// How it ended.
    pub exit: ProcessEnd,
    /// Fuel burnt; only on the engines that count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// 1 where the first program started it, one more for each between.
    pub depth: u64,
}

/// What a receipt is made of, beside the outcome.
pub struct ReceiptParts<'a> {
    /// The skill.
    pub skill: &'a SkillId,
    /// What ran.
    pub program: &'a Program,
    /// The arguments of the request, before a script's own are put before them.
    pub arguments: &'a [String],
    /// The text of a shell command.
    pub command: Option<&'a str>,
    /// What it was allowed.
    pub capabilities: &'a Capabilities,
    /// [`policy_digest`] of the policy.
    pub policy: &'a str,
    /// The built-in programs: name and digest.
    pub programs: BTreeMap<String, String>,
    /// What was on stdin.
    pub stdin: ContentDigest,
    /// The files.
    pub evidence: &'a Evidence,
}

impl Receipt {
    /// The receipt of a run; `None` where it came to no result: it did not run, was interrupted or
    /// aborted.
    pub fn of(parts: ReceiptParts<'_>, outcome: &Outcome) -> Option<Receipt> {
        match outcome.status {
            Status::Exited { .. } | Status::LimitHit(_) | Status::Trapped { .. } => {}
            Status::Denied(_)
            | Status::Invalid { .. }
            | Status::Failed { .. }
            | Status::Interrupted
            | Status::Aborted { .. } => {
                return None;
            }
        }
        let ReceiptParts {
            skill,
            program,
            arguments,
            command,
            capabilities,
            policy,
            programs,
            stdin,
            evidence,
        } = parts;
        let tool_input = if let EntryPoint::Tool { input, .. } = &program.entry {
            Some(input.clone())
        } else {
            None
        };
        let environment = capabilities
            .env
            .iter()
            .map(|(name, value)| (name.clone(), runtime::digest(value.as_bytes())))
            .collect();
        let mode = Mode::of(capabilities);
        Some(Receipt {
            version: VERSION,
            skill: skill.clone(),
            program: ProgramId::of(program),
            runtime: ReceiptRuntime {
                host: HOST,
                engine: ENGINE,
                mode,
                fingerprint: fingerprint(mode),
                programs,
                packages: evidence.before.packages.clone(),
            },
            grant: ReceiptGrant::of(capabilities, policy),
            input: ReceiptInput {
                arguments: arguments.to_vec(),
                tool_input,
                command: command.map(str::to_owned),
                stdin,
                environment,
                files: FileTable {
                    digest: canonical::digest(&evidence.before.files),
                    table: evidence.before.files.clone(),
                },
            },
            result: ReceiptResult::of(outcome, evidence),
        })
    }
}

/// What a receipt says of capabilities, under a policy of that digest: all but what is of this
/// machine.
pub fn granted(capabilities: &Capabilities, policy: &str) -> ReceiptGrant {
    let mut value = canonical::value(capabilities);
    for (list, host) in [("mounts", "host"), ("packages", "host"), ("authorities", "file")] {
        for entry in
            value[list].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
        {
            entry.remove(host);
        }
    }
    ReceiptGrant {
        policy: policy.to_owned(),
        digest: canonical::digest(&value),
        capabilities: value,
    }
}

impl ReceiptResult {
    fn of(outcome: &Outcome, evidence: &Evidence) -> ReceiptResult {
        let Outcome {
            status,
            stdout,
            stderr,
            result,
            error,
            usage,
            requests,
            processes,
            processes_omitted,
            denials,
            limits_hit,
            ..
        } = outcome;
        let started = processes.iter().map(|process| ReceiptProcess {
            argv0: process.argv0.clone(),
            argv_digest: process.argv_digest.clone(),
            exit: process.exit.clone(),
            fuel: process.fuel,
            depth: process.depth,
        });
        let (before, after) = (&evidence.before.files, &evidence.after.files);
        let paths =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path));
        ReceiptResult {
            status: status.clone(),
            stdout: OutputDigest::of(stdout),
            stderr: OutputDigest::of(stderr),
            value: result.clone(),
            error: error.clone(),
            files: FileChanges {
                digest: canonical::digest(after),
                changed: paths.map(|path| (path.clone(), after.get(path).cloned())).collect(),
            },
            cost: Cost {
                fuel: usage.fuel,
                memory_peak: usage.memory_peak,
                bytes_read: usage.bytes_read,
                bytes_written: usage.bytes_written,
                files_created: usage.files_created,
                http_sent: usage.http_sent,
                http_received: usage.http_received,
                processes: usage.processes,
            },
            processes: started.collect(),
            processes_omitted: *processes_omitted,
            requests: requests.clone(),
            denials: denials.iter().map(|denial| denial.what.clone()).collect(),
            limits_hit: limits_hit.clone(),
        }
    }
}

impl ContentDigest {
    /// Of some bytes.
    pub fn of(bytes: &[u8]) -> ContentDigest {
        ContentDigest { bytes: bytes.len() as u64, digest: runtime::digest(bytes) }
    }
}

impl OutputDigest {
    fn of(output: &Output) -> OutputDigest {
        let ContentDigest { bytes, digest } = ContentDigest::of(&output.0);
        // Whole characters, so that a text stays one.
        let end = match std::str::from_utf8(&output.0) {
            Ok(text) => text.floor_char_boundary(HEAD),
            Err(_) => output.0.len().min(HEAD),
        };
        OutputDigest { bytes, digest, head: Output(output.0[..end].to_vec()) }
    }
}
