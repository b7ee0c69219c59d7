//! The warm tier of `cargo xtask bench isolation`: one host process that invokes skills on request.
//!
//! Its argument is a JSON file (`Setup`); each line of stdin is an order, answered by one line of
//! JSON:
//!
//! | order | does | answer |
//! |---|---|---|
//! | `each TASK N` | N invocations, one after the other | `wall_ns` and `cpu_ns` of each, `memory` at the peak, `stdout` of the last |
//! | `burst TASK N C` | N invocations, at most C under way at once | `wall_ns` of all |
//! | `alive TASK N` | N invocations that print a line and then wait for their input | `idle` and `private` bytes, `first_ns` and `last_ns` |
//!
//! With `once TASK` after the file, it invokes a skill once, as `skillhost run` does, and prints the
//! time of each phase.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark that cannot run says so by panicking"
)]

#[path = "../shared/host.rs"]
mod host;
mod once;
#[path = "../shared/spans.rs"]
mod spans;

use std::collections::BTreeMap;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use skillhost::invoke::{LoadedSkill, Runner, Target};
use skillhost_bench::{nanoseconds, sizes};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::{Allocation, Io, Sink, Stdin};

/// What the orders need.
#[derive(serde::Deserialize)]
struct Setup {
    /// The binary that compiles.
    skillhost: PathBuf,
    programs: PathBuf,
    /// The folder of the cache, the audit log and the scratch folders.
    home: PathBuf,
    workspace: PathBuf,
    /// Guests that may be alive at once.
    stores: u32,
    tasks: BTreeMap<String, Task>,
}

/// What an order names.
#[derive(serde::Deserialize)]
struct Task {
    skill: PathBuf,
    /// A script; without it the component runs.
    script: Option<String>,
    args: Vec<String>,
    /// Whether it is given the workspace.
    workspace: bool,
}

struct Driver {
    host: Runner,
    tasks: BTreeMap<String, Task>,
    loaded: Mutex<BTreeMap<String, Arc<LoadedSkill>>>,
    with: Policy,
    without: Policy,
}

fn main() {
    let Some(setup) = std::env::args().nth(1) else {
        println!("`cargo xtask bench isolation` drives this one");
        return;
    };
    let setup: Setup = serde_json::from_slice(&std::fs::read(setup).unwrap()).unwrap();
    if let Some(task) = std::env::args().skip_while(|argument| argument != "once").nth(1) {
        return once::main(&setup, &task);
    }
    raise_descriptor_limit();
    let driver = Arc::new(Driver::new(setup));
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["each", task, n] => one.block_on(driver.each(task, n.parse().unwrap())),
            ["burst", task, n, c] => {
                many.block_on(driver.clone().burst(task, n.parse().unwrap(), c.parse().unwrap()))
            }
            ["alive", task, n] => driver.clone().alive(&many, task, n.parse().unwrap()),
            _ => panic!("no such order: {line}"),
        };
        let answer = answer.unwrap_or_else(|error| json!({ "error": error }));
        println!("{answer}");
        std::io::stdout().flush().unwrap();
    }
}

impl Driver {
    fn new(setup: Setup) -> Driver {
        let host = setup.host(Allocation::Pooling(setup.stores));
        let workspace = Some((setup.workspace, MountMode::Write));
        // More than the largest input takes: a limit that is met measures nothing. In milliseconds.
        let limits = [(Limit::Timeout, 600_000)].into();
        let with = Policy::builtin()
            .with_command_line(Overrides { workspace, limits, ..Default::default() })
            .unwrap();
        Driver {
            host,
            tasks: setup.tasks,
            loaded: Mutex::default(),
            with,
            without: Policy::builtin(),
        }
    }

    async fn invoke(&self, task: &str, io: Io) -> Result<Outcome, String> {
        let (name, task) = self.tasks.get_key_value(task).ok_or("no such task")?;
        let loaded = self.loaded(name, task)?;
        let target = task.script.clone().map_or(Target::Main, Target::Named);
        let invoked = self
            .host
            .invoke_loaded(&loaded, &target, &task.args, io)
            .await
            .map_err(|error| error.to_string())?;
        let outcome = invoked.finished.outcome;
        match outcome.status {
            Status::Exited { code: 0 } => Ok(outcome),
            other => Err(format!("{other:?}: {}", outcome.stderr.text())),
        }
    }

