//! The report of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{CLIENTS, TENANTS};
use crate::report::{self, Header};
use crate::stats::Spread;
use crate::table::Table;
use crate::units;

/// How much longer than its median the 99th percentile of a small run may take, at 70 % of the
/// capacity.
const TAIL: u64 = 10;

/// How much longer the 99th percentile of a tenant may take beside a tenant that floods the queue.
const BESIDE: f64 = 1.5;

/// How much the memory of the server may grow after the first minute.
const GROWTH: f64 = 1.1;

/// What the run API documents for a server with more work than it can do at once.
const DOCUMENTED: [&str; 3] = ["429 queue-full", "429 too-many-streams", "503 closing"];

/// One run of `cargo xtask bench load`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(super) header: Header,
    /// Whether the clients were in a control group of their own.
    pub(super) isolated: bool,
    /// Whether those that flood the queue were in another one.
    pub(super) apart: bool,
    pub(super) mixed: Mixed,
    pub(super) native: Native,
    pub(super) capacity: Capacity,
    pub(super) flood: Vec<Flood>,
}

/// Mixed skills by all clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Mixed {
    pub(super) seconds: u64,
    pub(super) per_second: u64,
    pub(super) wall: Spread,
    /// What went wrong, by its status and code.
    pub(super) problems: BTreeMap<String, u64>,
    pub(super) memory_settled: u64,
    pub(super) memory_end: u64,
    pub(super) memory_peak: u64,
}

/// A pool of native processes that runs the same scripts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Native {
    pub(super) workers: usize,
    pub(super) per_second: u64,
    pub(super) wall: Spread,
}

/// Small runs: as many as the server can do, and one at 70 % of that rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Capacity {
    pub(super) per_second: u64,
    pub(super) wall: Spread,
}

/// A small tenant, alone and beside a tenant that floods the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Flood {
    pub(super) alone: Spread,
    pub(super) beside: Spread,
}

impl Report {
    /// The median of the ratios of the 99th percentiles.
    fn beside(&self) -> f64 {
        let ratio = |flood: &Flood| flood.beside.p99 as f64 / flood.alone.p99.max(1) as f64;
        let mut ratios: Vec<f64> = self.flood.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// The problems that the run API does not document for load.
    fn undocumented(&self) -> Vec<String> {
        let problems = self.mixed.problems.iter();
        let unknown = problems.filter(|(problem, _)| !DOCUMENTED.contains(&problem.as_str()));
        unknown.map(|(problem, count)| format!("{count} × {problem}")).collect()
    }
}

impl report::Report for Report {
    const VERB: &'static str = "load";
    const DOCUMENTS: &'static [&'static str] = &["docs/design/performance.md"];

    fn header(&self) -> &Header {
        &self.header
    }

    fn section(&self, _: &str) -> String {
        markdown(self)
    }
}

/// Returns the table, and how it was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let Report { mixed, native, capacity, .. } = report;
    let mut table = Table::new(["", "figure", "goal", "met"]).left([1, 2, 3]);
    let is_met = |met: bool| if met { "yes" } else { "no" }.to_owned();
    let undocumented = report.undocumented();
    let documented: u64 = mixed.problems.values().sum();
    table.row([
        format!("{CLIENTS} clients of {TENANTS} tenants, mixed skills, {} s", mixed.seconds),
        format!(
            "{} runs/s, p50 {}, p99 {}; {}",
            units::count(mixed.per_second),
            units::time(mixed.wall.p50),
            units::time(mixed.wall.p99),
            match undocumented.is_empty() {
                true => format!("{documented} refused for load"),
                false => undocumented.join(", "),
            }
        ),
        "no error that is not documented".into(),
        is_met(undocumented.is_empty()),
    ]);
    table.row([
        "memory of the server meanwhile".into(),
        format!(
            "{} after the first minute, {} at the end, {} at most",
            units::mebibytes(mixed.memory_settled),
            units::mebibytes(mixed.memory_end),
            units::mebibytes(mixed.memory_peak)
        ),
        format!("at most {GROWTH} times"),
        is_met(mixed.memory_end as f64 <= GROWTH * mixed.memory_settled as f64),
    ]);
    table.row([
        format!("the same scripts by {} native workers", native.workers),
        format!(
            "{} runs/s; a process p50 {}, p99 {}",
            units::count(native.per_second),
            units::time(native.wall.p50),
            units::time(native.wall.p99)
        ),
        String::new(),
        String::new(),
    ]);
    table.row([
        "a component at 70 % of the capacity".into(),
        format!(
            "p50 {}, p99 {}, of {} runs/s",
            units::time(capacity.wall.p50),
            units::time(capacity.wall.p99),
            units::count(capacity.per_second)
        ),
        format!("p99 at most {TAIL} times p50"),
        is_met(capacity.wall.p99 <= TAIL * capacity.wall.p50),
    ]);
    let beside = report.beside();
    table.row([
        "p99 of a small tenant beside one that floods the queue".into(),
        format!("{beside:.2} times its p99 alone (median of {})", report.flood.len()),
        format!("at most {BESIDE} times"),
        is_met(beside <= BESIDE),
    ]);
    let group = match (report.isolated, report.apart) {
        (true, true) => {
            "The clients are in a control group of their own, those that flood the queue in another."
        }
        (true, false) => "The clients are in a control group of their own.",
        (false, _) => "The clients share the server's control group.",
    };
    format!("{} {group}\n\n{}", report.header.summary(""), table.markdown())
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a report with an error that is not documented.
    pub(crate) fn report() -> Report {
        let spread = |p50: u64, p99: u64| json!({ "n": 9, "p50": p50, "p90": p50, "p99": p99 });
        let flood = |p99: u64| json!({ "alone": spread(1_000_000, 2_000_000), "beside": spread(1_000_000, p99) });
        crate::report::tests::report(json!({
            "isolated": true,
            "apart": true,
            "mixed": {
                "seconds": 600, "per_second": 300, "wall": spread(1_500_000_000, 3_000_000_000),
                "problems": { "429 queue-full": 3, "500 internal": 1 },
                "memory_settled": 200u64 << 20, "memory_end": 210u64 << 20, "memory_peak": 300u64 << 20,
            },
            "native": { "workers": 2, "per_second": 100, "wall": spread(10_000_000, 30_000_000) },
            "capacity": { "per_second": 900, "wall": spread(1_000_000, 12_000_000) },
            "flood": [flood(2_500_000), flood(9_000_000), flood(2_600_000)],
        }))
    }

    #[test]
    fn figures_are_compared_with_their_goals() {
        let text = markdown(&report());
        for row in [
            "300 runs/s, p50 1.5 s, p99 3.0 s; 1 × 500 internal | no error that is not documented | no |",
            "200 MiB after the first minute, 210 MiB at the end, 300 MiB at most | at most 1.1 times | yes |",
            "| the same scripts by 2 native workers | 100 runs/s; a process p50 10 ms, p99 30 ms |",
            "p50 1.0 ms, p99 12 ms, of 900 runs/s | p99 at most 10 times p50 | no |",
            "1.30 times its p99 alone (median of 3) | at most 1.5 times | yes |",
        ] {
            assert!(text.contains(row), "{row}\n{text}");
        }
    }
}
