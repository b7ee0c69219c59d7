//! The warm tier: a host process that lives through the whole run and invokes what it is told to
//! (benches/warm/main.rs).

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use skillhost_toolchain::{Error, files};

use super::cases::{Case, What};
use super::measure::Sample;
use super::place::Place;

/// A driver that waits for orders. It ends when it is dropped.
pub(crate) struct Driver {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    /// Starts one that knows these cases, by their ids or other names, and has room for `stores`
    /// guests at once.
    ///
    /// # Errors
    /// There is none to start, or it does not start.
    pub(crate) fn start(
        place: &Place,
        cases: &[(String, Case)],
        stores: usize,
    ) -> Result<Driver, Error> {
        let Some(program) = &place.driver else {
            return Err(Error::new("no driver for the warm tier"));
        };
        let file = setup(place, cases, stores)?;
        let mut command: Command = place.command(program);
        let mut child = command
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::context(program.display()))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("the driver has no streams"));
        };
        Ok(Driver { child, orders: Some(orders), answers: BufReader::new(answers) })
    }

    /// Runs a case `count` times, one after the other. Returns the samples, the host's memory at
    /// its peak, and what the last printed.
    pub(crate) fn each(
        &mut self,
        case: &str,
        count: usize,
    ) -> Result<(Vec<Sample>, u64, String), Error> {
        let answer = self.order(&format!("each {case} {count}"))?;
        let numbers = |key: &str| {
            answer[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .collect::<Vec<_>>()
        };
        let samples = numbers("wall_ns")
            .into_iter()
            .zip(numbers("cpu_ns"))
            .map(|(wall, cpu)| Sample { wall, cpu })
            .collect();
        Ok((
            samples,
            answer["memory"].as_u64().unwrap_or(0),
            answer["stdout"].as_str().unwrap_or_default().to_owned(),
        ))
    }

    /// Runs a case `count` times, `at_once` at once, and returns the time of all, in nanoseconds.
    pub(crate) fn burst(&mut self, case: &str, count: usize, at_once: usize) -> Result<u64, Error> {
        let answer = self.order(&format!("burst {case} {count} {at_once}"))?;
        answer["wall_ns"].as_u64().ok_or_else(|| Error::new(format!("no time in {answer}")))
    }

    /// Keeps `count` guests of a case alive at once. Returns the host's private memory, and the
    /// times of the first and the last to start.
    pub(crate) fn alive(&mut self, case: &str, count: usize) -> Result<[u64; 3], Error> {
        let answer = self.order(&format!("alive {case} {count}"))?;
        let number = |key: &str| {
            answer[key].as_u64().ok_or_else(|| Error::new(format!("no {key} in {answer}")))
        };
        Ok([number("private")?, number("first_ns")?, number("last_ns")?])
    }

    fn order(&mut self, order: &str) -> Result<Value, Error> {
        let gone = || Error::new(format!("the driver of the warm tier ended at `{order}`"));
        let orders = self.orders.as_mut().ok_or_else(gone)?;
        writeln!(orders, "{order}").map_err(|_| gone())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line).map_err(|_| gone())? == 0 {
            return Err(gone());
        }
        let answer: Value = serde_json::from_str(&line).map_err(Error::context(order))?;
        match answer["error"].as_str() {
            Some(error) => Err(Error::new(format!("{order}: {error}"))),
            None => Ok(answer),
        }
    }
}

/// Writes what a driver reads first, and returns the file.
pub(crate) fn setup(
    place: &Place,
    cases: &[(String, Case)],
    stores: usize,
) -> Result<PathBuf, Error> {
    let home = place.home().join("warm");
    let tasks = cases.iter().map(|(name, case)| {
        let script = if let What::Python(script) | What::Bash(script) = case.what { Some(script) } else { None };
        let task = json!({ "skill": place.skill(case.skill), "script": script, "args": case.args, "workspace": case.input.is_some() });
        (name.clone(), task)
    });
    let setup = json!({
        "skillhost": place.skillhost, "programs": place.programs, "home": home, "workspace": place.workspace(),
        "stores": stores, "tasks": tasks.collect::<serde_json::Map<_, _>>(),
    });
    let file = home.join("setup.json");
    files::write_if_changed(&file, setup.to_string().as_bytes())?;
    Ok(file)
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The end of its orders is its end.
        drop(self.orders.take());
        drop(self.child.wait());
    }
}
