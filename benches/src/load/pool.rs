//! The same scripts by a pool of native processes, without any isolation.

use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Step};

use super::client::Kind;
use super::report::Native;
use super::{Tally, into_inner, lock, spawn};
use crate::measure;
use crate::place::Place;

/// Starts the programs of the mixed phase by as many workers as there are cores, for this long.
pub(super) fn run(place: &Place, length: Duration, step: &Step) -> Result<Native, Error> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    step.note(&format!("{workers} workers"));
    let end = Instant::now() + length;
    let tally = Mutex::new(Tally::default());
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for index in 0..workers {
            let (tally, failed) = (&tally, &failed);
            spawn(scope, move || {
                let mut next = index;
                while Instant::now() < end {
                    let kind = Kind::MIXED[next % Kind::MIXED.len()];
                    next += 1;
                    match measure::run(&mut command(place, kind)) {
                        Ok(sample) => lock(tally).add(&Ok(Duration::from_nanos(sample.wall))),
                        Err(error) => {
                            let mut failed =
                                failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            *failed = Some(error);
                            return;
                        }
                    }
                }
            })?;
        }
        Ok::<_, Error>(())
    })?;
    if let Ok(Some(error)) = failed.into_inner() {
        return Err(error);
    }
    let tally = into_inner(tally);
    let per_second = tally.times.len() as u64 / length.as_secs().max(1);
    Ok(Native { workers, per_second, wall: tally.spread()? })
}

/// Returns the native program of a kind. The component's counterpart is a small native program.
fn command(place: &Place, kind: Kind) -> Command {
    let script = kind.script().map(|script| place.skill("hello").join(script));
    let program = match kind {
        Kind::Component => "/bin/true".as_ref(),
        Kind::Python => place.python.as_path(),
        Kind::Bash => "/bin/bash".as_ref(),
        Kind::JavaScript => place.node.as_path(),
    };
    let mut command = place.command(program);
    command.args(script);
    command
}
