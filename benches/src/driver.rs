//! The warm tier: a host process that runs during the whole benchmark and invokes skills on request
//! (benches/warm/main.rs).

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

/// A running driver. It ends when this value is dropped.
pub(crate) struct Driver {
    child: Child,
    requests: Option<ChildStdin>,
    responses: BufReader<ChildStdout>,
}

/// The result of invocations in sequence.
#[derive(Deserialize)]
struct Turn {
    wall_ns: Vec<u64>,
    cpu_ns: Vec<u64>,
    /// The peak memory of the host.
    memory: u64,
    /// The output of the last invocation.
    stdout: String,
}

/// Concurrent guests or processes.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct LiveGuests {
    /// Private memory, in bytes.
    pub(crate) private: u64,
    /// The time from start to first output, of the first and of the last one.
    #[serde(rename = "first_ns")]
    pub(crate) first: u64,
    #[serde(rename = "last_ns")]
    pub(crate) last: u64,
}

impl Driver {
    /// Starts a driver that knows these cases and has room for `stores` concurrent guests.
    ///
    /// # Errors
    /// Returns an error if there is no driver, or if it does not start.
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
        let (Some(requests), Some(responses)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("the driver has no streams"));
        };
        Ok(Driver { child, requests: Some(requests), responses: BufReader::new(responses) })
    }

    /// Runs a case once, without measuring it.
    pub(crate) fn warm_up(&mut self, case: &Case) -> Result<(), Error> {
        self.each(case, 1).map(drop)
    }

    /// Runs a case `count` times with this concurrency, and returns the total time in nanoseconds.
    pub(crate) fn burst(
        &mut self,
        case: &Case,
        count: usize,
        concurrency: usize,
    ) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Burst {
            wall_ns: u64,
        }
        let burst: Burst = self.request(&format!("burst {} {count} {concurrency}", case.key()))?;
        Ok(burst.wall_ns)
    }

    /// Runs `count` guests of a case concurrently until each waits for input.
    pub(crate) fn alive(&mut self, case: &Case, count: usize) -> Result<LiveGuests, Error> {
        self.request(&format!("alive {} {count}", case.key()))
    }

    /// Runs a case `count` times in sequence.
    fn each(&mut self, case: &Case, count: usize) -> Result<Turn, Error> {
        self.request(&format!("each {} {count}", case.key()))
    }

    fn request<T: DeserializeOwned>(&mut self, request: &str) -> Result<T, Error> {
        let ended = || Error::new(format!("the driver of the warm tier ended during `{request}`"));
        let requests = self.requests.as_mut().ok_or_else(ended)?;
        writeln!(requests, "{request}").map_err(|_| ended())?;
        let mut line = String::new();
        if self.responses.read_line(&mut line).map_err(|_| ended())? == 0 {
            return Err(ended());
        }
        let response: Value = serde_json::from_str(&line).map_err(Error::context(request))?;
        match response["error"].as_str() {
            Some(error) => Err(Error::new(format!("{request}: {error}"))),
            None => serde_json::from_value(response).map_err(Error::context(request)),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The driver ends at the end of its input.
        drop(self.requests.take());
        drop(self.child.wait());
    }
}

/// Writes the setup of a driver, and returns the path of the file.
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

/// Runs a case: in a new process, or in the driver's host.
pub(crate) enum Executor<'a> {
    Process(Command),
    Driver(&'a mut Driver),
}

impl Executor<'_> {
    /// Runs a case: once in a process, or `count` times in the driver.
    pub(crate) fn samples(self, case: &Case, count: usize) -> Result<Vec<Sample>, Error> {
        match self {
            Executor::Process(mut command) => measure::run(&mut command).map(|sample| vec![sample]),
            Executor::Driver(driver) => {
                let Turn { wall_ns, cpu_ns, .. } = driver.each(case, count)?;
                let times = wall_ns.into_iter().zip(cpu_ns);
                Ok(times.map(|(wall, cpu)| Sample { wall, cpu }).collect())
            }
        }
    }

    /// Runs a case once, and returns its output.
    pub(crate) fn output(self, case: &Case) -> Result<String, Error> {
        match self {
            Executor::Process(mut command) => measure::output(&mut command),
            Executor::Driver(driver) => driver.each(case, 1).map(|turn| turn.stdout),
        }
    }

    /// Runs a case once, and returns its peak memory, or that of the whole driver.
    pub(crate) fn memory(self, case: &Case) -> Result<u64, Error> {
        match self {
            Executor::Process(mut command) => measure::memory(&mut command),
            Executor::Driver(driver) => driver.each(case, 1).map(|turn| turn.memory),
        }
    }
}
