//! `cargo xtask bench isolation`: runs the same skills in every tier, interleaved.

mod charts;
mod concurrency;
mod container;
mod figures;
mod microvm;
pub(crate) mod page;
mod root;
mod seccomp;
pub(crate) mod tables;
mod tiers;
mod webassembly;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use skillhost_toolchain::{Error, Progress, Step};

use crate::bench::{self, Bench, Cell as _, WARM_UP, step};
use crate::cases::{self, Case};
use crate::measure::{self, Sample};
use crate::phases;
use crate::place::Place;
use crate::report::{Header, split};
use crate::samples::Samples;
use crate::series::Series;
pub(crate) use figures::Report;
use figures::{CaseInfo, FirstRun, Run, RunSamples, Size, TierInfo};
use tiers::{Tier, Tools};

/// The maximal number of runs whose memory is sampled. They are not timed, because sampling makes
/// them slower.
const SAMPLED: usize = 3;

/// Measures everything. `rounds` is the number of samples of each case in each tier, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let tools = ["bwrap", "runc", "crun"];
    let header = Header::new::<Report>(place, rounds, &tools, print)?;
    let cases = cases::all();
    let first = progress.step("the first run of each case", |_| measure_first(place, &cases))?;
    let mut missing = BTreeMap::new();
    let tools =
        progress.step("build a root for the sandboxes", |_| Tools::find(place, &mut missing))?;
    let bench = Bench::new(place, cases.iter().chain(&cases::SIZES.map(cases::report)));
    let mut isolation = Isolation { bench, tools: &tools, rounds, missing };

    let mut cells = isolation.cells(&cases);
    progress.step("check every case in every tier", |step| {
        isolation.bench.check(&cells, step);
        isolation.drop_failed(&mut cells, "it does not work on this machine")
    })?;
    let minutes = isolation.expected(&cells).as_secs_f64() / 60.0;
    print(&format!("Expected duration: about {minutes:.0} minutes more."));
    cells.insert(0, Cell { tier: Tier::Native, case: cases::nothing(), tools: &tools });
    progress.step(&format!("{rounds} rounds"), |step| {
        isolation.bench.run_turns(&cells, (WARM_UP, rounds), step);
        isolation.drop_failed(&mut cells, FAILED)
    })?;
    progress.step("measure memory", |step| {
        isolation.measure_memory(&cells, rounds.min(SAMPLED), step);
        isolation.drop_failed(&mut cells, FAILED)
    })?;
    let samples = std::mem::take(&mut isolation.bench.samples);
    let sizes = step(progress, "time by size of the input", |step| {
        isolation.measure_sizes(rounds.div_ceil(10), step)
    });
    let throughput = progress.step("throughput by concurrency", |step| {
        concurrency::measure_throughput(&mut isolation, step)
    })?;
    let growth = step(progress, "concurrent starts", |step| {
        concurrency::measure_growth(&mut isolation, step)
    });
    let memory = step(progress, "concurrent guests", |step| {
        concurrency::measure_memory(&mut isolation, step)
    });
    let phases = phases::measure(place, rounds, progress)?;

    cells.retain(|cell| !isolation.missing.contains_key(&cell.tier));
    let runs = cells.iter().map(|cell| cell.run(&samples)).collect::<Result<_, String>>();
    Ok(Report {
        header,
        warm_up: WARM_UP,
        tiers: Tier::ALL.map(|tier| isolation.describe(tier)).into(),
        cases: cases.iter().map(|case| CaseInfo::of(case, place)).collect(),
        runs: runs.map_err(Error::new)?,
        throughput,
        growth,
        memory,
        sizes,
        first,
        phases,
    })
}

/// Runs each case with nothing compiled. The compiled code stays for the next measurements.
fn measure_first(place: &Place, cases: &[Case]) -> Result<Vec<FirstRun>, Error> {
    let measure = |case: &Case| {
        place.remove_compiled()?;
        let wall = measure::run(&mut case.cold(place, &[]))?.wall;
        Ok(FirstRun { case: case.name.into(), wall })
    };
    cases.iter().map(measure).collect()
}

/// The reason why a tier is missing that passed the check.
const FAILED: &str = "it failed after it had worked";

/// The running benchmark.
struct Isolation<'a> {
    bench: Bench<'a>,
    tools: &'a Tools,
    /// The number of samples of each case, except in slow tiers.
    rounds: usize,
    /// The tiers without figures, and the reasons.
    missing: BTreeMap<Tier, String>,
}

