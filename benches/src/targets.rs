//! `cargo xtask bench targets`: every figure that the project has a goal for, next to what it is
//! compared with, in one run.

mod cells;
mod goals;
mod living;
pub(crate) mod report;

use skillhost_toolchain::{Error, Progress};

use crate::bench::{Bench, WARM_UP, step};
use crate::place::Place;
use crate::report::Header;
use crate::server::serve;
use cells::How;
pub(crate) use report::Report;

/// Rounds of what takes long, and of crowds and idle processes; and those before the first that
/// counts.
const LONG: usize = 5;
const LONG_WARM_UP: usize = 1;

/// Measures everything. `rounds` is the number of samples of what is short, at least one.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    progress: &Progress,
    say: &dyn Fn(&str),
) -> Result<Report, Error> {
    let header = Header::new::<Report>(place, rounds, &[], say)?;
    cells::fill(place)?;
    let port = serve()?;
    let policy = cells::policy(place, port)?;
    let starts = cells::starts();
    let warm = starts.iter().filter(|cell| cell.how == How::Warm);
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
    step(progress, "guests that are alive at once", |step| {
        living::measure_crowds(place, &mut samples, step)
    });
    step(progress, "processes that are left alone", |step| {
        living::measure_idle(place, &mut samples, step)
    });
    Ok(Report::new(header, &samples))
}

#[cfg(test)]
pub(crate) use report::tests;
