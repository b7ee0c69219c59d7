//! Where a cold start's time goes. Each run is a process of its own, which reports how long each
//! phase took (benches/warm/once.rs).

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use skillhost_toolchain::{Error, Progress};

use crate::cases;
use crate::driver;
use crate::measure::{self, nanoseconds};
use crate::place::Place;
use crate::stats::Spread;
use crate::table::Table;
use crate::units;

pub(crate) const TITLE: &str = "Phases of a cold start";

/// A part of a cold start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// The case's name.
    pub(crate) case: String,
    pub(crate) phase: String,
    pub(crate) wall: Spread,
}

/// What is shown, in the order of a run, and the host's spans that it consists of. Before them is
/// `PROCESS`, after them `OTHER`.
const PARTS: [(&str, &[&str]); 7] = [
    ("skill read and digested", &["skill", "programs"]),
    ("permissions granted, folders opened", &["grant", "mounts"]),
    ("engine and linker", &["engine", "link"]),
    ("compiled code loaded", &["load"]),
    ("guest made", &["instantiate"]),
    ("guest runs", &["guest"]),
    ("guest let go, run recorded", &["drop", "log", "record"]),
];

/// What is before `main` and after the invocation: the kernel's start of a process, its dynamic
/// linker, its end.
const PROCESS: &str = "process started and ended";

/// What is in no span.
const OTHER: &str = "between";

/// What the driver prints of a run.
#[derive(Deserialize)]
struct Spans {
    total_ns: u64,
    phases_ns: BTreeMap<String, u64>,
}

/// Runs each case in turns, `rounds` times. Returns nothing if there is no driver.
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
        // The first round compiles.
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
        let wall = Spread::of(runs[case].iter().map(|run| run[part]))?;
        Some(Phase { case: cases[case].name.into(), phase: name.into(), wall })
    };
    let of_case = |case| names.clone().enumerate().filter_map(move |named| phase(case, named));
    Ok((0..cases.len()).flat_map(of_case).collect())
}

/// One row per phase, one column per case. `None` if there are no phases.
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

/// One run: the nanoseconds of each part.
fn run_once(command: &mut Command) -> Result<[u64; 9], Error> {
    let start = Instant::now();
    let output = measure::output(command)?;
    let wall = nanoseconds(start);
    // What the guest prints is captured, so this is one line.
    let spans =
        serde_json::from_str(output.trim()).map_err(Error::context("the driver's answer"))?;
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
    fn the_parts_of_a_run_are_all_of_its_time() {
        let spans = [("skill", 40), ("programs", 60), ("guest", 300), ("record", 10)];
        let phases_ns = spans.map(|(span, time)| (span.to_owned(), time)).into();
        let parts = parts(1000, &Spans { total_ns: 700, phases_ns });
        assert_eq!(parts, [300, 100, 0, 0, 0, 0, 300, 10, 290]);
        assert_eq!(parts.iter().sum::<u64>(), 1000);
    }
}