impl<'a> Isolation<'a> {
    /// Returns the cells of cases in all tiers that are not missing.
    fn cells(&self, cases: &[Case]) -> Vec<Cell<'a>> {
        let tiers = || Tier::ALL.into_iter().filter(|tier| !self.missing.contains_key(tier));
        let cell = |case: &Case, tier| Cell { tier, case: case.clone(), tools: self.tools };
        let of = |case| {
            tiers().filter(move |tier: &Tier| tier.runs(case)).map(move |tier| cell(case, tier))
        };
        cases.iter().flat_map(of).collect()
    }

    /// Removes the tiers of failed cells, and keeps the others.
    fn drop_failed(&mut self, cells: &mut Vec<Cell<'_>>, when: &str) -> Result<(), Error> {
        for cell in cells.iter() {
            if let Some(why) = self.bench.samples.failure(&cell.name()) {
                self.fail(cell.tier, when, why)?;
            }
        }
        cells.retain(|cell| !self.missing.contains_key(&cell.tier));
        Ok(())
    }

    /// Marks a tier as missing. Returns an error for the native and the cold tier, because without
    /// them there is nothing to compare.
    fn fail(&mut self, tier: Tier, when: &str, why: String) -> Result<(), Error> {
        if matches!(tier, Tier::Native | Tier::Cold) {
            return Err(Error::new(why));
        }
        self.missing.entry(tier).or_insert_with(|| format!("{when}: {why}"));
        Ok(())
    }

    /// Estimates the rest of the benchmark from the time of the check.
    fn expected(&self, cells: &[Cell<'_>]) -> Duration {
        let of_cell = |cell: &Cell<'_>| {
            let one = self.bench.durations.get(&cell.name()).copied().unwrap_or_default();
            let rounds = cell.tier.rounds(self.rounds);
            let batch = if cell.tier == Tier::Warm { cell.case.batch } else { 1 };
            let runs = (rounds + WARM_UP) * batch + self.rounds.min(SAMPLED);
            let bytes = cases::SIZES.iter().sum::<u64>() as f64 / cases::INPUT as f64;
            let others = match cell.case.id {
                "csv-report" => one.mul_f64(bytes) * rounds.div_ceil(10) as u32,
                "hello" => concurrency::expected(cell.tier, one),
                _ => Duration::ZERO,
            };
            one * runs as u32 + others
        };
        cells.iter().map(of_cell).sum()
    }

    fn measure_memory(&mut self, cells: &[Cell<'_>], runs: usize, step: &Step) {
        for cell in cells {
            step.note(&cell.name());
            for _ in 0..runs {
                let peak =
                    self.bench.executor(cell).and_then(|executor| executor.memory(&cell.case));
                let samples = &mut self.bench.samples;
                match peak {
                    Ok(peak) => samples.record(&cell.memory(), Ok([peak])),
                    Err(error) => cell.record(Err(&error), samples),
                }
            }
        }
    }

    /// A tier that fails at one size, for example at a limit, is missing only there.
    fn measure_sizes(&mut self, rounds: usize, step: &Step) -> Vec<Size> {
        let mut sizes = Vec::new();
        for input in cases::SIZES {
            let cells = self.cells(&[cases::report(input)]);
            self.bench.samples = Samples::default();
            self.bench.run_turns(&cells, (0, rounds), step);
            sizes.extend(cells.iter().map(|cell| {
                let (samples, missing) =
                    split(self.bench.samples.all(&cell.name()).map(Series::of_times));
                let wall = samples.as_ref().and_then(Series::times);
                Size { tier: cell.tier.id().into(), input, wall, samples, missing }
            }));
        }
        sizes
    }

    fn describe(&self, tier: Tier) -> TierInfo {
        let missing = self.missing.get(&tier).cloned();
        let disk = missing.is_none().then(|| self.tools.disk(tier, self.bench.place)).flatten();
        let (id, name) = (tier.id().into(), tier.name().into());
        let place = self.bench.place;
        let version = missing.is_none().then(|| self.tools.version(tier, place));
        let command = missing.is_none().then(|| self.tools.line(tier, place)).flatten();
        let rounds = (tier.rounds(self.rounds) < self.rounds).then(|| tier.rounds(self.rounds));
        let only = tier.only().filter(|_| missing.is_none()).map(str::to_owned);
        TierInfo { id, name, missing, only, version, command, rounds, disk }
    }
}

/// A case in a tier.
struct Cell<'a> {
    tier: Tier,
    case: Case,
    tools: &'a Tools,
}

impl Cell<'_> {
    fn cpu(&self) -> String {
        format!("{}, CPU", self.name())
    }

    fn memory(&self) -> String {
        format!("{}, memory", self.name())
    }

    fn run(&self, samples: &Samples) -> Result<Run, String> {
        let times = |name: String| Ok::<_, String>(Series::of_times(samples.all(&name)?));
        let (wall, cpu) = (times(self.name())?, times(self.cpu())?);
        let memory = Series::of_sizes(samples.all(&self.memory())?);
        let run = Run::of(self.tier.id(), self.case.id, RunSamples { wall, cpu, memory });
        run.ok_or_else(|| "not measured".into())
    }
}

impl bench::Cell for Cell<'_> {
    fn name(&self) -> String {
        format!("{} in {}", self.case.key(), self.tier.name())
    }

    fn case(&self) -> &Case {
        &self.case
    }

    fn rounds(&self, rounds: usize) -> usize {
        self.tier.rounds(rounds)
    }

    fn is_native(&self) -> bool {
        self.tier == Tier::Native
    }

    fn command(&self, place: &Place) -> Result<Option<Command>, Error> {
        self.tools.command(place, self.tier, &self.case)
    }

    fn record(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples) {
        samples.record(&self.name(), turn.map(|turn| turn.iter().map(|sample| sample.wall)));
        samples.record(&self.cpu(), turn.map(|turn| turn.iter().map(|sample| sample.cpu)));
    }
}

#[cfg(test)]
pub(crate) use figures::tests;
