//! The warm tier of `cargo xtask bench isolation`: one host process that invokes skills on request.
//!
//! Its argument is a JSON file (`Setup`). Each line of stdin is a request, which it answers with
//! one line of JSON:
//!
//! | request | effect | response |
//! |---|---|---|
//! | `each TASK N` | N invocations in sequence | `wall_ns` and `cpu_ns` of each, `memory` at the peak, `stdout` of the last |
//! | `burst TASK N C` | N invocations, at most C of them concurrently | total `wall_ns` |
//! | `alive TASK N` | N concurrent invocations, each of which prints a line and then waits for input | `idle` and `private` bytes, `first_ns` and `last_ns` |
//!
//! With `once TASK` after the file, it invokes a skill once, as `skillhost run` does, and prints
//! the time of each phase.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark panics if it cannot run"
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

/// The setup for all requests.
#[derive(serde::Deserialize)]
struct Setup {
    /// The binary that compiles components.
    skillhost: PathBuf,
    programs: PathBuf,
    /// The folder of the cache, the audit log and the scratch folders.
    home: PathBuf,
    workspace: PathBuf,
    /// The maximal number of concurrent guests.
    stores: u32,
    tasks: BTreeMap<String, Task>,
}

/// A task that requests name.
#[derive(serde::Deserialize)]
struct Task {
    skill: PathBuf,
    /// The script to run, or `None` for the component.
    script: Option<String>,
    args: Vec<String>,
    /// Whether the skill gets the workspace.
    workspace: bool,
}

struct Driver {
    host: Runner,
    tasks: BTreeMap<String, Task>,
    loaded: Mutex<BTreeMap<String, Arc<LoadedSkill>>>,
    with_workspace: Policy,
    without_workspace: Policy,
}

fn main() {
    let Some(setup) = std::env::args().nth(1) else {
        println!("run `cargo xtask bench isolation`, which starts this program");
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
        let response = match words[..] {
            ["each", task, n] => one.block_on(driver.each(task, n.parse().unwrap())),
            ["burst", task, n, c] => {
                many.block_on(driver.clone().burst(task, n.parse().unwrap(), c.parse().unwrap()))
            }
            ["alive", task, n] => driver.clone().alive(&many, task, n.parse().unwrap()),
            _ => panic!("unknown request: {line}"),
        };
        let response = response.unwrap_or_else(|error| json!({ "error": error }));
        println!("{response}");
        std::io::stdout().flush().unwrap();
    }
}

impl Driver {
    fn new(setup: Setup) -> Driver {
        let host = setup.host(Allocation::Pooling(setup.stores));
        let workspace = Some((setup.workspace, MountMode::Write));
        // In milliseconds: more than the largest input needs, because a run that hits the limit
        // yields no figure.
        let limits = [(Limit::Timeout, 600_000)].into();
        let with_workspace = Policy::builtin()
            .with_command_line(Overrides { workspace, limits, ..Default::default() })
            .unwrap();
        Driver {
            host,
            tasks: setup.tasks,
            loaded: Mutex::default(),
            with_workspace,
            without_workspace: Policy::builtin(),
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

    /// Loads a skill like a service does: again only if its files have changed.
    fn loaded(&self, name: &str, task: &Task) -> Result<Arc<LoadedSkill>, String> {
        let loaded = self.loaded.lock().unwrap().get(name).cloned();
        if let Some(loaded) = loaded.filter(|loaded| loaded.is_current()) {
            return Ok(loaded);
        }
        let policy = if task.workspace { &self.with_workspace } else { &self.without_workspace };
        let loaded =
            Arc::new(self.host.load(&task.skill, policy).map_err(|error| error.to_string())?);
        self.loaded.lock().unwrap().insert(name.to_owned(), loaded.clone());
        Ok(loaded)
    }

    async fn each(&self, task: &str, count: usize) -> Result<Value, String> {
        // Resets the peak (proc_pid_clear_refs(5)).
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
        concurrency: usize,
    ) -> Result<Value, String> {
        let start = Instant::now();
        let slots = Arc::new(tokio::sync::Semaphore::new(concurrency));
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..count {
            let slot = slots.clone().acquire_owned().await.unwrap();
            let (driver, task) = (self.clone(), task.to_owned());
            running.spawn(async move {
                let outcome = driver.invoke(&task, Io::default()).await;
                drop(slot);
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
                // The guest ended without printing its line.
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

/// Returns the sum of the sizes with these keys in a /proc file of this process, in bytes.
fn memory(file: &str, keys: &[&str]) -> u64 {
    let sizes = sizes(&std::fs::read_to_string(format!("/proc/self/{file}")).unwrap());
    keys.iter().map(|key| sizes[*key]).sum()
}

fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Raises the limit, because a thousand guests have several thousand descriptors.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
