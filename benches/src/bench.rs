//! Interleaved measurement: each round runs every cell once, in a new order. So disturbances of the
//! machine, and effects of the previous cell, affect all cells alike.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress, Step};

use crate::cases::Case;
use crate::driver::{Driver, Executor};
use crate::measure::Sample;
use crate::place::Place;
use crate::samples::Samples;

/// Rounds that are not recorded. They fill caches and compile components.
pub(crate) const WARM_UP: usize = 3;

/// The maximal number of concurrent guests in one host.
const STORES: usize = 64;

/// A case, run in one way.
pub(crate) trait Cell {
    /// Returns the name of the cell's samples.
    fn name(&self) -> String;

    fn case(&self) -> &Case;

    /// Returns in how many of the rounds the cell runs.
    fn rounds(&self, rounds: usize) -> usize {
        rounds
    }

    /// Returns whether the machine's own program runs the case. The other cells of the case must
    /// have the same output.
    fn is_native(&self) -> bool;

    /// Returns the command that runs the cell, or `None` for a warm cell, which runs in the driver.
    fn command(&self, place: &Place) -> Result<Option<Command>, Error>;

    /// Records the samples of a turn, or the error.
    fn record(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples);
}

/// A running benchmark.
pub(crate) struct Bench<'a> {
    pub(crate) place: &'a Place,
    pub(crate) driver: Result<Driver, Error>,
    pub(crate) samples: Samples,
    /// How long the check of each cell took, by name.
    pub(crate) durations: BTreeMap<String, Duration>,
}

impl<'a> Bench<'a> {
    /// Starts a driver for the warm cells.
    pub(crate) fn new<'c>(place: &'a Place, warm: impl IntoIterator<Item = &'c Case>) -> Bench<'a> {
        let driver = Driver::start(place, warm, STORES);
        Bench { place, driver, samples: Samples::default(), durations: BTreeMap::new() }
    }

    pub(crate) fn executor(&mut self, cell: &impl Cell) -> Result<Executor<'_>, Error> {
        match (cell.command(self.place)?, &mut self.driver) {
            (Some(command), _) => Ok(Executor::Process(command)),
            (None, Ok(driver)) => Ok(Executor::Driver(driver)),
            (None, Err(error)) => Err(error.clone()),
        }
    }

    /// Runs each cell once. Excludes cells that fail, and cells whose output differs from that of
    /// the native cell, because they do different work.
    pub(crate) fn check(&mut self, cells: &[impl Cell], step: &Step) {
        let mut native: BTreeMap<String, String> = BTreeMap::new();
        let (natives, others): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_native());
        for cell in natives.into_iter().chain(others) {
            step.note(&format!("check {}", cell.name()));
            let case = cell.case();
            let start = Instant::now();
            let output = self.executor(cell).and_then(|executor| executor.output(case));
            self.durations.insert(cell.name(), start.elapsed());
            let error = match output {
                Ok(output) if cell.is_native() => {
                    native.insert(case.key(), output);
                    continue;
                }
                Ok(output) if native.get(&case.key()).is_none_or(|other| *other == output) => {
                    continue;
                }
                Ok(_) => {
                    let name = case.name;
                    Error::new(format!(
                        "the output of {name} differs from that of the machine's program"
                    ))
                }
                Err(error) => error,
            };
            cell.record(Err(&error), &mut self.samples);
        }
    }

    /// Runs the cells in interleaved rounds. Excludes a cell from its first failure on.
    pub(crate) fn run_turns(
        &mut self,
        cells: &[impl Cell],
        (warm_up, rounds): (usize, usize),
        step: &Step,
    ) {
        for round in 0..warm_up + rounds {
            step.note(&format!("{} of {}", round + 1, warm_up + rounds));
            for cell in order(round, cells.len()).into_iter().map(|index| &cells[index]) {
                let is_due = match round.checked_sub(warm_up) {
                    Some(round) => is_due(round, cell.rounds(rounds), rounds),
                    // One warm-up suffices for a slow cell.
                    None => round == 0 || cell.rounds(rounds) == rounds,
                };
                if !is_due || self.samples.failure(&cell.name()).is_some() {
                    continue;
                }
                let case = cell.case();
                let turn =
                    self.executor(cell).and_then(|executor| executor.samples(case, case.batch));
                if turn.is_err() || round >= warm_up {
                    cell.record(turn.as_deref(), &mut self.samples);
                }
            }
        }
    }
}

