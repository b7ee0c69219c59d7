//! The figures of the benchmark, as plain data.

use serde::{Deserialize, Serialize};

use super::tiers::Tier;
use super::{charts, page, tables};
use crate::cases::Case;
use crate::phases::Phase;
use crate::place::Place;
use crate::report::{self, Header};
use crate::stats::Spread;

/// One run of `cargo xtask bench isolation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) header: Header,
    /// The number of runs of each case in each tier before the first that is recorded.
    pub(crate) warm_up: usize,
    pub(crate) tiers: Vec<TierInfo>,
    pub(crate) cases: Vec<CaseInfo>,
    /// The runs of `/bin/true`, and of each case in each tier that is not missing.
    pub(crate) runs: Vec<Run>,
    pub(crate) throughput: Vec<Throughput>,
    pub(crate) growth: Vec<Growth>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) sizes: Vec<Size>,
    /// The first run of each case after an installation without `skillhost runtimes compile`. Older
    /// reports have none.
    #[serde(default)]
    pub(crate) first: Vec<FirstRun>,
    /// In the order of a run. Older reports have none.
    #[serde(default)]
    pub(crate) phases: Vec<Phase>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TierInfo {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The reason why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
    /// The disk space for all cases, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseInfo {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The size of the input, in bytes.
    pub(crate) input: u64,
}

/// A run that compiles its runtime and its component first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct FirstRun {
    pub(crate) case: String,
    /// From before the start to after the end.
    pub(crate) wall: u64,
}

/// A case in a tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) tier: String,
    pub(crate) case: String,
    /// The time from the start to the end of the run.
    pub(crate) wall: Spread,
    /// User and system time of all processes of the run.
    pub(crate) cpu: Spread,
    /// The peak resident memory of all processes of the run or, in the warm tier, of the whole
    /// host.
    pub(crate) memory: u64,
}

/// Invocations of the Python hello per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) tier: String,
    /// The number of concurrent invocations.
    pub(crate) concurrency: usize,
    pub(crate) per_second: f64,
}

/// Python hellos that all start at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) tier: String,
    pub(crate) skills: usize,
    /// The time until the last has ended.
    pub(crate) wall: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

/// Live Python guests, which wait for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) tier: String,
    pub(crate) instances: usize,
    /// The total private memory of the tier's processes.
    pub(crate) private: Option<u64>,
    /// The time from start to first output, of the first guest and of the last.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

/// The CSV report on a file of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Size {
    pub(crate) tier: String,
    pub(crate) input: u64,
    pub(crate) wall: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

impl Report {
    pub(crate) fn run(&self, tier: &str, case: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.tier == tier && run.case == case)
    }

    pub(crate) fn native(&self, case: &str) -> Option<&Run> {
        self.run(Tier::Native.id(), case)
    }

    /// Returns the tiers that have figures.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &TierInfo> {
        self.tiers.iter().filter(|tier| tier.missing.is_none())
    }

    /// Describes the tiers that have no figures, with the reasons.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = String> {
        self.tiers.iter().filter_map(|tier| {
            let why = tier.missing.as_deref()?.trim_end_matches('.').replace('\n', " ");
            Some(format!("Missing: {}: {why}.", tier.name))
        })
    }
}

impl CaseInfo {
    pub(crate) fn of(case: &Case, place: &Place) -> CaseInfo {
        let file =
            case.input.as_ref().and_then(|file| place.workspace().join(file).metadata().ok());
        let input = file.map_or(0, |file| file.len());
        CaseInfo { id: case.id.into(), name: case.name.into(), input }
    }
}

impl report::Report for Report {
    const VERB: &'static str = "isolation";
    const DOCUMENTS: &'static [&'static str] = &["README.md", PERFORMANCE];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, document: &str) -> String {
        let short = tables::short(self);
        if document != PERFORMANCE {
            return short;
        }
        let chart = "![Start-up by tier, on a logarithmic scale](../figures/start-up.svg)";
        let page = "[All figures and charts](../figures/isolation.html) are on a separate page.";
        format!("{short}\n{chart}\n\n{}\n\n{page}\n", charts::START_UP)
    }

    fn figures(&self) -> Vec<(String, String)> {
        let page = ("isolation.html".to_owned(), page::page(self));
        let charts = charts::all(self).into_iter();
        let charts = charts.map(|chart| (format!("{}.svg", chart.id), chart.svg));
        [page].into_iter().chain(charts).collect()
    }
}

const PERFORMANCE: &str = "docs/design/performance.md";

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a report with two measured tiers and a missing one.
    pub(crate) fn report() -> Report {
        let spread = |p50: u64| json!({ "n": 30, "p50": p50, "p90": p50 * 2, "p99": p50 * 3 });
        let run = |tier: &str, case: &str, wall: u64| {
            let (wall, cpu) = (spread(wall), spread(wall / 2));
            json!({ "tier": tier, "case": case, "wall": wall, "cpu": cpu, "memory": 9 << 20 })
        };
        report::tests::report(json!({
            "warm_up": 3,
            "tiers": [
                { "id": "native", "name": "native process", "disk": 50 << 20 },
                { "id": "bubblewrap", "name": "bubblewrap", "missing": "no `bwrap` on this machine" },
                { "id": "skillhost-cold", "name": "skillhost, cold", "disk": 120 << 20 },
            ],
            "cases": [{ "id": "hello", "name": "Python: hello", "input": 0 }],
            "runs": [
                run("native", "true", 800_000),
                run("native", "hello", 10_000_000),
                run("skillhost-cold", "hello", 3_000_000),
            ],
            "throughput": [
                { "tier": "native", "concurrency": 1, "per_second": 100.0 },
                { "tier": "native", "concurrency": 2, "per_second": 200.0 },
            ],
            "growth": [
                { "tier": "native", "skills": 1, "wall": 10_000_000 },
                { "tier": "native", "skills": 1000, "missing": "it would take about 99 s" },
            ],
            "memory": [
                { "tier": "native", "instances": 10, "private": 50 << 20, "first": 9_000_000, "last": 9_500_000 },
            ],
            "sizes": [
                { "tier": "native", "input": 1_000_000, "wall": spread(300_000_000) },
                { "tier": "native", "input": 5_000_000, "wall": spread(1_500_000_000) },
            ],
            "first": [{ "case": "Python: hello", "wall": 8_100_000_000_u64 }],
            "phases": [
                { "case": "Python: hello", "phase": "process", "wall": spread(1_000_000) },
                { "case": "Python: hello", "phase": "guest", "wall": spread(3_000_000) },
            ],
        }))
    }
}
