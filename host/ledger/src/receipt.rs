//! Receipts: what ran, with what input, and the result, as one canonical JSON document that anyone
//! can check.
//!
//! A receipt names no folder, user or time of the host, so that two deterministic runs with the
//! same input have the same receipt on any host. `canonical` is the JSON form, `key` and `envelope`
//! sign it, and `compare` finds the differences between two receipts.

pub mod canonical;
pub mod compare;
pub mod envelope;
pub mod key;
mod policy;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::audit::{ProgramId, SkillId};
use skillhost_policy::capabilities::{Capabilities, CapturedCapabilities};
use skillhost_policy::outcome::{HttpRequest, LimitHit, Outcome, Output, ProcessEnd, Status};
use skillhost_sandbox::{ENGINE, Evidence, Mode, fingerprint};
use skillhost_skill::runtime::{self, EntryPoint, Program};

pub use policy::digest as policy_digest;

/// The host and its version.
pub const HOST: &str = concat!("skillhost ", env!("CARGO_PKG_VERSION"));

/// The version of the receipt format.
pub const VERSION: u32 = 1;

/// How many bytes of an output a receipt includes. It has a digest of the whole output.
const HEAD: usize = 4096;

/// A receipt. Integers above 2^53 - 1 are strings, as RFC 8785 requires.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Receipt {
    /// The version of this format: 1.
    pub version: u32,
    /// The skill: its source, its name, and the digest of all its files.
    pub skill: SkillId,
    /// The program that ran.
    pub program: ProgramId,
    /// The runtime it ran on.
    pub runtime: ReceiptRuntime,
    /// What it was granted.
    pub grant: ReceiptGrant,
    /// Its input.
    pub input: ReceiptInput,
    /// The result.
    pub result: ReceiptResult,
    /// The run of the run API whose result this is: it was not executed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
}

/// The host, the engine and the programs of a run.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptRuntime {
    /// The host and its version.
    pub host: &'static str,
    /// The engine and its version.
    pub engine: &'static str,
    /// The engine's mode. Only `deterministic` promises the same result everywhere.
    pub mode: Mode,
    /// The fingerprint of everything in the engine that affects the result.
    pub fingerprint: String,
    /// Digests of the built-in programs that it could start, by name.
    pub programs: BTreeMap<String, String>,
    /// Digests of the package folders that it could read, by guest path.
    pub packages: BTreeMap<String, String>,
}

/// What a run was granted.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptGrant {
    /// Digest of the policy's rules, without names of host files and folders.
    pub policy: String,
    /// Digest of the capabilities below, as canonical JSON.
    pub digest: String,
    /// The capabilities, as in an audit record, without host folders and files. The seed and start
    /// time of a deterministic run are in `determinism`.
    #[schemars(with = "Value")]
    pub capabilities: CapturedCapabilities,
}

/// The input of a run.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ReceiptInput {
    /// The arguments, as plain text: anyone who checks the receipt needs them.
    pub arguments: Vec<String>,
    /// The input of a typed tool, in clear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_input: Option<String>,
    /// The command line for the shell, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Standard input.
    pub stdin: ContentDigest,
    /// Digests of the values of the operator's variables, by name.
    pub environment: BTreeMap<String, String>,
    /// The granted folders before the run.
    pub files: FileTable,
}

/// The size and digest of some bytes.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ContentDigest {
    /// The number of bytes.
    pub bytes: u64,
    /// Their digest.
    pub digest: String,
}

/// Files and folders, by digest.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct FileTable {
    /// Digest of the table below, as canonical JSON.
    pub digest: String,
    /// Each readable guest path: the digest of a file, `folder`, or `link` and its target.
    pub table: BTreeMap<String, String>,
}

