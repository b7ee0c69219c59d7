//! `cargo xtask bench isolation`: the same skills in every tier, in turns.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, Step};

use super::cases::{self, Case};
use super::measure::{self, Sample};
use super::place::Place;
use super::report::{CaseInfo, Report, Run, SCHEMA, Size, TierInfo};
use super::stats::Spread;
use super::tiers::{Tier, Tools};
use super::warm::Driver;
use super::{crowd, machine, phases};

/// The baseline's case: what a process costs that does nothing.
pub(crate) const BASELINE: &str = "true";

/// Runs before the first that counts: caches fill, components are compiled.
pub(crate) const WARM_UP: usize = 3;

/// Runs whose memory is watched, which makes them slower: as many, unless there are fewer rounds.
const WATCHED: usize = 3;

/// Guests at once, at most, in one host.
const STORES: usize = 64;

/// What is measured in turns: a case in a tier.
struct Cell<'a> {
    tier: Tier,
    case: &'a Case,
    wall: Vec<u64>,
    cpu: Vec<u64>,
    memory: u64,
}

/// Measures everything. `rounds` is the number of samples of each cell, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    command: String,
    progress: &Progress,
) -> Result<Report, Error> {
    let machine = machine::describe()?;
    machine::warn_if_busy(&machine);
    place.forget_compiled()?;
    let tools = progress.step("build a root for the sandboxes", |_| Tools::find(place))?;
    let cases = cases::all();
    let mut named: Vec<(String, Case)> =
        cases.iter().map(|case| (case.id.to_owned(), case.clone())).collect();
    named.extend(cases::SIZES.map(|size| (cases::csv_name(size), cases::report(size))));
    let mut bench = Bench {
        place,
        tools,
        driver: Driver::start(place, &named, STORES).ok(),
        missing: BTreeMap::new(),
    };

    progress.step("try every case in every tier", |step| bench.try_all(&cases, step))?;
    let mut cells = bench.cells(&cases);
    let baseline = progress
        .step(&format!("{rounds} rounds"), |step| bench.rounds(&mut cells, rounds, step))?;
    progress.step("watch the memory of each", |step| {
        bench.watch(&mut cells, rounds.min(WATCHED), step)
    })?;
    let sizes =
        progress.step("growth with the input", |step| bench.sizes(rounds.div_ceil(10), step))?;
    let crowd = crowd::measure(&mut bench, progress)?;
    let phases = phases::measure(place, rounds, progress)?;

    cells.retain(|cell| !bench.missing.contains_key(&cell.tier));
    let runs = std::iter::once(Ok(baseline))
        .chain(cells.iter().map(Cell::run))
        .collect::<Result<Vec<_>, Error>>()?;
    let tier = |tier: Tier| {
        let missing = bench.missing.get(&tier).cloned();
        let disk = if missing.is_none() { bench.tools.disk(tier, place) } else { None };
        TierInfo { id: tier.id().into(), name: tier.name().into(), missing, disk }
    };
    Ok(Report {
        schema: SCHEMA,
        command,
        versions: machine::versions(place, &["bwrap", "runc", "crun", "setpriv"]),
        machine,
        rounds,
        warm_up: WARM_UP,
        tiers: Tier::ALL.map(tier).into(),
        cases: cases.iter().map(|case| info(case, place)).collect(),
        runs,
        throughput: crowd.throughput,
        growth: crowd.growth,
        memory: crowd.memory,
        sizes,
        phases,
    })
}

fn info(case: &Case, place: &Place) -> CaseInfo {
    let input = case.input.as_ref().and_then(|name| place.workspace().join(name).metadata().ok());
    CaseInfo {
        id: case.id.into(),
        name: case.name.into(),
        input: input.map_or(0, |file| file.len()),
    }
}

/// A run that is under way.
pub(crate) struct Bench<'a> {
    pub(crate) place: &'a Place,
    pub(crate) tools: Tools,
    pub(crate) driver: Option<Driver>,
    /// The tiers that have no figures, and why.
    pub(crate) missing: BTreeMap<Tier, String>,
}

