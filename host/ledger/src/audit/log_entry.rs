//! What those who look at the log read of a record again. Where something of it is missing, it is
//! empty: earlier records say less.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Head;

/// A line of the log, as far as lists, figures and the index need it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct LogEntry {
    pub sequence: u64,
    pub run: Option<String>,
    pub time: String,
    pub skill: Skill,
    pub program: Option<Program>,
    pub status: Status,
    pub usage: Usage,
    pub denials: Vec<IgnoredAny>,
    pub requests: Vec<Request>,
    pub processes: Vec<Process>,
    pub owner: Option<Owner>,
    /// Of a record of a removal: the last one that was removed.
    pub pruned: Option<Head>,
}

/// Which skill.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Skill {
    pub name: String,
}

/// What ran.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Program {
    pub name: String,
    pub script: Option<Script>,
    pub tool: Option<String>,
}

/// Which script.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Script {
    pub path: String,
}

/// How it ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Status {
    pub kind: String,
    pub code: Option<u8>,
    pub limit: Option<String>,
}

/// What it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Usage {
    pub wall_ms: f64,
}

/// A host that was asked.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Request {
    pub host: Option<String>,
    /// In records up to version 2.
    pub url: Option<String>,
}

/// A program that was started.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Process {
    pub program: Option<String>,
    /// In records up to version 2.
    pub argv0: Option<String>,
}

/// The host of a run that has started.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct Owner {
    pub pid: u32,
    pub lease: Option<u64>,
}
