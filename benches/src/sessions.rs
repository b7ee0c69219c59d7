//! `cargo xtask bench sessions`: creating a session and running a first command in it, forking one with
//! 1,000 files, and the memory of 1,000 idle ones.

mod report;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use skillhost_toolchain::{Error, Progress};
use tempfile::TempDir;

use crate::listening::Listening;
use crate::measure;
use crate::place::Place;
use crate::report::Header;
use crate::stats::Spread;
use report::{Forks, Idle};
pub(crate) use report::{Report, markdown};

/// The files of a session that is forked, and the idle sessions.
const MANY: usize = 1_000;
/// Forks of each kind.
const FORKS: usize = 30;
/// How long the server may take to start, and for an answer.
const TIMEOUT: Duration = Duration::from_secs(120);
/// A token of no server but this one, and its digest.
const TOKEN: &str = "a-token-of-the-benchmark";
const DIGEST: &str = "bf3a3a03adb69c31e73ce6599f6b97b105e2e227faa16d53720c382f3d79bd97";

/// Measures sessions of a server, with this many samples of the short cases.
pub(crate) fn run(
    place: &Place,
    rounds: usize,
    progress: &Progress,
    print: &dyn Fn(&str),
) -> Result<Report, Error> {
    let header = Header::new::<Report>(place, rounds, &[], print)?;
    let server =
        progress.step("start the server", |_| Server::start(&place.skillhost, &place.programs))?;
    let mut client = server.client()?;
    let first = progress.step("create, and run a first command", |_| {
        FIRST
            .map(|command| {
                // Compiles what it needs.
                first(&mut client, command)?;
                spread((0..rounds).map(|_| first(&mut client, command)))
            })
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
    })?;
    let forks = progress.step("fork", |_| {
        let text = |number: usize| format!("the text of file {number}\n").repeat(40);
        let files: Map<String, Value> = (0..MANY)
            .map(|number| {
                (format!("d{}/f{number}", number % 20), json!({ "content": text(number) }))
            })
            .collect();
        let session = client.create(&json!({ "skills": ["place"], "files": files }))?;
        let unchanged = spread(client.forks(&session)?.into_iter().map(Ok))?;
        client.run(&session, "for f in d*/*; do echo changed >> $f; done")?;
        let changed = spread(client.forks(&session)?.into_iter().map(Ok))?;
        client.end(&session)?;
        Ok::<_, Error>(Forks { unchanged, changed })
    })?;
    let idle = progress.step("idle sessions", |_| {
        let session = client.create(&small())?;
        client.run(&session, "true")?;
        client.end(&session)?;
        let before = measure::private(server.listening.pid());
        for _ in 0..MANY {
            client.create(&small())?;
        }
        let memory = measure::private(server.listening.pid()).saturating_sub(before);
        Ok::<_, Error>(Idle { memory, open_files: server.open_files()? })
    })?;
    Ok(Report { header, first, forks, idle })
}

/// The first commands, in the order of [`report::FIRST`].
const FIRST: [&str; 2] = ["true", "python3 -c 'print(1)'"];

fn first(client: &mut Client, command: &str) -> Result<Duration, Error> {
    let start = Instant::now();
    let session = client.create(&small())?;
    client.run(&session, command)?;
    let time = start.elapsed();
    client.end(&session)?;
    Ok(time)
}

fn small() -> Value {
    json!({ "skills": ["place"], "disk": 1 << 20 })
}

