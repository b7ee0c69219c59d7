//! Measuring in turns: each round runs every cell once, in an order of its own. Whatever disturbs
//! the machine, or ran before, then disturbs all cells alike.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::Command;

use skillhost_toolchain::{Error, Progress, Step};

use crate::cases::Case;
use crate::driver::{Driver, Way};
use crate::measure::Sample;
use crate::place::Place;
use crate::samples::Samples;

/// Rounds before the first that counts: they fill caches and compile components.
pub(crate) const WARM_UP: usize = 3;

/// Guests at once, at most, in one host.
const STORES: usize = 64;

/// A case that is run in one way.
pub(crate) trait Cell {
    /// The name of its samples.
    fn name(&self) -> String;

    fn case(&self) -> &Case;

    /// Whether the machine's own program runs it. The other cells of the case print the same.
    fn is_native(&self) -> bool;

    /// The command that runs it. A warm cell has none: it runs in the driver.
    fn command(&self, place: &Place) -> Result<Option<Command>, Error>;

    /// Records a turn, or why there is none.
    fn note(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples);
}

/// A benchmark that is under way.
pub(crate) struct Bench<'a> {
    pub(crate) place: &'a Place,
    pub(crate) driver: Result<Driver, Error>,
    pub(crate) samples: Samples,
}

impl<'a> Bench<'a> {
    /// Starts a driver for the warm cells.
    pub(crate) fn new<'c>(place: &'a Place, warm: impl IntoIterator<Item = &'c Case>) -> Bench<'a> {
        Bench { place, driver: Driver::start(place, warm, STORES), samples: Samples::default() }
    }

    pub(crate) fn way(&mut self, cell: &impl Cell) -> Result<Way<'_>, Error> {
        match (cell.command(self.place)?, &mut self.driver) {
            (Some(command), _) => Ok(Way::Process(command)),
            (None, Ok(driver)) => Ok(Way::Driver(driver)),
            (None, Err(error)) => Err(error.clone()),
        }
    }

    /// Runs each cell once. One that fails is missing from then on, and so is one that prints
    /// something else than the native one: it does something else.
    pub(crate) fn check(&mut self, cells: &[impl Cell], step: &Step) {
        let mut native: BTreeMap<String, String> = BTreeMap::new();
        let (natives, others): (Vec<_>, Vec<_>) = cells.iter().partition(|cell| cell.is_native());
        for cell in natives.into_iter().chain(others) {
            step.note(&format!("try {}", cell.name()));
            let case = cell.case();
            let error = match self.way(cell).and_then(|way| way.output(case)) {
                Ok(output) if cell.is_native() => {
                    native.insert(case.key(), output);
                    continue;
                }
                Ok(output) if native.get(&case.key()).is_none_or(|other| *other == output) => {
                    continue;
                }
                Ok(_) => {
                    let name = case.name;
                    Error::new(format!("{name} prints something else than the machine's program"))
                }
                Err(error) => error,
            };
            cell.note(Err(&error), &mut self.samples);
        }
    }

    /// Runs the cells in turns. A cell that fails is missing from then on.
    pub(crate) fn run_turns(
        &mut self,
        cells: &[impl Cell],
        (warm_up, rounds): (usize, usize),
        step: &Step,
    ) {
        for round in 0..warm_up + rounds {
            step.note(&format!("{} of {}", round + 1, warm_up + rounds));
            for cell in order(round, cells.len()).into_iter().map(|index| &cells[index]) {
                if self.samples.failure(&cell.name()).is_some() {
                    continue;
                }
                let case = cell.case();
                let turn = self.way(cell).and_then(|way| way.samples(case, case.batch));
                if turn.is_err() || round >= warm_up {
                    cell.note(turn.as_deref(), &mut self.samples);
                }
            }
        }
    }
}

/// Runs a step that records failures rather than failing.
pub(crate) fn step<T>(progress: &Progress, name: &str, work: impl FnOnce(&Step) -> T) -> T {
    let Ok(found) = progress.step(name, |step| Ok::<_, Infallible>(work(step)));
    found
}

/// The order of a round: pseudo-random, and the same in every run of the benchmark.
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

        fn note(&self, turn: Result<&[Sample], &Error>, samples: &mut Samples) {
            samples.note(self.0, turn.map(|turn| turn.iter().map(|sample| sample.wall)));
        }
    }

    #[test]
    fn cells_that_fail_or_differ_are_missing_with_a_reason() {
        let path = PathBuf::new;
        let [folder, skillhost, programs, python, converter] =
            [path(), path(), path(), path(), path()];
        let place = Place { folder, skillhost, driver: None, programs, python, converter };
        let mut bench = Bench::new(&place, []);
        let lines = ["exit 3", "echo 2", "warm", "true; echo 1", "echo 1"];
        let cells = lines.map(|line| Line(line, Case::new("case", "hello", Target::True)));
        step(&Progress::silent(), "", |step| {
            bench.check(&cells, step);
            bench.run_turns(&cells, (1, 2), step);
        });
        let spread = |line| bench.samples.spread(line);
        assert_eq!(spread("exit 3"), Err("sh: exit status: 3: it says nothing".into()));
        assert!(spread("echo 2").unwrap_err().contains("prints something else"));
        assert_eq!(spread("warm"), Err("no driver for the warm tier".into()));
        assert_eq!(
            [spread("true; echo 1"), spread("echo 1")].map(|found| found.unwrap().n),
            [2, 2]
        );
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
