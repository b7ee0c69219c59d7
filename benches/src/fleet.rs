//! `cargo xtask bench fleet`: a fleet on this machine, next to one server. The time from a submission to
//! the result of a run of 20 ms, the throughput, what a second worker adds, and what each process uses
//! for a run.

mod report;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use skillhost_toolchain::{Error, Progress};
use tempfile::TempDir;

use crate::place::Place;
use crate::report::Header;
use crate::stats::Spread;
use report::{Pair, Throughput, Use};
pub(crate) use report::{Report, markdown};

/// Runs of each round that measures times, one after the other.
const RUNS: usize = 40;
/// Runs of each measurement of throughput.
const MANY: usize = 400;
/// Clients that submit them.
const CLIENTS: usize = 16;
/// A command that computes for about 20 ms.
const WORK: &str = "for ((i = 0; i < 5000; i++)); do :; done";
const TOKEN: &str = "a-token-of-the-benchmark";

/// Measures a fleet on this machine, with this broker, in this many rounds.
pub(crate) fn run(
    place: &Place,
    broker: &Path,
    rounds: usize,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let header = Header::new::<Report>(place, rounds, &[], print)?;
    let fleet = Fleet::new(place, broker)?;
    let broker = fleet.broker()?;
    let local = fleet.server(&[])?;
    let server =
        fleet.server(&["--nats", &fleet.url(), "--nats-identity", &fleet.file("fleet/api")])?;
    let whole = fleet.worker("whole", &["--slots", "64"])?;
    // The first runs compile.
    local.run("nap")?;
    server.run("nap")?;
    let [nap, work, hello] = progress.step("runs one after the other", |_| {
        let pair = |skill| one_by_one(&local, &server, skill, rounds * RUNS);
        Ok::<_, Error>([pair("nap")?, pair("work")?, pair("hello")?])
    })?;
    let [throughput, naps] = progress.step("runs by many clients", |_| {
        Ok::<_, Error>([
            by_many(&local, &server, "work", rounds)?,
            by_many(&local, &server, "nap", rounds)?,
        ])
    })?;
    drop((local, whole));
    let (one_worker, use_of_run) = progress.step("one worker of one slot", |_| {
        let one = fleet.worker("one", &["--slots", "1"])?;
        server.run("nap")?;
        let before = fleet.used(&broker, &server, &one)?;
        let rates = (0..rounds).map(|_| server.many("nap"));
        let rates: Vec<f64> = rates.collect::<Result<_, _>>()?;
        let after = fleet.used(&broker, &server, &one)?;
        Ok::<_, Error>((median(rates), Use::of_run(&before, &after, rounds * MANY)))
    })?;
    let two_workers = progress.step("two workers of one slot", |_| {
        let _one = fleet.worker("one", &["--slots", "1"])?;
        let _two = fleet.worker("two", &["--slots", "1"])?;
        server.run("nap")?;
        let rates = (0..rounds).map(|_| server.many("nap"));
        Ok::<_, Error>(median(rates.collect::<Result<_, _>>()?))
    })?;
    let report =
        Report { header, nap, work, hello, throughput, naps, one_worker, two_workers, use_of_run };
    Ok(report)
}

/// Runs a skill on one server and in the fleet, in turn.
fn one_by_one(local: &Server, server: &Server, skill: &str, runs: usize) -> Result<Pair, Error> {
    let (mut alone, mut queued) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        alone.push(local.run(skill)?);
        queued.push(server.run(skill)?);
    }
    let spread = |times: Vec<Duration>| {
        let times = times.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        Spread::of(times).ok_or_else(|| Error::new("no runs were measured"))
    };
    Ok(Pair { local: spread(alone)?, fleet: spread(queued)? })
}

/// Measures how many runs of several clients one server and the fleet execute, in turn.
fn by_many(
    local: &Server,
    server: &Server,
    skill: &str,
    rounds: usize,
) -> Result<Throughput, Error> {
    let (mut alone, mut queued) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        alone.push(local.many(skill)?);
        queued.push(server.many(skill)?);
    }
    Ok(Throughput { local: median(alone), fleet: median(queued) })
}

/// A folder with skills, a policy and a fleet, and the programs.
struct Fleet<'a> {
    root: TempDir,
    place: &'a Place,
    broker: &'a Path,
    port: u16,
    /// Where the broker tells what it did.
    monitor: u16,
}

/// A process that ends with this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

struct Server {
    child: Process,
    address: String,
}