fn spread(times: impl Iterator<Item = Result<Duration, Error>>) -> Result<Spread, Error> {
    let nanoseconds =
        times.map(|time| time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    let times: Vec<u64> = nanoseconds.collect::<Result<_, _>>()?;
    Spread::of(times).ok_or_else(|| Error::new("nothing was measured"))
}

/// A running server, and its home folder.
struct Server {
    listening: Listening,
    _home: TempDir,
}

impl Server {
    fn start(program: &Path, programs: &Path) -> Result<Server, Error> {
        let home = tempfile::tempdir().map_err(Error::context("create a folder"))?;
        let write = |name: &str, text: String| {
            let path = home.path().join(name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(Error::context(parent.display()))?;
            }
            std::fs::write(&path, text).map_err(Error::context(path.display()))?;
            Ok::<_, Error>(path)
        };
        write(
            "skills/place/SKILL.md",
            "---\nname: place\ndescription: A place to work in. Use to measure.\nallowed-tools: Read Write Bash\n---\nUse the sandbox.\n".into(),
        )?;
        let folders = json!([home.path().join("skills")]);
        let policy = write(
            "policy.yaml",
            format!(
                "skill-folders: {folders}\ndefault: {{ allow: [Read, Write, Bash], approval: auto-approved }}\n"
            ),
        )?;
        let tenants = write(
            "tenants.yaml",
            format!(
                "tenants:\n  bench:\n    tokens: [{{ sha256: {DIGEST}, scopes: [admin] }}]\n    quotas: {{ sessions: 1100, session-disk: 64GiB, storage: 16GiB }}\n"
            ),
        )?;
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home.path()).env("SKILLHOST_PROGRAMS", programs);
        command.args(["serve", "--listen", "127.0.0.1:0", "--policy"]).arg(policy);
        command.arg("--tenants").arg(tenants).current_dir(home.path());
        let listening = Listening::start(&mut command)?;
        Ok(Server { listening, _home: home })
    }

    fn client(&self) -> Result<Client, Error> {
        let context = || Error::context("connect to the server");
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.listening.port)).map_err(context())?;
        stream.set_nodelay(true).map_err(context())?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(context())?;
        Ok(Client { stream: BufReader::new(stream), port: self.listening.port })
    }

    fn open_files(&self) -> Result<usize, Error> {
        let path = format!("/proc/{}/fd", self.listening.pid());
        Ok(std::fs::read_dir(&path).map_err(Error::context(&path))?.count())
    }
}

/// A client with one connection.
struct Client {
    stream: BufReader<TcpStream>,
    port: u16,
}

impl Client {
    fn create(&mut self, request: &Value) -> Result<String, Error> {
        self.id("/v1/sessions", request)
    }

    fn id(&mut self, path: &str, request: &Value) -> Result<String, Error> {
        let answer = self.ask("POST", path, request)?;
        let id = answer["id"].as_str().ok_or_else(|| Error::new(format!("{path}: {answer}")))?;
        Ok(id.to_owned())
    }

    /// Runs a command of the shell, which has to succeed.
    fn run(&mut self, session: &str, command: &str) -> Result<(), Error> {
        let request = json!({ "target": { "command": command }, "wait": 60 });
        let answer = self.ask("POST", &format!("/v1/sessions/{session}/programs"), &request)?;
        match answer["run"]["status"] == "succeeded" {
            true => Ok(()),
            false => Err(Error::new(format!("`{command}` failed: {answer}"))),
        }
    }

    /// Forks a session many times, and ends each fork.
    fn forks(&mut self, session: &str) -> Result<Vec<Duration>, Error> {
        let path = format!("/v1/sessions/{session}/fork");
        let mut times = Vec::new();
        for _ in 0..FORKS {
            let start = Instant::now();
            let fork = self.id(&path, &Value::Null)?;
            times.push(start.elapsed());
            self.end(&fork)?;
        }
        Ok(times)
    }

    fn end(&mut self, session: &str) -> Result<(), Error> {
        self.ask("DELETE", &format!("/v1/sessions/{session}"), &Value::Null).map(drop)
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value, Error> {
        let context = || Error::context("talk to the server");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).map_err(context())?;
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            self.stream.read_line(&mut line).map_err(context())?;
            if line.trim_end().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(context())?;
        let answer: Value = serde_json::from_slice(&answer).map_err(Error::context(path))?;
        match answer["code"].is_string() {
            true => Err(Error::new(format!("{path}: {answer}"))),
            false => Ok(answer),
        }
    }
}

#[cfg(test)]
pub(crate) use report::tests;
