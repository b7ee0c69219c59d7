//! Measures the phases of a cold start. Each run is a new process, which reports the time of each
//! phase (benches/warm/once.rs).

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use skillhost_toolchain::{Error, Progress};

use crate::cases;
use crate::driver;
use crate::measure::{self, nanoseconds};
use crate::place::Place;
use crate::series::Series;
use crate::stats::Spread;
use crate::table::Table;
use crate::units;

pub(crate) const TITLE: &str = "Phases of a cold start";

/// A phase of a cold start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// The case's name.
    pub(crate) case: String,
    pub(crate) phase: String,
    pub(crate) wall: Spread,
    /// In microseconds. Runs before 2026-11-25 have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Series>,
}

/// The phases to show, in the order of a run, and the host's spans in each. `PROCESS` comes before
/// them, and `OTHER` after them.
const PARTS: [(&str, &[&str]); 7] = [
    ("skill read and digested", &["skill", "programs"]),
    ("permissions granted, folders opened", &["grant", "mounts"]),
    ("engine and linker", &["engine", "link"]),
    ("compiled code loaded", &["load"]),
    ("guest instantiated", &["instantiate"]),
    ("guest runs", &["guest"]),
    ("guest dropped, run recorded", &["drop", "log", "record"]),
];

/// The time before `main` and after the invocation: the start of the process, dynamic linking, and
/// the end of the process.
const PROCESS: &str = "process started and ended";

/// The time outside of spans.
const OTHER: &str = "other";

/// The driver's report of a run.
#[derive(Deserialize)]
struct Spans {
    total_ns: u64,
    phases_ns: BTreeMap<String, u64>,
}

/// Runs the cases interleaved, `rounds` times each. Returns no phases if there is no driver.
pub(crate) fn measure(
    place: &Place,
    rounds: usize,
    progress: &Progress,
) -> Result<Vec<Phase>, Error> {
    let Some(driver) = &place.driver else { return Ok(Vec::new()) };
    let cases = cases::starts();
    let setup = driver::setup(place, &cases, 1)?;
    let mut runs: Vec<Vec<[u64; 9]>> = vec![Vec::new(); cases.len()];
    progress.step("phases of a cold start", |step| {
        // The first round compiles components and is not recorded.
        for round in 0..=rounds {
            step.note(&format!("{round} of {rounds}"));
            for (case, runs) in cases.iter().zip(&mut runs) {
                let mut command = place.command(driver);
                let run = run_once(command.arg(&setup).args(["once", &case.key()]))?;
                runs.extend((round > 0).then_some(run));
            }
        }
        Ok::<_, Error>(())
    })?;
    let names = [PROCESS].into_iter().chain(PARTS.map(|(name, _)| name)).chain([OTHER]);
    let phase = |case: usize, (part, name): (usize, &str)| {
        let times: Vec<u64> = runs[case].iter().map(|run| run[part]).collect();
        let samples = Series::of_times(&times);
        let (case, phase) = (cases[case].name.into(), name.into());
        Some(Phase { case, phase, wall: samples.times()?, samples: Some(samples) })
    };
    let of_case = |case| names.clone().enumerate().filter_map(move |named| phase(case, named));
    Ok((0..cases.len()).flat_map(of_case).collect())
}

/// Returns a table with a row per phase and a column per case, or `None` if there are no phases.
pub(crate) fn table(phases: &[Phase]) -> Option<Table> {
    let (mut cases, mut names) = (Vec::new(), Vec::new());
    for phase in phases {
        for (list, name) in [(&mut cases, &*phase.case), (&mut names, &*phase.phase)] {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    }
    let mut table = Table::new([&["median"][..], &cases].concat());
    for name in names {
        let time = |case: &&str| {
            let phase = phases.iter().find(|phase| phase.case == *case && phase.phase == name);
            phase.map_or_else(String::new, |phase| units::milliseconds(phase.wall.p50))
        };
        table.row([name.to_owned()].into_iter().chain(cases.iter().map(time)));
    }
    (!cases.is_empty()).then_some(table)
}

/// Runs a case once, and returns the nanoseconds of each phase.
fn run_once(command: &mut Command) -> Result<[u64; 9], Error> {
    let start = Instant::now();
    let output = measure::output(command)?;
    let wall = nanoseconds(start);
    // The guest's output is captured, so the driver prints one line.
    let spans =
        serde_json::from_str(output.trim()).map_err(Error::context("the driver's report"))?;
    Ok(parts(wall, &spans))
}

fn parts(wall: u64, Spans { total_ns, phases_ns }: &Spans) -> [u64; 9] {
    let mut parts = [0; 9];
    parts[0] = wall.saturating_sub(*total_ns);
    for (part, (_, spans)) in parts[1..8].iter_mut().zip(PARTS) {
        *part = spans.iter().filter_map(|span| phases_ns.get(*span)).sum();
    }
    parts[8] = total_ns.saturating_sub(parts[1..8].iter().sum());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_the_time_of_a_run() {
        let spans = [("skill", 40), ("programs", 60), ("guest", 300), ("record", 10)];
        let phases_ns = spans.map(|(span, time)| (span.to_owned(), time)).into();
        let parts = parts(1000, &Spans { total_ns: 700, phases_ns });
        assert_eq!(parts, [300, 100, 0, 0, 0, 0, 300, 10, 290]);
        assert_eq!(parts.iter().sum::<u64>(), 1000);
    }
}
