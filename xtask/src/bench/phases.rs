//! Where a cold start's time goes: a process of its own for each run, which tells how long each
//! phase took (benches/warm/once.rs).

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use skillhost_toolchain::{Error, Progress, Step};

use super::cases::{self, Case};
use super::place::Place;
use super::report::Phase;
use super::stats::Spread;
use super::{measure, warm};

/// What is shown, in the order of a run, and the host's spans that it is made of. What is in none
/// of them is under `OTHER`.
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

const OTHER: &str = "between";

/// Runs each case in turns, `rounds` times. Nothing where there is no driver to ask.
pub(crate) fn measure(
    place: &Place,
    rounds: usize,
    progress: &Progress,
) -> Result<Vec<Phase>, Error> {
    let Some(driver) = &place.driver else { return Ok(Vec::new()) };
    let cases = cases::starts();
    let named: Vec<(String, Case)> =
        cases.iter().map(|case| (case.id.to_owned(), case.clone())).collect();
    let setup = warm::setup(place, &named, 1)?;
    let mut found: BTreeMap<(usize, &str), Vec<u64>> = BTreeMap::new();
    progress.step("phases of a cold start", |step: &Step| {
        // The first compiles.
        for round in 0..=rounds {
            step.note(&format!("{round} of {rounds}"));
            for (number, case) in cases.iter().enumerate() {
                let parts = once(place.command(driver).arg(&setup).args(["once", case.id]))?;
                for (part, time) in parts.into_iter().filter(|_| round > 0) {
                    found.entry((number, part)).or_default().push(time);
                }
            }
        }
        Ok::<_, Error>(())
    })?;
    let names = || std::iter::once(PROCESS).chain(PARTS.map(|(name, _)| name)).chain([OTHER]);
    let spread =
        |(number, name)| found.get(&(number, name)).and_then(|samples| Spread::of(samples));
    let of_case = |(number, case): (usize, &Case)| {
        let name = case.name;
        names()
            .filter_map(move |part| Some((name, part, spread((number, part))?)))
            .collect::<Vec<_>>()
    };
    let all = cases.iter().enumerate().flat_map(of_case);
    Ok(all
        .map(|(case, phase, wall)| Phase { case: case.into(), phase: phase.into(), wall })
        .collect())
}

/// One run: each part and its nanoseconds.
fn once(command: &mut Command) -> Result<Vec<(&'static str, u64)>, Error> {
    let start = Instant::now();
    let said = measure::output(command)?;
    let wall = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // What the guest prints is kept apart, so this is one line.
    let told: Value =
        serde_json::from_str(said.trim()).map_err(Error::context("the driver's answer"))?;
    Ok(parts(wall, &told))
}

fn parts(wall: u64, told: &Value) -> Vec<(&'static str, u64)> {
    let total = told["total_ns"].as_u64().unwrap_or(0);
    let of = |spans: &[&str]| {
        spans.iter().filter_map(|span| told["phases_ns"][span].as_u64()).sum::<u64>()
    };
    let parts = PARTS.map(|(name, spans)| (name, of(spans)));
    let known: u64 = parts.iter().map(|(_, time)| time).sum();
    let edges = [(PROCESS, wall.saturating_sub(total)), (OTHER, total.saturating_sub(known))];
    parts.into_iter().chain(edges).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_run_are_all_of_its_time() {
        let told = serde_json::json!({ "total_ns": 700, "phases_ns": { "skill": 40, "programs": 60, "guest": 300, "record": 10 } });
        let parts = parts(1000, &told);
        assert_eq!(parts.iter().map(|(_, time)| time).sum::<u64>(), 1000);
        let of = |name| parts.iter().find(|(part, _)| *part == name).map(|(_, time)| *time);
        assert_eq!(
            (of("skill read and digested"), of("guest runs"), of(PROCESS), of(OTHER)),
            (Some(100), Some(300), Some(300), Some(290))
        );
    }
}
