//! Parsed lines of the log. Missing fields are empty, since older records have fewer.

use serde::Deserialize;

use super::ChainHead;

/// A line of the log, with the fields that lists, statistics and the index need.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct LogEntry {
    pub sequence: u64,
    pub run: Option<String>,
    pub time: String,
    pub user: Option<EntryUser>,
    pub session: Option<EntrySession>,
    pub skill: EntrySkill,
    pub program: Option<EntryProgram>,
    pub status: EntryStatus,
    pub usage: EntryUsage,
    pub denials: Vec<EntryDenial>,
    pub requests: Vec<EntryRequest>,
    pub processes: Vec<EntryProcess>,
    pub owner: Option<EntryHost>,
    pub capabilities: EntryCapabilities,
    /// The last removed record, if this line records a removal.
    pub pruned: Option<ChainHead>,
}

/// The user of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryUser {
    pub uid: u32,
    pub name: Option<String>,
}

/// The session of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntrySession {
    pub id: Option<String>,
    pub client: Option<String>,
}

/// The skill of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntrySkill {
    pub name: String,
}

/// The program of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryProgram {
    pub name: String,
    pub script: Option<EntryScript>,
    pub tool: Option<String>,
}

/// The script of a line.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryScript {
    pub path: String,
}

/// The status of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryStatus {
    pub kind: String,
    pub code: Option<u8>,
    pub limit: Option<String>,
    /// The rule that refused the run.
    pub rule: Option<String>,
}

/// A refused attempt of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryDenial {
    pub rule: String,
}

/// The resources that a run used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryUsage {
    pub wall_ms: f64,
}

/// An HTTP request of a line.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryRequest {
    pub host: Option<String>,
    /// Only in records up to version 2.
    pub url: Option<String>,
}

/// A started program of a line.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryProcess {
    pub program: Option<String>,
    /// Only in records up to version 2.
    pub argv0: Option<String>,
}

/// What a run was granted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryCapabilities {
    pub mounts: Vec<EntryMount>,
}

/// A folder that a run was granted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryMount {
    pub guest: String,
    pub host: String,
}

/// The host of a run that has started.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "as in the record")]
pub struct EntryHost {
    pub pid: u32,
    pub lease: Option<u64>,
}