    /// Loads a skill as a service would: again only if its files have changed.
    fn loaded(&self, name: &str, task: &Task) -> Result<Arc<LoadedSkill>, String> {
        let loaded = self.loaded.lock().unwrap().get(name).cloned();
        if let Some(loaded) = loaded.filter(|loaded| loaded.is_current()) {
            return Ok(loaded);
        }
        let policy = if task.workspace { &self.with } else { &self.without };
        let loaded =
            Arc::new(self.host.load(&task.skill, policy).map_err(|error| error.to_string())?);
        self.loaded.lock().unwrap().insert(name.to_owned(), loaded.clone());
        Ok(loaded)
    }

    async fn each(&self, task: &str, count: usize) -> Result<Value, String> {
        // The peak begins anew (proc_pid_clear_refs(5)).
        std::fs::write("/proc/self/clear_refs", "5").map_err(|error| error.to_string())?;
        let (mut wall, mut cpu, mut stdout) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..count {
            let (used, start) = (cpu_time(), Instant::now());
            let outcome = self.invoke(task, Io::default()).await?;
            wall.push(nanoseconds(start));
            cpu.push(cpu_time() - used);
            stdout = outcome.stdout.text().into_owned();
        }
        Ok(
            json!({ "wall_ns": wall, "cpu_ns": cpu, "memory": memory("status", &["VmHWM"]), "stdout": stdout }),
        )
    }

    async fn burst(
        self: Arc<Self>,
        task: &str,
        count: usize,
        at_once: usize,
    ) -> Result<Value, String> {
        let start = Instant::now();
        let places = Arc::new(tokio::sync::Semaphore::new(at_once));
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..count {
            let place = places.clone().acquire_owned().await.unwrap();
            let (driver, task) = (self.clone(), task.to_owned());
            running.spawn(async move {
                let outcome = driver.invoke(&task, Io::default()).await;
                drop(place);
                outcome.map(drop)
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap()?;
        }
        Ok(json!({ "wall_ns": nanoseconds(start) }))
    }

    fn alive(
        self: Arc<Self>,
        runtime: &tokio::runtime::Runtime,
        task: &str,
        count: usize,
    ) -> Result<Value, String> {
        let own = || memory("smaps_rollup", &["Private_Clean", "Private_Dirty"]);
        let idle = own();
        let (input, end) = std::io::pipe().unwrap();
        let (mut first, mut last) = (0, 0);
        let mut running = Vec::new();
        for n in 0..count {
            let start = Instant::now();
            let (output, sink) = std::io::pipe().unwrap();
            let stdin = Stdin::Descriptor(input.try_clone().unwrap().into());
            let io = Io { stdin, stdout: Sink::Descriptor(sink.into()), ..Io::default() };
            let (driver, task) = (self.clone(), task.to_owned());
            running.push(runtime.spawn(async move { driver.invoke(&task, io).await.map(drop) }));
            let mut line = String::new();
            std::io::BufReader::new(output).read_line(&mut line).unwrap();
            if line.is_empty() {
                // It has ended and printed nothing.
                let ended = running.pop().map(|task| runtime.block_on(task).unwrap());
                drop(end);
                runtime.block_on(futures::future::join_all(running));
                return Err(format!("instance {} of {count}: {ended:?}", n + 1));
            }
            last = nanoseconds(start);
            first = if n == 0 { last } else { first };
        }
        let private = own();
        drop(end);
        for task in running {
            runtime.block_on(task).unwrap()?;
        }
        Ok(json!({ "idle": idle, "private": private, "first_ns": first, "last_ns": last }))
    }
}

impl Setup {
    fn host(&self, allocation: Allocation) -> Runner {
        host::host(&self.home, self.skillhost.clone(), vec![self.programs.clone()], allocation)
    }
}

/// The sum of some sizes in a file of this process in /proc, in bytes.
fn memory(file: &str, keys: &[&str]) -> u64 {
    let sizes = sizes(&std::fs::read_to_string(format!("/proc/self/{file}")).unwrap());
    keys.iter().map(|key| sizes[*key]).sum()
}

fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// A thousand guests hold several thousand descriptors.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