impl Bench<'_> {
    /// The tiers that have figures.
    pub(crate) fn tiers(&self) -> impl Iterator<Item = Tier> {
        Tier::ALL.into_iter().filter(|tier| !self.missing.contains_key(tier))
    }

    /// A tier that is not here, does not work or prints something else than the native run is
    /// missing, and says why.
    fn try_all(&mut self, cases: &[Case], step: &Step) -> Result<(), Error> {
        for case in cases {
            let native = measure::output(&mut self.command(Tier::Native, case)?)?;
            for tier in Tier::ALL {
                step.note(&format!("{} in {}", case.name, tier.name()));
                if let Some(why) = self.tools.lacks(tier) {
                    self.missing.insert(tier, why.to_owned());
                }
                if self.missing.contains_key(&tier) {
                    continue;
                }
                match self.output(tier, case) {
                    Ok(found) if found == native => {}
                    Ok(_) => drop(
                        self.missing
                            .insert(tier, format!("{} prints something else there", case.name)),
                    ),
                    // Without its own, it has nothing to compare.
                    Err(error) if tier == Tier::Cold => return Err(error),
                    Err(error) => {
                        drop(self.missing.insert(tier, format!("it does not work here: {error}")))
                    }
                }
            }
        }
        Ok(())
    }

    fn output(&mut self, tier: Tier, case: &Case) -> Result<String, Error> {
        match tier {
            Tier::Warm => self.driver()?.each(case.id, 1).map(|(_, _, stdout)| stdout),
            _ => measure::output(&mut self.command(tier, case)?),
        }
    }

    pub(crate) fn command(&self, tier: Tier, case: &Case) -> Result<Command, Error> {
        self.tools.command(self.place, tier, case)
    }

    pub(crate) fn driver(&mut self) -> Result<&mut Driver, Error> {
        self.driver.as_mut().ok_or_else(|| Error::new("there is no driver for the warm tier"))
    }

    fn cells<'c>(&self, cases: &'c [Case]) -> Vec<Cell<'c>> {
        let in_tiers = |case| {
            self.tiers().map(move |tier| Cell {
                tier,
                case,
                wall: Vec::new(),
                cpu: Vec::new(),
                memory: 0,
            })
        };
        cases.iter().flat_map(in_tiers).collect()
    }

    /// Each round runs every cell once, in an order of its own: what disturbs the machine, or comes
    /// before, disturbs all alike.
    fn rounds(&mut self, cells: &mut [Cell<'_>], rounds: usize, step: &Step) -> Result<Run, Error> {
        let mut baseline: Vec<Sample> = Vec::new();
        for round in 0..WARM_UP + rounds {
            step.note(&format!("{} of {}", round + 1, WARM_UP + rounds));
            let counts = round >= WARM_UP;
            let nothing = measure::run(&mut self.place.command("/bin/true".as_ref()))?;
            baseline.extend(counts.then_some(nothing));
            for index in order(round, cells.len()) {
                let cell = &mut cells[index];
                if self.missing.contains_key(&cell.tier) {
                    continue;
                }
                match self.samples(cell.tier, cell.case) {
                    Ok(samples) => {
                        for sample in samples.into_iter().filter(|_| counts) {
                            cell.wall.push(sample.wall);
                            cell.cpu.push(sample.cpu);
                        }
                    }
                    Err(error) => self.failed(cell.tier, error)?,
                }
            }
        }
        let memory = measure::memory(&mut self.place.command("/bin/true".as_ref()))?;
        let spread = |of: fn(&Sample) -> u64| spread(&baseline.iter().map(of).collect::<Vec<_>>());
        Ok(Run {
            tier: Tier::Native.id().into(),
            case: BASELINE.into(),
            wall: spread(|s| s.wall)?,
            cpu: spread(|s| s.cpu)?,
            memory,
        })
    }

    /// A tier that fails on the way is missing from then on: one is no reason to lose the others.
    /// Without these two there is nothing to compare.
    pub(crate) fn failed(&mut self, tier: Tier, error: Error) -> Result<(), Error> {
        if matches!(tier, Tier::Native | Tier::Cold) {
            return Err(error);
        }
        self.missing.insert(tier, format!("it failed after it had worked: {error}"));
        Ok(())
    }

    fn samples(&mut self, tier: Tier, case: &Case) -> Result<Vec<Sample>, Error> {
        match tier {
            Tier::Warm => self.driver()?.each(case.id, case.batch).map(|(samples, ..)| samples),
            _ => measure::run(&mut self.command(tier, case)?).map(|sample| vec![sample]),
        }
    }

    fn watch(&mut self, cells: &mut [Cell<'_>], runs: usize, step: &Step) -> Result<(), Error> {
        for cell in cells {
            step.note(&format!("{} in {}", cell.case.name, cell.tier.name()));
            for _ in 0..runs {
                if self.missing.contains_key(&cell.tier) {
                    continue;
                }
                let peak = match cell.tier {
                    Tier::Warm => self.driver()?.each(cell.case.id, 1).map(|(_, peak, _)| peak),
                    tier => measure::memory(&mut self.command(tier, cell.case)?),
                };
                match peak {
                    Ok(peak) => cell.memory = cell.memory.max(peak),
                    Err(error) => self.failed(cell.tier, error)?,
                }
            }
        }
        Ok(())
    }

    fn sizes(&mut self, rounds: usize, step: &Step) -> Result<Vec<Size>, Error> {
        let mut sizes = Vec::new();
        for bytes in cases::SIZES {
            let case = cases::report(bytes);
            let mut wall: BTreeMap<Tier, Result<Vec<u64>, Error>> =
                self.tiers().map(|tier| (tier, Ok(Vec::new()))).collect();
            for round in 0..rounds {
                for (tier, found) in &mut wall {
                    step.note(&format!(
                        "{bytes} bytes in {}, {} of {rounds}",
                        tier.name(),
                        round + 1
                    ));
                    let took = match tier {
                        Tier::Warm => self
                            .driver()?
                            .each(&cases::csv_name(bytes), 1)
                            .map(|(samples, ..)| samples),
                        _ => measure::run(&mut self.command(*tier, &case)?)
                            .map(|sample| vec![sample]),
                    };
                    // One that fails at this size, by a limit perhaps, is no reason to lose the
                    // others.
                    match (took, found.as_mut()) {
                        (Ok(took), Ok(found)) => {
                            found.extend(took.iter().map(|sample| sample.wall))
                        }
                        (Err(error), _) => *found = Err(error),
                        (Ok(_), Err(_)) => {}
                    }
                }
            }
            for (tier, wall) in wall {
                let missing = wall.as_ref().err().map(ToString::to_string);
                let wall = wall.ok().and_then(|wall| Spread::of(&wall));
                sizes.push(Size { tier: tier.id().into(), input: bytes, wall, missing });
            }
        }
        Ok(sizes)
    }
}

impl Cell<'_> {
    fn run(&self) -> Result<Run, Error> {
        let (tier, case) = (self.tier.id().into(), self.case.id.into());
        Ok(Run {
            tier,
            case,
            wall: spread(&self.wall)?,
            cpu: spread(&self.cpu)?,
            memory: self.memory,
        })
    }
}

/// The order of a round: pseudo-random, and the same in every run.
pub(crate) fn order(round: usize, cells: usize) -> Vec<usize> {
    let place = |cell: &usize| {
        let mut hasher = DefaultHasher::new();
        (round, cell).hash(&mut hasher);
        hasher.finish()
    };
    let mut order: Vec<usize> = (0..cells).collect();
    order.sort_by_key(place);
    order
}

fn spread(samples: &[u64]) -> Result<Spread, Error> {
    Spread::of(samples)
        .ok_or_else(|| Error::new("nothing was measured").help("`--rounds 1` or more"))
}
