//! `cargo xtask bench targets`: every figure that the project has a goal for, beside what it is
//! held against, in one run.

mod cells;
mod goals;
mod living;
mod page;
mod report;
mod samples;
mod table;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};

use serde::{Deserialize, Serialize};
use skillhost_toolchain::{Error, Progress, Step};

use super::cases::Case;
use super::isolation::{WARM_UP, order};
use super::machine;
use super::measure::{self, Sample};
use super::place::Place;
use super::warm::Driver;
use cells::{Cell, How};
pub(crate) use page::{commit, write};
use report::{Report, SCHEMA};
use samples::Samples;
pub(crate) use table::table;

/// Rounds of what takes long, and of crowds and idle processes; and those before the first that
/// counts.
const LONG: usize = 5;
const LONG_WARM_UP: usize = 1;

/// Guests at once, at most, in the host of the warm cells.
const STORES: usize = 64;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Size,
    /// So many a second.
    Rate,
}

/// Measures everything. `rounds` is the number of samples of what is short, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    command: String,
    progress: &Progress,
) -> Result<Report, Error> {
    let machine = machine::describe()?;
    machine::warn_if_busy(&machine);
    cells::fill(place)?;
    let port = serve()?;
    let policy = cells::policy(place, port)?;
    let groups = [
        ("starts", cells::starts(), WARM_UP, rounds),
        ("children and requests", cells::repeats(port, &policy), LONG_WARM_UP, rounds),
        ("files and computing", cells::work(), LONG_WARM_UP, LONG),
    ];
    let warm = groups[0].1.iter().filter(|cell| cell.how == How::Warm);
    let named: Vec<(String, Case)> =
        warm.map(|cell| (cell.case.id.to_owned(), cell.case.clone())).collect();
    let mut bench = Bench {
        place,
        driver: Driver::start(place, &named, STORES).map_err(|error| error.to_string()),
        samples: Samples::default(),
    };
    for (name, cells, warm_up, rounds) in &groups {
        measuring(progress, name, |step| bench.turns(cells, *warm_up, *rounds, step))?;
    }
    let Bench { mut samples, driver, .. } = bench;
    drop(driver);
    measuring(progress, "guests that are alive at once", |step| {
        living::crowds(place, &mut samples, LONG, step)
    })?;
    measuring(progress, "processes that are left alone", |step| {
        living::idle(place, &mut samples, LONG, step)
    })?;
    Ok(Report {
        schema: SCHEMA,
        command,
        machine,
        versions: machine::versions(place, &[]),
        rounds,
        long_rounds: LONG,
        rows: report::rows(&samples),
        samples: samples.spreads(),
    })
}

/// A step that says by its samples what failed.
fn measuring(progress: &Progress, name: &str, measure: impl FnOnce(&Step)) -> Result<(), Error> {
    progress.step(name, |step| {
        measure(step);
        Ok(())
    })
}

/// A run that is under way.
struct Bench<'a> {
    place: &'a Place,
    driver: Result<Driver, String>,
    samples: Samples,
}

impl Bench<'_> {
    /// Each round runs every cell once, in an order of its own: what disturbs the machine, or comes
    /// before, disturbs all alike. What fails is missing from then on.
    fn turns(&mut self, cells: &[Cell], warm_up: usize, rounds: usize, step: &Step) {
        for cell in cells {
            step.note(&format!("try {}", cell.name()));
            if let Err(error) = self.agrees(cell, cells) {
                self.fail(cell, &error);
            }
        }
        for round in 0..warm_up + rounds {
            step.note(&format!("{} of {}", round + 1, warm_up + rounds));
            for cell in order(round, cells.len()).into_iter().map(|index| &cells[index]) {
                if self.samples.failed(&cell.name()) {
                    continue;
                }
                match self.once(cell) {
                    Ok(turn) if round >= warm_up => self.keep(cell, &turn),
                    Ok(_) => {}
                    Err(error) => self.fail(cell, &error),
                }
            }
        }
    }

    fn once(&mut self, cell: &Cell) -> Result<Vec<Sample>, Error> {
        match (cell.how, &mut self.driver) {
            (How::Warm, Ok(driver)) => {
                driver.each(cell.case.id, cell.case.batch).map(|(turn, ..)| turn)
            }
            (How::Warm, Err(why)) => Err(Error::new(why.clone())),
            _ => measure::run(&mut cell.command(self.place)?).map(|sample| vec![sample]),
        }
    }

    fn keep(&mut self, cell: &Cell, turn: &[Sample]) {
        for sample in turn {
            self.samples.add(&cell.name(), sample.wall);
        }
        if let Some(rate) = cell.rate() {
            self.samples.add(rate, samples::rate(turn));
        }
    }

    fn fail(&mut self, cell: &Cell, error: &Error) {
        self.samples.fail(&cell.name(), error);
        if let Some(rate) = cell.rate() {
            self.samples.fail(rate, error);
        }
    }

    /// What prints something else than the machine's own program does something else.
    fn agrees(&mut self, cell: &Cell, cells: &[Cell]) -> Result<(), Error> {
        let found = match (cell.how, &mut self.driver) {
            (How::Warm, Ok(driver)) => driver.each(cell.case.id, 1)?.2,
            (How::Warm, Err(why)) => return Err(Error::new(why.clone())),
            _ => measure::output(&mut cell.command(self.place)?)?,
        };
        let native = cells.iter().find(|other| {
            other.case == cell.case && matches!(other.how, How::Native | How::Packages)
        });
        match native {
            Some(native) if measure::output(&mut native.command(self.place)?)? != found => {
                Err(Error::new("it prints something else than the machine's own program"))
            }
            _ => Ok(()),
        }
    }
}

/// Answers every connection with a short body, for as long as the benchmark runs. Returns its port.
fn serve() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(Error::context("a server on loopback"))?;
    let port = listener.local_addr().map_err(Error::context("a server on loopback"))?.port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // A request without a body is one packet here. Who goes away unanswered is no loss.
            if stream.read(&mut [0; 4096]).is_ok() {
                drop(stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nhi\n",
                ));
            }
        }
    });
    Ok(port)
}
