//! What is alive and waits: many guests in one host, and idle processes.

use std::process::{Child, Stdio};
use std::time::Duration;

use skillhost_toolchain::{Error, Step};

use super::LONG;
use crate::cases;
use crate::driver::{Crowd, Driver};
use crate::measure;
use crate::place::Place;
use crate::samples::Samples;

/// Guests that are alive at once.
const CROWDS: [usize; 2] = [10, 1_000];

/// More than a guest needs: nothing is tried unless so much memory is free for each.
const ROOM: u64 = 3 << 20;

/// What is left alone, and its arguments; the machine's Python has none of them.
const IDLE: [(&str, &[&str]); 3] = [
    ("mcp, idle", &["mcp"]),
    ("serve, idle", &["serve", "--listen", "127.0.0.1:0"]),
    ("python3, idle", &[]),
];

/// How often an idle process is looked at, how often it must be the same, and how often at most.
const LOOK: Duration = Duration::from_millis(100);
const SAME: usize = 10;
const LOOKS: usize = 200;

/// What is measured of so many guests. Of ten, the first start is in no figure.
type Figure = (usize, &'static str, fn(Crowd) -> u64);
const FIGURES: [Figure; 5] = [
    (10, "10 alive, of each", |alive| alive.private / 10),
    (10, "10 alive, last start", |alive| alive.last),
    (1_000, "1,000 alive, of each", |alive| alive.private / 1_000),
    (1_000, "1,000 alive, first start", |alive| alive.first),
    (1_000, "1,000 alive, last start", |alive| alive.last),
];

pub(crate) fn measure_crowds(place: &Place, samples: &mut Samples, step: &Step) {
    for round in 1..=LONG {
        for count in CROWDS {
            step.note(&format!("{count} guests, {round} of {LONG}"));
            let found = keep_alive(place, count);
            for (_, name, figure) in FIGURES.iter().filter(|(of, ..)| *of == count) {
                samples.note(name, found.as_ref().map(|alive| [figure(*alive)]));
            }
        }
    }
}

pub(crate) fn measure_idle(place: &Place, samples: &mut Samples, step: &Step) {
    for round in 1..=LONG {
        for (name, args) in IDLE {
            step.note(&format!("{name}, {round} of {LONG}"));
            samples.note(name, measure_resident(place, args).as_ref().map(|resident| [*resident]));
        }
    }
}

/// Keeps guests alive in one host. One guest comes and goes before, so that no start loads the
/// component.
fn keep_alive(place: &Place, count: usize) -> Result<Crowd, Error> {
    measure::check_room(count as u64 * ROOM)?;
    let waiting = cases::waiting();
    let mut driver = Driver::start(place, [&waiting], count)?;
    driver.warm_up(&waiting)?;
    driver.alive(&waiting, count)
}

/// The names of all that is measured here.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = String> {
    let crowds = FIGURES.iter().map(|(_, name, _)| *name);
    crowds.chain(IDLE.map(|(name, _)| name)).map(str::to_owned)
}

/// Resident memory of `skillhost` with these arguments, or without any of the machine's Python
/// that waits.
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
    // An input that stays open: its end would be theirs.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(Error::context(measure::program(&command)))?;
    IdleProcess(child).settled()
}

/// A process that is left alone, and killed when this is dropped.
struct IdleProcess(Child);

impl IdleProcess {
    /// Its resident memory, once that does not change any more.
    fn settled(mut self) -> Result<u64, Error> {
        let (mut last, mut same) = (0, 0);
        for _ in 0..LOOKS {
            std::thread::sleep(LOOK);
            if let Some(status) = self.0.try_wait().map_err(Error::context("an idle process"))? {
                return Err(Error::new(format!("it ended by itself: {status}")));
            }
            let now = measure::resident(self.0.id());
            same = if now == last { same + 1 } else { 0 };
            last = now;
            if same == SAME {
                return Ok(now);
            }
        }
        Err(Error::new(format!("its memory changed for {} s", (LOOK * LOOKS as u32).as_secs())))
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
    fn a_process_that_waits_has_memory_and_one_that_ends_has_none() {
        assert!(settled("read line").unwrap() > 64 << 10);
        let error = settled("exit 3").unwrap_err().to_string();
        assert!(error.contains("ended by itself: exit status: 3"), "{error}");
    }
}