/// The result of a run.
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
    /// The error of a typed tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The granted folders after the run, including staged writes.
    pub files: FileChanges,
    /// The resources that it used, without times.
    pub cost: Cost,
    /// The programs that it started, in order, at most 1,000.
    pub processes: Vec<ReceiptProcess>,
    /// The number of further programs.
    pub processes_omitted: u64,
    /// The programs of the embedding application that it was allowed to start, and how often each was
    /// started. `verify` cannot repeat such a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_programs: BTreeMap<String, u64>,
    /// Its HTTP requests, in order, including refused ones.
    pub requests: Vec<HttpRequest>,
    /// The attempts that were refused, as the guest sees them.
    pub denials: Vec<String>,
    /// The limits that it hit, in order.
    pub limits_hit: Vec<LimitHit>,
}

/// An output stream.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct OutputDigest {
    /// The number of bytes.
    pub bytes: u64,
    /// Their digest.
    pub digest: String,
    /// The first 4,096 bytes.
    pub head: Output,
}

/// The folders after a run.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct FileChanges {
    /// Digest of the complete table, as in the input.
    pub digest: String,
    /// Each guest path that changed, with its new entry; `null` if it was removed.
    pub changed: BTreeMap<String, Option<String>>,
}

/// The resources of a run that are the same on every machine.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[expect(missing_docs, reason = "as in the outcome's `usage`")]
pub struct Cost {
    /// The fuel it burnt; only on engines that count fuel.
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
    /// The name that it was started by.
    pub argv0: String,
    /// Digest of the whole command line, each word followed by a NUL.
    pub argv_digest: String,
    /// How it ended.
    pub exit: ProcessEnd,
    /// The fuel it burnt; only on engines that count fuel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// 1 if the first program of the run started it, and 1 more for each program in between.
    pub depth: u64,
}

/// What a receipt needs besides the outcome.
pub struct ReceiptParts<'a> {
    /// The skill.
    pub skill: &'a SkillId,
    /// The program that ran.
    pub program: &'a Program,
    /// The arguments of the request, without those that a script's interpreter adds.
    pub arguments: &'a [String],
    /// The command line for the shell.
    pub command: Option<&'a str>,
    /// What it was granted.
    pub capabilities: &'a Capabilities,
    /// The [`policy_digest`] of the policy.
    pub policy: &'a str,
    /// Digests of the built-in programs, by name.
    pub programs: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: ContentDigest,
    /// Digests of the files before and after the run.
    pub evidence: &'a Evidence,
}

impl Receipt {
    /// Creates the receipt of a run; `None` if there is no result, because the run did not start,
    /// was interrupted or aborted.
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
            cached: None,
        })
    }
}

impl ReceiptGrant {
    /// Describes capabilities, under a policy of this digest, without anything that is specific to
    /// this machine.
    pub fn of(capabilities: &Capabilities, policy: &str) -> ReceiptGrant {
        let capabilities = CapturedCapabilities::of(capabilities);
        ReceiptGrant {
            policy: policy.to_owned(),
            digest: canonical::digest(&capabilities),
            capabilities,
        }
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
            host_programs,
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
            host_programs: host_programs.clone(),
            requests: requests.clone(),
            denials: denials.iter().map(|denial| denial.what.clone()).collect(),
            limits_hit: limits_hit.clone(),
        }
    }
}

impl ContentDigest {
    /// Returns the size and digest of some bytes.
    pub fn of(bytes: &[u8]) -> ContentDigest {
        ContentDigest { bytes: bytes.len() as u64, digest: runtime::digest(bytes) }
    }
}

impl OutputDigest {
    fn of(output: &Output) -> OutputDigest {
        let ContentDigest { bytes, digest } = ContentDigest::of(&output.0);
        // Cut at a character, so that a text stays a text.
        let end = match std::str::from_utf8(&output.0) {
            Ok(text) => text.floor_char_boundary(HEAD),
            Err(_) => output.0.len().min(HEAD),
        };
        OutputDigest { bytes, digest, head: Output(output.0[..end].to_vec()) }
    }
}
