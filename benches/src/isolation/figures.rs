//! The figures of the benchmark, as plain data.

use serde::{Deserialize, Serialize};

use super::tiers::Tier;
use super::{charts, page, tables};
use crate::cases::Case;
use crate::phases::Phase;
use crate::place::Place;
use crate::report::{self, Header};
use crate::series::Series;
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
    /// The reason why the tier does not run every case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) only: Option<String>,
    /// The version of the program that isolates. Runs before 2026-11-25 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The command of the Python hello, with paths relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The number of rounds, if it is lower than that of other tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rounds: Option<usize>,
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
    /// What the figures are computed from. Runs before 2026-11-25 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<RunSamples>,
}

/// The samples of a case in a tier: times in microseconds, memory in KiB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunSamples {
    pub(crate) wall: Series,
    pub(crate) cpu: Series,
    pub(crate) memory: Series,
}

/// Invocations of the Python hello per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) tier: String,
    /// The number of concurrent invocations.
    pub(crate) concurrency: usize,
    pub(crate) per_second: f64,
    /// The number of invocations, and their total time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) count: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<u64>,
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
    /// In microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Series>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

impl Run {
    /// Computes the figures of samples. Returns `None` if a series is empty.
    pub(crate) fn of(tier: &str, case: &str, samples: RunSamples) -> Option<Run> {
        let RunSamples { wall, cpu, memory } = &samples;
        let (wall, cpu, memory) = (wall.times()?, cpu.times()?, memory.largest()?);
        let (tier, case) = (tier.into(), case.into());
        Some(Run { tier, case, wall, cpu, memory, samples: Some(samples) })
    }
}

impl Throughput {
    pub(crate) fn of(tier: &str, concurrency: usize, count: usize, time: u64) -> Throughput {
        let per_second = count as f64 / (time as f64 / 1e9);
        let (count, time) = (Some(count), Some(time));
        Throughput { tier: tier.into(), concurrency, per_second, count, time }
    }
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
            let why = |why: &str| why.trim_end_matches('.').replace('\n', " ");
            match (&tier.missing, &tier.only) {
                (Some(missing), _) => Some(format!("Missing: {}: {}.", tier.name, why(missing))),
                (None, Some(only)) => {
                    Some(format!("Missing: cases in {}: {}.", tier.name, why(only)))
                }
                (None, None) => None,
            }
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

    /// The last date of a run without samples. The next committed run has them.
    const WITHOUT_SAMPLES: &str = "2026-11-23";

    /// Returns the report with every figure that has samples computed again. The other figures are
    /// single measurements: disk space, first runs, concurrent starts, and live guests.
    fn recomputed(report: &Report) -> Report {
        let mut report = report.clone();
        for run in &mut report.runs {
            let samples = run.samples.clone().expect("a run has samples");
            *run = Run::of(&run.tier, &run.case, samples).unwrap();
        }
        for point in &mut report.throughput {
            let (count, time) = (point.count.unwrap(), point.time.unwrap());
            *point = Throughput::of(&point.tier, point.concurrency, count, time);
        }
        for size in &mut report.sizes {
            size.wall = size.samples.as_ref().map(|samples| samples.times().unwrap());
            assert_ne!(size.wall.is_some(), size.missing.is_some(), "{size:?}");
        }
        for phase in &mut report.phases {
            phase.wall = phase.samples.as_ref().and_then(Series::times).unwrap();
        }
        report
    }

    /// The page, the charts and the tables of the documents show nothing but the report, and
    /// another test compares them with it.
    #[test]
    fn every_committed_figure_is_computed_from_committed_samples() {
        let Some(report) = report::committed::<Report>().unwrap() else { return };
        if report.runs.iter().all(|run| run.samples.is_none()) {
            let date = &report.header.machine.date;
            assert!(**date <= *WITHOUT_SAMPLES, "the run of {date} has no samples");
            return;
        }
        assert_eq!(recomputed(&report), report);
        for (path, text) in report::generated_files(Some(&recomputed(&report))).unwrap() {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{}", path.display());
        }
        for tier in report.measured() {
            assert!(tier.command.is_some() && tier.version.is_some(), "{tier:?}");
        }
    }

    #[test]
    fn figure_that_differs_from_its_samples_is_found() {
        let series = |times: &[u64]| Series::of_times(times);
        let samples = RunSamples {
            wall: series(&[3_000_000, 1_000_000, 2_000_000]),
            cpu: series(&[1_000_000]),
            memory: Series::of_sizes(&[4096, 12288]),
        };
        let mut report =
            Report { runs: vec![], throughput: vec![], sizes: vec![], phases: vec![], ..report() };
        report.runs.extend(Run::of("native", "hello", samples));
        report.throughput.push(Throughput::of("native", 2, 100, 500_000_000));
        assert_eq!(report.runs[0].wall.p50, 2_000_000);
        assert_eq!((report.runs[0].memory, report.throughput[0].per_second), (12288, 200.0));
        assert_eq!(recomputed(&report), report);
        report.runs[0].wall.p50 += 1;
        assert_ne!(recomputed(&report), report);
    }

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
