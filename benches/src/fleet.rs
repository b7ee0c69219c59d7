//! A fleet on this machine, next to one server: the time from a submission to the result of a run of
//! 20 ms, the throughput, what a second worker adds, and what each process uses for a run.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use skillhost_toolchain::Error;
use tempfile::TempDir;

/// Runs of each round that measures times, one after the other.
const RUNS: usize = 40;
/// Runs of each measurement of throughput.
const MANY: usize = 400;
/// Clients that submit them.
const CLIENTS: usize = 16;
const TOKEN: &str = "a-token-of-the-benchmark";

/// Measures a program with a broker. `programs`: the folder of runtimes.
///
/// # Errors
/// A process does not start, or a request fails.
pub fn fleet(program: &Path, broker: &Path, programs: &Path, rounds: u32) -> Result<String, Error> {
    let place = Place::new(program, broker, programs)?;
    let _broker = place.broker()?;
    let local = place.server(&[])?;
    let server =
        place.server(&["--nats", &place.url(), "--nats-identity", &place.file("fleet/api")])?;
    let whole = place.worker("whole", &[])?;
    let (mut alone, mut queued) = (Vec::new(), Vec::new());
    let (mut alone_many, mut queued_many) = (Vec::new(), Vec::new());
    // The first runs compile.
    local.run("nap")?;
    server.run("nap")?;
    for _ in 0..rounds {
        for _ in 0..RUNS {
            alone.push(local.run("nap")?);
            queued.push(server.run("nap")?);
        }
        alone_many.push(local.many("nap")?);
        queued_many.push(server.many("nap")?);
    }
    let (mut hello_alone, mut hello_queued) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        hello_alone.push(local.run("hello")?);
        hello_queued.push(server.run("hello")?);
    }
    let before = [place.cpu(&_broker), place.cpu(&server.child), place.cpu(&whole)];
    let stored = bytes(&place.root.path().join("fleet/broker"));
    server.many("nap")?;
    let after = [place.cpu(&_broker), place.cpu(&server.child), place.cpu(&whole)];
    let stored = bytes(&place.root.path().join("fleet/broker")).saturating_sub(stored);
    drop(whole);
    let one = place.worker("one", &["--slots", "1"])?;
    server.run("nap")?;
    let of_one: Vec<f64> = (0..rounds).map(|_| server.many("nap")).collect::<Result<_, _>>()?;
    let two = place.worker("two", &["--slots", "1"])?;
    server.run("nap")?;
    let of_two: Vec<f64> = (0..rounds).map(|_| server.many("nap")).collect::<Result<_, _>>()?;
    drop((one, two));
    let (alone, queued) = (median(alone), median(queued));
    let (alone_many, queued_many) = (median(alone_many), median(queued_many));
    let (of_one, of_two) = (median(of_one), median(of_two));
    let mut text = format!(
        "run of 20 ms, p50: {:.1} ms on one server, {:.1} ms in a fleet: {:.1} ms more (goal: at most 5)\n",
        alone * 1e3,
        queued * 1e3,
        (queued - alone) * 1e3
    );
    text += &format!(
        "throughput of {CLIENTS} clients: {alone_many:.1} runs/s on one server, {queued_many:.1} in a fleet: {:.2} (goal: at least 0.8)\n",
        queued_many / alone_many
    );
    text += &format!(
        "hello, p50: {:.1} ms on one server, {:.1} ms in a fleet\n",
        median(hello_alone) * 1e3,
        median(hello_queued) * 1e3
    );
    text += &format!(
        "workers of one slot: {of_one:.1} runs/s by one, {of_two:.1} by two: {:.2} times (goal: at least 1.6)\n",
        of_two / of_one
    );
    for (at, name) in ["broker", "API server", "worker"].into_iter().enumerate() {
        let used = (after[at] - before[at]) / MANY as f64;
        text += &format!("{name}: {:.2} ms of processor time for a run\n", used * 1e3);
    }
    text += &format!("stored by the broker: {} bytes for a run", stored / MANY as u64);
    Ok(text)
}

/// A folder with skills, a policy and a fleet.
struct Place {
    root: TempDir,
    program: PathBuf,
    programs: PathBuf,
    broker: PathBuf,
    port: u16,
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

impl Place {
    fn new(program: &Path, broker: &Path, programs: &Path) -> Result<Place, Error> {
        let root = tempfile::tempdir().map_err(Error::context("create a folder"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
        let port = port.map_err(Error::context("find a free port"))?.port();
        for (name, command) in [("nap", "sleep 0.02"), ("hello", "echo hello")] {
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
        let write = |name: &str, text: &str| {
            std::fs::write(root.path().join(name), text).map_err(Error::context(name))
        };
        write("policy.yaml", policy)?;
        write("token", TOKEN)?;
        let place = Place {
            program: program.to_owned(),
            programs: programs.to_owned(),
            broker: broker.to_owned(),
            root,
            port,
        };
        let mut init = place.command("fleet");
        init.args(["init", &place.file("fleet"), "--port", &port.to_string()]);
        init.args(["--worker", "whole", "--worker", "one", "--worker", "two"]);
        let done = init.stdout(Stdio::null()).status().map_err(Error::context("fleet init"))?;
        if !done.success() {
            return Err(Error::new("skillhost fleet init failed"));
        }
        Ok(place)
    }

    fn file(&self, name: &str) -> String {
        self.root.path().join(name).display().to_string()
    }

    fn url(&self) -> String {
        format!("tls://127.0.0.1:{}", self.port)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(verb).env_clear().env("HOME", self.root.path()).stdin(Stdio::null());
        command.stderr(Stdio::null());
        command
    }

    fn broker(&self) -> Result<Process, Error> {
        let mut command = Command::new(&self.broker);
        command.args(["-c", &self.file("fleet/broker/nats-server-1.conf")]);
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
        let (child, line) = started(command.arg(&self.programs).args(more))?;
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
        command.arg(&self.programs);
        if more.is_empty() {
            command.args(["--slots", "64"]);
        }
        Ok(started(command.args(more))?.0)
    }

    /// Returns the processor time of a process, in seconds.
    fn cpu(&self, process: &Process) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", process.0.id()));
        let text = text.unwrap_or_default();
        let fields: Vec<&str> =
            text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| -> f64 {
            fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0.0)
        };
        // utime and stime, in ticks of 10 ms.
        (ticks(11) + ticks(12)) / 100.0
    }
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
    fn run(&self, skill: &str) -> Result<f64, Error> {
        let started = Instant::now();
        let body = format!("{{\"skill\":\"{skill}\"}}");
        let accepted = self.request("POST", "/v1/runs", &body)?;
        let id = accepted["id"].as_str().ok_or_else(|| Error::new(accepted.to_string()))?;
        let ended = self.request("GET", &format!("/v1/runs/{id}/wait"), "")?;
        match ended["status"].as_str() {
            Some("succeeded") => Ok(started.elapsed().as_secs_f64()),
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

    fn request(&self, method: &str, path: &str, body: &str) -> Result<serde_json::Value, Error> {
        let mut stream =
            TcpStream::connect(&self.address).map_err(Error::context(&self.address))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
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
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
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
