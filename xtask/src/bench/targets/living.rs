//! What is alive and waits: many guests in one host, and processes that are left alone.

use std::process::{Child, Stdio};
use std::time::Duration;

use skillhost_toolchain::{Error, Step};

use super::super::place::Place;
use super::super::warm::Driver;
use super::super::{cases, crowd, measure};
use super::samples::Samples;

/// Guests that are alive at once, and what each is called.
const CROWDS: [(usize, &str); 2] = [(10, "10"), (1_000, "1,000")];

/// More than a guest needs: where not so much memory is free for each, nothing is tried.
const ROOM: u64 = 3 << 20;

/// How often an idle process is looked at, how often it must be the same, and how often at most.
const LOOK: Duration = Duration::from_millis(100);
const SAME: usize = 10;
const LOOKS: usize = 200;

pub(crate) fn crowds(place: &Place, samples: &mut Samples, rounds: usize, step: &Step) {
    for round in 0..rounds {
        for (count, name) in CROWDS {
            step.note(&format!("{name} guests, {} of {rounds}", round + 1));
            let names = ["of each", "first start", "last start"]
                .map(|what| format!("{name} alive, {what}"));
            // Of ten the first is in no figure.
            let wanted = |name: &&String| *name != "10 alive, first start";
            match alive(place, count) {
                Ok(found) => names
                    .iter()
                    .zip(found)
                    .filter(|(name, _)| wanted(name))
                    .for_each(|(name, found)| samples.add(name, found)),
                Err(error) => {
                    names.iter().filter(wanted).for_each(|name| samples.fail(name, &error))
                }
            }
        }
    }
}

/// Private memory of the whole host by its guests, and the starts of the first and of the last. One
/// guest comes and goes before, so that no start loads the component.
fn alive(place: &Place, count: usize) -> Result<[u64; 3], Error> {
    let free = crowd::available() / 2;
    if count as u64 * ROOM > free {
        return Err(Error::new(format!(
            "it may need more than half of the memory that is free, {} MiB",
            free >> 19
        )));
    }
    let waiting = cases::waiting();
    let mut driver = Driver::start(place, &[(waiting.id.to_owned(), waiting.clone())], count)?;
    driver.each(waiting.id, 1)?;
    let [private, first, last] = driver.alive(waiting.id, count)?;
    Ok([private / count as u64, first, last])
}

pub(crate) fn idle(place: &Place, samples: &mut Samples, rounds: usize, step: &Step) {
    for round in 0..rounds {
        for (name, args) in [
            ("mcp", &["mcp"][..]),
            ("serve", &["serve", "--listen", "127.0.0.1:0"]),
            ("python3", &[]),
        ] {
            step.note(&format!("{name}, {} of {rounds}", round + 1));
            let name = format!("{name}, idle");
            match resident(place, args) {
                Ok(found) => samples.add(&name, found),
                Err(error) => samples.fail(&name, &error),
            }
        }
    }
}

/// Resident memory of `skillhost` with these arguments, or of the machine's Python that waits where
/// there are none.
fn resident(place: &Place, args: &[&str]) -> Result<u64, Error> {
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
    let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut left = Left(started.map_err(Error::context(measure::shown(&command)))?);
    left.settled()
}

/// A process that is left alone, and ended when this is dropped.
struct Left(Child);

impl Left {
    /// Its resident memory, once that does not change any more.
    fn settled(&mut self) -> Result<u64, Error> {
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

impl Drop for Left {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn left(script: &str) -> Left {
        Left(Command::new("/bin/sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap())
    }

    #[test]
    fn a_process_that_waits_has_memory_and_one_that_ends_has_none() {
        assert!(left("read line").settled().unwrap() > 64 << 10);
        assert!(
            left("exit 3")
                .settled()
                .unwrap_err()
                .to_string()
                .contains("ended by itself: exit status: 3")
        );
    }
}
