//! Measures live guests in one host, and idle processes.

use std::process::{Child, Stdio};
use std::time::Duration;

use skillhost_toolchain::{Error, Step};

use super::LONG;
use crate::cases::{self, Case};
use crate::driver::{Driver, LiveGuests};
use crate::measure;
use crate::place::Place;
use crate::samples::Samples;

/// The numbers of live guests, and what they run.
const CROWDS: [Crowd; 3] =
    [(10, cases::waiting), (1_000, cases::waiting), (1_000, cases::waiting_javascript)];
type Crowd = (usize, fn() -> Case);

/// More memory than a guest needs. The measurement requires this much free memory for each guest.
const ROOM: u64 = 3 << 20;

/// The idle processes, and their arguments. The machine's Python has none.
const IDLE: [(&str, &[&str]); 3] = [
    ("mcp, idle", &["mcp"]),
    ("serve, idle", &["serve", "--listen", "127.0.0.1:0"]),
    ("python3, idle", &[]),
];

/// The interval at which the memory of an idle process is sampled, the number of equal samples
/// after which it counts as settled, and the maximal number of samples.
const INTERVAL: Duration = Duration::from_millis(100);
const SETTLED: usize = 10;
const MAX_SAMPLES: usize = 200;

/// The figures of each crowd, by its place in [`CROWDS`]. No goal uses the first start of ten guests.
type Figure = (usize, &'static str, fn(LiveGuests) -> u64);
const FIGURES: [Figure; 6] = [
    (0, "10 alive, of each", |alive| alive.private / 10),
    (0, "10 alive, last start", |alive| alive.last),
    (1, "1,000 alive, of each", |alive| alive.private / 1_000),
    (1, "1,000 alive, first start", |alive| alive.first),
    (1, "1,000 alive, last start", |alive| alive.last),
    (2, "1,000 JavaScript alive, of each", |alive| alive.private / 1_000),
];

pub(crate) fn measure_guests(place: &Place, samples: &mut Samples, step: &Step) {
    for round in 1..=LONG {
        for (crowd, (count, case)) in CROWDS.into_iter().enumerate() {
            step.note(&format!("{count} guests, {round} of {LONG}"));
            let found = keep_alive(place, &case(), count);
            for (_, name, figure) in FIGURES.iter().filter(|(of, ..)| *of == crowd) {
                samples.record(name, found.as_ref().map(|alive| [figure(*alive)]));
            }
        }
    }
}

pub(crate) fn measure_idle(place: &Place, samples: &mut Samples, step: &Step) {
    for round in 1..=LONG {
        for (name, args) in IDLE {
            step.note(&format!("{name}, {round} of {LONG}"));
            samples
                .record(name, measure_resident(place, args).as_ref().map(|resident| [*resident]));
        }
    }
}

/// Measures live guests in one host. Runs one guest first, so that no measured start loads the
/// component.
fn keep_alive(place: &Place, waiting: &Case, count: usize) -> Result<LiveGuests, Error> {
    measure::check_room(count as u64 * ROOM)?;
    let mut driver = Driver::start(place, [waiting], count)?;
    driver.warm_up(waiting)?;
    driver.alive(waiting, count)
}

/// Returns the names of the measurements in this module.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = String> {
    let crowds = FIGURES.iter().map(|(_, name, _)| *name);
    crowds.chain(IDLE.map(|(name, _)| name)).map(str::to_owned)
}

/// Measures the resident memory of `skillhost` with these arguments or, if there are none, of the
/// machine's Python.
fn measure_resident(place: &Place, args: &[&str]) -> Result<u64, Error> {
    let mut command = place.command(if args.is_empty() { &place.python } else { &place.skillhost });
    match args {
        [] => command.arg(place.skill("hello").join("scripts/wait.py")),
        args => command
            .env("SKILLHOST_PROGRAMS", &place.programs)
            .args(args)
            .arg("--skills")
            .arg(place.folder.join("skills")),
    };
    // The input stays open, because the processes exit at its end.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(Error::context(measure::program(&command)))?;
    IdleProcess(child).settled()
}

/// An idle process, which is killed when this value is dropped.
struct IdleProcess(Child);

impl IdleProcess {
    /// Returns the resident memory once it no longer changes.
    fn settled(mut self) -> Result<u64, Error> {
        let (mut last, mut same) = (0, 0);
        for _ in 0..MAX_SAMPLES {
            std::thread::sleep(INTERVAL);
            if let Some(status) = self.0.try_wait().map_err(Error::context("an idle process"))? {
                return Err(Error::new(format!("the process exited: {status}")));
            }
            let now = measure::resident(self.0.id());
            same = if now == last { same + 1 } else { 0 };
            last = now;
            if same == SETTLED {
                return Ok(now);
            }
        }
        Err(Error::new(format!(
            "its memory kept changing for {} s",
            (INTERVAL * MAX_SAMPLES as u32).as_secs()
        )))
    }
}

impl Drop for IdleProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn settled(script: &str) -> Result<u64, Error> {
        let mut command = Command::new("/bin/sh");
        IdleProcess(command.args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap()).settled()
    }

    #[test]
    fn idle_process_is_measured_and_exited_process_is_an_error() {
        assert!(settled("read line").unwrap() > 64 << 10);
        let error = settled("exit 3").unwrap_err().to_string();
        assert!(error.contains("the process exited: exit status: 3"), "{error}");
    }
}