/// Runs a step that records failures instead of returning them.
pub(crate) fn step<T>(progress: &Progress, name: &str, work: impl FnOnce(&Step) -> T) -> T {
    let Ok(result) = progress.step(name, |step| Ok::<_, Infallible>(work(step)));
    result
}

/// Returns whether a cell that runs in `some` of `all` rounds runs in this one. Its rounds are evenly
/// distributed.
fn is_due(round: usize, some: usize, all: usize) -> bool {
    (round + 1) * some / all > round * some / all
}

/// Returns the order of a round: pseudo-random, but the same in every run of the benchmark.
fn order(round: usize, cells: usize) -> Vec<usize> {
    let rank = |cell: &usize| {
        let mut hasher = DefaultHasher::new();
        (round, cell).hash(&mut hasher);
        hasher.finish()
    };
    let mut order: Vec<usize> = (0..cells).collect();
    order.sort_by_key(rank);
    order
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::cases::Target;

    /// A cell that runs a line of shell.
    struct Line(&'static str, Case);

    impl Cell for Line {
        fn name(&self) -> String {
            self.0.to_owned()
        }

        fn case(&self) -> &Case {
            &self.1
        }

        fn is_native(&self) -> bool {
            self.0 == "echo 1"
        }

        fn command(&self, _: &Place) -> Result<Option<Command>, Error> {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", self.0]);
            Ok((self.0 != "warm").then_some(command))
        }

        fn record(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples) {
            samples.record(self.0, turn.map(|turn| turn.iter().map(|sample| sample.wall)));
        }
    }

    #[test]
    fn failing_and_differing_cells_are_excluded_with_a_reason() {
        let path = PathBuf::new;
        let [folder, skillhost, programs, python, converter, node] =
            [path(), path(), path(), path(), path(), path()];
        let tools = BTreeMap::new();
        let driver = None;
        let place = Place { folder, skillhost, driver, programs, python, converter, node, tools };
        let mut bench = Bench::new(&place, []);
        let lines = ["exit 3", "echo 2", "warm", "true; echo 1", "echo 1"];
        let cells = lines.map(|line| Line(line, Case::new("case", "hello", Target::True)));
        step(&Progress::silent(), "", |step| {
            bench.check(&cells, step);
            bench.run_turns(&cells, (1, 2), step);
        });
        let spread = |line| bench.samples.spread(line);
        assert_eq!(spread("exit 3"), Err("sh: exit status: 3: no error message".into()));
        assert!(spread("echo 2").unwrap_err().contains("differs"));
        assert_eq!(spread("warm"), Err("no driver for the warm tier".into()));
        assert_eq!(
            [spread("true; echo 1"), spread("echo 1")].map(|found| found.unwrap().n),
            [2, 2]
        );
    }

    #[test]
    fn slow_cells_run_in_fewer_rounds_that_are_evenly_distributed() {
        let due =
            |some, all| (0..all).filter(|round| is_due(*round, some, all)).collect::<Vec<_>>();
        assert_eq!(due(3, 9), [2, 5, 8]);
        assert_eq!(due(10, 30).len(), 10);
        assert_eq!(due(2, 2), [0, 1]);
    }

    #[test]
    fn each_round_has_every_cell_once_in_a_new_order() {
        let rounds = [0, 1, 2].map(|round| order(round, 20));
        assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2]);
        for mut round in rounds {
            round.sort_unstable();
            assert!(round.into_iter().eq(0..20));
        }
    }
}