impl Fleet<'_> {
    fn new<'a>(place: &'a Place, broker: &'a Path) -> Result<Fleet<'a>, Error> {
        let root = tempfile::tempdir().map_err(Error::context("create a folder"))?;
        let (port, monitor) = (free_port()?, free_port()?);
        for (name, command) in [("nap", "sleep 0.02"), ("work", WORK), ("hello", "echo hello")] {
            let folder = root.path().join("skills").join(name);
            let write = || -> std::io::Result<()> {
                std::fs::create_dir_all(folder.join("scripts"))?;
                let text = format!(
                    "---\nname: {name}\ndescription: Measured.\nallowed-tools: Bash\n---\nRun it.\n"
                );
                std::fs::write(folder.join("SKILL.md"), text)?;
                std::fs::write(folder.join("scripts/go.sh"), format!("#!/bin/bash\n{command}\n"))
            };
            write().map_err(Error::context("write a skill"))?;
        }
        let policy = "default: { allow: [Bash] }\nskill-folders: [skills]\n";
        let folder = root.path().to_owned();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).map_err(Error::context(name))
        };
        write("policy.yaml", policy)?;
        write("token", TOKEN)?;
        let fleet = Fleet { root, place, broker, port, monitor };
        let mut init = fleet.command("fleet");
        init.args(["init", &fleet.file("fleet"), "--port", &port.to_string()]);
        init.args(["--worker", "whole", "--worker", "one", "--worker", "two"]);
        let done = init.stdout(Stdio::null()).status().map_err(Error::context("fleet init"))?;
        if !done.success() {
            return Err(Error::new("skillhost fleet init failed"));
        }
        let monitored = format!("include \"nats-server-1.conf\"\nhttp: \"127.0.0.1:{monitor}\"\n");
        write("fleet/broker/monitored.conf", &monitored)?;
        Ok(fleet)
    }

    fn file(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    fn url(&self) -> String {
        format!("tls://127.0.0.1:{}", self.port)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.place.skillhost);
        command.arg(verb).env_clear().env("HOME", self.root.path()).stdin(Stdio::null());
        command.stderr(Stdio::null());
        command
    }

    fn broker(&self) -> Result<Process, Error> {
        let mut command = Command::new(self.broker);
        command.args(["-c", &self.file("fleet/broker/monitored.conf")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let broker = Process(command.spawn().map_err(Error::context(self.broker.display()))?);
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            if started.elapsed() > Duration::from_secs(20) {
                return Err(Error::new("the broker does not start"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(broker)
    }

    fn server(&self, more: &[&str]) -> Result<Server, Error> {
        let mut command = self.command("serve");
        command.args(["--listen", "127.0.0.1:0", "--token-file", &self.file("token")]);
        command.args(["--policy", &self.file("policy.yaml")]).arg("--programs");
        let (child, line) = started(command.arg(&self.place.programs).args(more))?;
        let address = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/mcp"));
        let address = address.ok_or_else(|| Error::new("the server does not start"))?.to_owned();
        Ok(Server { child, address })
    }

    fn worker(&self, name: &str, more: &[&str]) -> Result<Process, Error> {
        let mut command = self.command("worker");
        command.args([
            "--nats",
            &self.url(),
            "--nats-identity",
            &self.file(&format!("fleet/{name}")),
        ]);
        command.args(["--policy", &self.file("policy.yaml")]).arg("--programs");
        Ok(started(command.arg(&self.place.programs).args(more))?.0)
    }

    /// Returns what the processes of a fleet with one worker have used so far.
    fn used(&self, broker: &Process, server: &Server, worker: &Process) -> Result<Use, Error> {
        let counts = request(&format!("127.0.0.1:{}", self.monitor), "GET", "/varz", "")?;
        let count = |name: &str| counts[name].as_f64().unwrap_or(f64::NAN);
        Ok(Use {
            broker: processor_time(broker),
            server: processor_time(&server.child),
            worker: processor_time(worker),
            messages: count("in_msgs") + count("out_msgs"),
            bytes: count("in_bytes") + count("out_bytes"),
            stored: bytes(&self.root.path().join("fleet/broker")) as f64,
        })
    }
}

/// Returns the processor time of a process, in nanoseconds.
fn processor_time(process: &Process) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.0.id()));
    let text = text.unwrap_or_default();
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| -> f64 {
        fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(f64::NAN)
    };
    // utime and stime, in ticks of 10 ms.
    (ticks(11) + ticks(12)) * 1e7
}

/// Starts a process, and returns its first line.
fn started(command: &mut Command) -> Result<(Process, String), Error> {
    let child =
        command.stdout(Stdio::piped()).spawn().map_err(Error::context("start skillhost"))?;
    let mut process = Process(child);
    let mut line = String::new();
    if let Some(stdout) = process.0.stdout.take() {
        BufReader::new(stdout).read_line(&mut line).map_err(Error::context("read its output"))?;
    }
    Ok((process, line.trim().to_owned()))
}

impl Server {
    /// Submits a run and waits for its result. Returns the time.
    fn run(&self, skill: &str) -> Result<Duration, Error> {
        let started = Instant::now();
        let body = format!("{{\"skill\":\"{skill}\"}}");
        let accepted = request(&self.address, "POST", "/v1/runs", &body)?;
        let id = accepted["id"].as_str().ok_or_else(|| Error::new(accepted.to_string()))?;
        let ended = request(&self.address, "GET", &format!("/v1/runs/{id}/wait"), "")?;
        match ended["status"].as_str() {
            Some("succeeded") => Ok(started.elapsed()),
            _ => Err(Error::new(ended.to_string())),
        }
    }

    /// Returns the runs in a second by several clients.
    fn many(&self, skill: &str) -> Result<f64, Error> {
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| {
                        while next.fetch_add(1, Ordering::Relaxed) < MANY {
                            self.run(skill)?;
                        }
                        Ok::<_, Error>(())
                    })
                })
                .collect();
            for client in clients {
                client.join().map_err(|_| Error::new("a client panicked"))??;
            }
            Ok::<_, Error>(())
        })?;
        Ok(MANY as f64 / started.elapsed().as_secs_f64())
    }
}

fn request(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Result<serde_json::Value, Error> {
    let mut stream = TcpStream::connect(address).map_err(Error::context(address))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(Error::context(path))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).map_err(Error::context(answer))
}

fn free_port() -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    Ok(bound.map_err(Error::context("find a free port"))?.port())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The bytes of all files below a folder.
fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
pub(crate) use report::tests;
