//! What those who look at the log read of a record again. Where something of it is missing, it is
//! empty: earlier records say less.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::ChainHead;

/// A line of the log, as far as lists, figures and the index need it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct LogEntry {
    pub sequence: u64,
    pub run: Option<String>,
    pub time: String,
    pub skill: EntrySkill,
    pub program: Option<EntryProgram>,
    pub status: EntryStatus,
    pub usage: EntryUsage,
    pub denials: Vec<IgnoredAny>,
    pub requests: Vec<EntryRequest>,
    pub processes: Vec<EntryProcess>,
    pub owner: Option<EntryHost>,
    /// Of a record of a removal: the last one that was removed.
    pub pruned: Option<ChainHead>,
}

/// Which skill.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntrySkill {
    pub name: String,
}

/// What ran.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryProgram {
    pub name: String,
    pub script: Option<EntryScript>,
    pub tool: Option<String>,
}

/// Which script.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryScript {
    pub path: String,
}

/// How it ended.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryStatus {
    pub kind: String,
    pub code: Option<u8>,
    pub limit: Option<String>,
}

/// What it cost.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryUsage {
    pub wall_ms: f64,
}

/// A host that was asked.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryRequest {
    pub host: Option<String>,
    /// In records up to version 2.
    pub url: Option<String>,
}

/// A program that was started.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryProcess {
    pub program: Option<String>,
    /// In records up to version 2.
    pub argv0: Option<String>,
}

/// The host of a run that has started.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryHost {
    pub pid: u32,
    pub lease: Option<u64>,
}
