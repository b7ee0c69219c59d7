//! The warm tier: a host process that lives through the whole benchmark and invokes skills on
//! request (benches/warm/main.rs).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use skillhost_toolchain::{Error, files};

use crate::cases::Case;
use crate::measure::{self, Sample};
use crate::place::Place;

/// A driver that waits for orders. It ends when it is dropped.
pub(crate) struct Driver {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Invocations one after the other.
#[derive(Deserialize)]
struct Turn {
    wall_ns: Vec<u64>,
    cpu_ns: Vec<u64>,
    /// The host's memory at its peak.
    memory: u64,
    /// What the last one printed.
    stdout: String,
}

/// Guests, or processes, that are alive at once.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Crowd {
    /// Memory that belongs to no other process.
    pub(crate) private: u64,
    /// From the start of the first one to its first output, and of the last one.
    #[serde(rename = "first_ns")]
    pub(crate) first: u64,
    #[serde(rename = "last_ns")]
    pub(crate) last: u64,
}

impl Driver {
    /// Starts one that knows these cases and has room for `stores` guests at once.
    ///
    /// # Errors
    /// There is none to start, or it does not start.
    pub(crate) fn start<'c>(
        place: &Place,
        cases: impl IntoIterator<Item = &'c Case>,
        stores: usize,
    ) -> Result<Driver, Error> {
        let no_driver = || Error::new("no driver for the warm tier");
        let program = place.driver.as_ref().ok_or_else(no_driver)?;
        let mut command = place.command(program);
        command.arg(setup(place, cases, stores)?).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(Error::context(program.display()))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("the driver has no streams"));
        };
        Ok(Driver { child, orders: Some(orders), answers: BufReader::new(answers) })
    }

    /// Runs a case once, before anything is measured.
    pub(crate) fn warm_up(&mut self, case: &Case) -> Result<(), Error> {
        self.each(case, 1).map(drop)
    }

    /// Runs a case `count` times, `at_once` at once, and returns the time of all, in nanoseconds.
    pub(crate) fn burst(
        &mut self,
        case: &Case,
        count: usize,
        at_once: usize,
    ) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Burst {
            wall_ns: u64,
        }
        let burst: Burst = self.order(&format!("burst {} {count} {at_once}", case.key()))?;
        Ok(burst.wall_ns)
    }

    /// Keeps `count` guests of a case alive at once.
    pub(crate) fn alive(&mut self, case: &Case, count: usize) -> Result<Crowd, Error> {
        self.order(&format!("alive {} {count}", case.key()))
    }

    /// Runs a case `count` times, one after the other.
    fn each(&mut self, case: &Case, count: usize) -> Result<Turn, Error> {
        self.order(&format!("each {} {count}", case.key()))
    }

    fn order<T: DeserializeOwned>(&mut self, order: &str) -> Result<T, Error> {
        let ended = || Error::new(format!("the driver of the warm tier ended at `{order}`"));
        let orders = self.orders.as_mut().ok_or_else(ended)?;
        writeln!(orders, "{order}").map_err(|_| ended())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).map_err(|_| ended())? == 0 {
            return Err(ended());
        }
        let answer: Value = serde_json::from_str(&line).map_err(Error::context(order))?;
        match answer["error"].as_str() {
            Some(error) => Err(Error::new(format!("{order}: {error}"))),
            None => serde_json::from_value(answer).map_err(Error::context(order)),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The end of its orders is its end.
        drop(self.orders.take());
        drop(self.child.wait());
    }
}

/// Writes what a driver reads first, and returns the file.
pub(crate) fn setup<'c>(
    place: &Place,
    cases: impl IntoIterator<Item = &'c Case>,
    stores: usize,
) -> Result<PathBuf, Error> {
    let home = place.home().join("warm");
    let task = |case: &Case| {
        let task = json!({
            "skill": place.skill(case.skill), "script": case.target.script(), "args": case.args,
            "workspace": case.input.is_some(),
        });
        (case.key(), task)
    };
    let setup = json!({
        "skillhost": place.skillhost, "programs": place.programs, "home": home,
        "workspace": place.workspace(), "stores": stores,
        "tasks": cases.into_iter().map(task).collect::<Map<_, _>>(),
    });
    let file = home.join("setup.json");
    files::write_if_changed(&file, setup.to_string().as_bytes())?;
    Ok(file)
}

/// How a case runs: in a process of its own, or in the driver's host.
pub(crate) enum Way<'a> {
    Process(Command),
    Driver(&'a mut Driver),
}

impl Way<'_> {
    /// Runs a case; in a host, `count` times.
    pub(crate) fn samples(self, case: &Case, count: usize) -> Result<Vec<Sample>, Error> {
        match self {
            Way::Process(mut command) => measure::run(&mut command).map(|sample| vec![sample]),
            Way::Driver(driver) => {
                let Turn { wall_ns, cpu_ns, .. } = driver.each(case, count)?;
                let times = wall_ns.into_iter().zip(cpu_ns);
                Ok(times.map(|(wall, cpu)| Sample { wall, cpu }).collect())
            }
        }
    }

    /// Runs a case once, and returns what it printed.
    pub(crate) fn output(self, case: &Case) -> Result<String, Error> {
        match self {
            Way::Process(mut command) => measure::output(&mut command),
            Way::Driver(driver) => driver.each(case, 1).map(|turn| turn.stdout),
        }
    }

    /// Runs a case once, and returns its memory at the peak; of a host, the memory of all of it.
    pub(crate) fn memory(self, case: &Case) -> Result<u64, Error> {
        match self {
            Way::Process(mut command) => measure::memory(&mut command),
            Way::Driver(driver) => driver.each(case, 1).map(|turn| turn.memory),
        }
    }
}
