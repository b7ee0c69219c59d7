//! What a run of the benchmark found: plain data, as JSON. docs/design/performance.md describes it for
//! readers.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use skillhost_toolchain::Error;

use super::stats::Spread;

/// The version of this layout.
pub(crate) const SCHEMA: u32 = 1;

/// One run of `cargo xtask bench isolation`. Times are in nanoseconds, sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    /// What repeats it.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// Of each program that was measured or stood on.
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) rounds: usize,
    /// Runs of each case in each tier before the first that counts.
    pub(crate) warm_up: usize,
    pub(crate) tiers: Vec<TierInfo>,
    pub(crate) cases: Vec<CaseInfo>,
    /// The baseline, and each case in each tier that is not missing.
    pub(crate) runs: Vec<Run>,
    pub(crate) throughput: Vec<Throughput>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) sizes: Vec<Size>,
    /// In the order of a run; none in reports from before they were measured.
    #[serde(default)]
    pub(crate) phases: Vec<Phase>,
}

/// Where it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// UTC, as YYYY-MM-DD.
    pub(crate) date: String,
    /// Mean number of processes that wanted a core in the minute before: more than a fraction of
    /// `cores` spoils the figures.
    pub(crate) load_before: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TierInfo {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
    /// Everything it needs on disk for these cases.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) disk: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseInfo {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Bytes of input.
    pub(crate) input: u64,
}

/// A case in a tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tier: String,
    pub(crate) case: String,
    /// From before the start to after the end.
    pub(crate) wall: Spread,
    /// User and system time of all processes of the run.
    pub(crate) cpu: Spread,
    /// Resident memory of all processes of the run that were alive at once, at its peak; of the
    /// warm tier, of the whole host.
    pub(crate) memory: u64,
}

/// Invocations a second, of the Python hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) tier: String,
    /// Invocations under way at once.
    pub(crate) concurrency: usize,
    pub(crate) per_second: f64,
}

/// Python hellos that all start at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) tier: String,
    pub(crate) skills: usize,
    /// Until the last has ended; none if it was not measured.
    pub(crate) wall: Option<u64>,
    /// Why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
}

/// Python guests that are alive at once, waiting for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) tier: String,
    pub(crate) instances: usize,
    /// Memory that belongs to no other process, of all processes of the tier together.
    pub(crate) private: Option<u64>,
    /// From the start of the first to its first output, and of the last.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    /// Why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
}

/// The CSV report on a file of that size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) tier: String,
    pub(crate) input: u64,
    pub(crate) wall: Option<Spread>,
    /// Why it was not measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) missing: Option<String>,
}

/// A part of a cold start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// The case's name.
    pub(crate) case: String,
    pub(crate) phase: String,
    pub(crate) wall: Spread,
}

impl Report {
    pub(crate) fn load(path: &Path) -> Result<Report, Error> {
        let bytes = std::fs::read(path).map_err(Error::context(path.display()))?;
        let report: Report =
            serde_json::from_slice(&bytes).map_err(Error::context(path.display()))?;
        if report.schema != SCHEMA {
            return Err(Error::new(format!(
                "{}: schema {}, and this reads {SCHEMA}",
                path.display(),
                report.schema
            )));
        }
        Ok(report)
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data has a form in JSON") + "\n"
    }

    pub(crate) fn run(&self, tier: &str, case: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.tier == tier && run.case == case)
    }

    /// The tiers that have figures.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &TierInfo> {
        self.tiers.iter().filter(|tier| tier.missing.is_none())
    }
}
