//! An isolated environment for the README's commands: a copy of the skills, a home folder, a web
//! server, and `skillhost` on the path.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skillhost_toolchain::{Progress, Source, find};

use crate::cli::repository;

/// The port of the README's server; the test's own server uses another one.
const PORT: &str = "localhost:8000";
/// The address of `skillhost serve`; each page's server has a port of its own.
const SERVE: &str = "127.0.0.1:8765";
/// The port of a broker; each page's broker has one of its own.
const BROKER: &str = "4222";

pub struct Place {
    // Dropping it removes the folder.
    _folder: tempfile::TempDir,
    work: PathBuf,
    variables: Vec<(&'static str, String)>,
    server: String,
    serve: String,
    broker: String,
}

impl Drop for Place {
    /// Ends the servers of a page whose commands failed before they ended them.
    fn drop(&mut self) {
        for name in ["server", "one", "two", "broker"] {
            let pid = fs::read_to_string(self.work.join(format!("{name}.pid")));
            let pid = pid.unwrap_or_default().trim().parse().ok();
            if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }
}

impl Place {
    /// Copies the skills that `page` names as `skills/NAME`, or all of them if it names the folder
    /// itself.
    pub fn new(page: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let work = home.join("work");
        fs::create_dir_all(&work).unwrap();
        for entry in fs::read_dir(repository("skills")).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let named =
                page.contains(&format!("skills/{name}")) || page.contains("--skills skills");
            if !named || !entry.path().is_dir() {
                continue;
            }
            if entry.path().join("Cargo.toml").is_file() {
                let component = entry.path().join(format!("{name}.wasm"));
                assert!(component.is_file(), "run `cargo xtask components` first");
            }
            copy(&entry.path(), &work.join("skills").join(name));
        }
        // Files that the documents fetch.
        fs::write(work.join("tea.html"), "<h1>Tea</h1> <p>Three minutes, no milk.").unwrap();
        let server = serve(work.clone());
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let broker = free().port().to_string();
        let free = free();
        let mut variables = variables(&home);
        variables.push(("SKILLHOST_SERVER", format!("http://{free}")));
        Place { variables, _folder: folder, work, server, serve: free.to_string(), broker }
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.work.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Runs a command as a reader would type it. Returns both streams, as a terminal shows them,
    /// and whether it exited with 0.
    pub fn run(&self, command: &str) -> (String, bool) {
        // A command that waits for a server which does not start fails too.
        let mut shell = Command::new("timeout");
        shell
            .args(["300", "sh", "-c"])
            .arg(format!(
                "exec 2>&1\n{}",
                command
                    .replace(PORT, &self.server)
                    .replace(SERVE, &self.serve)
                    .replace(BROKER, &self.broker)
            ))
            .current_dir(&self.work)
            .stdin(Stdio::null());
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "SKILLHOST_POLICY"] {
            shell.env_remove(name);
        }
        let output =
            shell.envs(self.variables.iter().map(|(name, value)| (name, value))).output().unwrap();
        (
            String::from_utf8(output.stdout)
                .unwrap()
                .replace(&self.server, PORT)
                .replace(&self.serve, SERVE)
                .replace(self.work.parent().unwrap().to_str().unwrap(), "/home/ada"),
            output.status.success(),
        )
    }
}

fn variables(home: &Path) -> Vec<(&'static str, String)> {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let variable = |name: &str, otherwise: &str| {
        env::var(name).unwrap_or_else(|_| {
            text(&Path::new(&env::var("HOME").unwrap_or_default()).join(otherwise))
        })
    };
    let program = Path::new(env!("CARGO_BIN_EXE_skillhost")).parent().unwrap();
    let mut variables = vec![
        ("HOME", text(home)),
        ("PATH", path(program)),
        ("CARGO_HOME", variable("CARGO_HOME", ".cargo")),
        ("RUSTUP_HOME", variable("RUSTUP_HOME", ".rustup")),
        // Replaces the terminal, which the commands of a test do not have.
        ("SKILLHOST_OPERATOR_TOKEN", operator_token(home)),
        ("XDG_CACHE_HOME", text(&cache(home))),
    ];
    // If a component toolchain had to be built, the commands use the one in target/toolchain.
    let toolchain =
        find(&repository("").join("target/toolchain"), Source::Any, &Progress::silent()).unwrap();
    variables.extend(toolchain.rustc.map(|rustc| ("RUSTC", text(&rustc))));
    variables
}

/// The search path: the program, and the broker that `cargo xtask servers` fetches.
fn path(program: &Path) -> String {
    let broker = repository("").join("target/tools/nats-server/usr/sbin");
    let own = env::var("PATH").unwrap_or_default();
    format!("{}:{}:{own}", program.display(), broker.display())
}

/// Creates a cache with a catalogue of its own, because all skills in a catalogue count in the ranks
/// of a search. What is compiled is kept between runs, like in an author's cache.
fn cache(home: &Path) -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost");
    let own = home.join(".cache/skillhost");
    fs::create_dir_all(&own).unwrap();
    for name in ["components", "sdk", "target"] {
        fs::create_dir_all(shared.join(name)).unwrap();
        symlink(shared.join(name), own.join(name)).unwrap();
    }
    symlink(shared.join("target.lock"), own.join("target.lock")).unwrap();
    home.join(".cache")
}

/// Creates the operator token of this home folder.
fn operator_token(home: &Path) -> String {
    let state = home.join(".local/state/skillhost");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&state).unwrap();
    let token = "0".repeat(32);
    let mut new = fs::OpenOptions::new();
    let mut file =
        new.write(true).create_new(true).mode(0o600).open(state.join("operator.token")).unwrap();
    file.write_all(token.as_bytes()).unwrap();
    token
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Serves the files of a folder on loopback, like `python3 -m http.server`. Returns
/// `localhost:PORT`.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client may disconnect early.
            let _ = stream.and_then(|stream| answer(&folder, stream));
        }
    });
    format!("localhost:{port}")
}

fn answer(folder: &Path, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = BufReader::new(stream.try_clone()?)
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty());
    let name = head.next().and_then(|line| {
        line.split(' ').nth(1).map(|path| path.trim_start_matches('/').to_owned())
    });
    head.for_each(drop);
    let (status, body) = match name.map(|name| fs::read(folder.join(name))) {
        Some(Ok(body)) => ("200 OK", body),
        _ => ("404 Not Found", Vec::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}
