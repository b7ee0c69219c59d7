//! `cargo xtask bench targets`: measures every figure that has a goal, and the figures that they
//! are compared with, in one run.

mod alive;
mod cells;
mod goals;
pub(crate) mod report;

use skillhost_toolchain::{Error, Progress};

use crate::bench::{Bench, WARM_UP, step};
use crate::place::Place;
use crate::report::Header;
use crate::server::serve;
use cells::Mode;
pub(crate) use cells::{component, fill as fill_component};
pub(crate) use report::Report;

/// The rounds of long cases, of concurrent guests and of idle processes, and those before the first
/// that is recorded.
const LONG: usize = 5;
const LONG_WARM_UP: usize = 1;

/// Measures everything. `rounds` is the number of samples of each short case, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let header = Header::new::<Report>(place, rounds, &[], print)?;
    cells::fill(place)?;
    let port = serve()?;
    let policy = cells::policy(place, port)?;
    let starts = cells::starts();
    let warm = starts.iter().filter(|cell| cell.mode == Mode::Warm);
    let mut bench = Bench::new(place, warm.map(|cell| &cell.case));
    for (name, cells, rounds) in [
        ("starts", &starts, (WARM_UP, rounds)),
        ("children and requests", &cells::repeats(port, &policy), (LONG_WARM_UP, rounds)),
        ("files and computing", &cells::work(), (LONG_WARM_UP, LONG)),
    ] {
        step(progress, name, |step| {
            bench.check(cells, step);
            bench.run_turns(cells, rounds, step);
        });
    }
    let Bench { mut samples, driver, .. } = bench;
    drop(driver);
    step(progress, "concurrent guests", |step| alive::measure_guests(place, &mut samples, step));
    step(progress, "idle processes", |step| alive::measure_idle(place, &mut samples, step));
    Ok(Report::new(header, &samples))
}

#[cfg(test)]
pub(crate) use report::tests;
