//! Installs each artifact as its users do, in a place that has nothing else, and runs skills and a
//! server there, as a user without privileges.
//!
//! Each place is a file of `verify`: `root`, a minimal Debian in bubblewrap, for the archive, the
//! Debian and the RPM package; `environments` for the wheel and the npm packages; `container` for the image;
//! `emulated`, a processor of another architecture.

mod container;
mod emulated;
mod environments;
mod root;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use skillhost_toolchain::{Error, Progress};

use super::{read_json, write};
use crate::machine::Architecture;
use crate::{clients, install, print_line, workspace};

/// The user without privileges, if root verifies.
const USER: u32 = 65_534;

/// The goal for what the first run after an installation takes longer than the second: it computes
/// the digests of a runtime and its code.
const FIRST_RUN: Duration = Duration::from_millis(50);

/// How long a server without runs may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest archive, in bytes: docs/contribute/release.md has its parts.
const ARCHIVE_MAX: u64 = 66_000_000;

/// The files that the skills read.
const INPUTS: [(&str, &str); 3] = [
    ("people.csv", "name,age\nAda,36\nGrace,85\n"),
    ("notes.md", "The [people](people.csv).\n"),
    (
        "app.log",
        "2026-01-01T00:00:01Z ERROR cannot open data.db\n2026-01-01T00:00:02Z INFO started\n",
    ),
];

/// A Python, a JavaScript, a bash and a component skill, which the operator names by their paths:
/// arguments, and what the output contains.
const RUNS: [(&[&str], &str); 4] = [
    (&["run", "./csv-report", "csv_report.py", "--workspace", ".", "--", "people.csv"], "age"),
    (
        &["run", "./link-checker", "check_links.mjs", "--workspace", ".", "--", "notes.md"],
        "1 file, 1 link, 0 broken",
    ),
    (&["run", "./log-triage", "triage.sh", "--workspace", ".", "--", "app.log"], "data.db"),
    (&["run", "./calculator", "--", "5 km in miles"], "3.1068559612 miles"),
];

/// The artifacts, and a folder for the places.
struct Dist<'a> {
    out: &'a Path,
    folder: PathBuf,
}

/// Returns the command that runs an installed program with arguments, in the working folder.
type Run = Box<dyn Fn(&[&str]) -> Command>;

/// An installed program.
struct Installed {
    command: Run,
    /// The time that the installation took.
    time: Duration,
}

/// The times of an installation.
struct Times {
    install: Duration,
    /// The first and the second Python run.
    first: Duration,
    second: Duration,
}

type Install = fn(&Dist<'_>, &Progress) -> Result<Installed, Error>;

pub(super) fn run(repository: &Path, out: &Path, progress: &Progress) -> Result<(), Error> {
    let folder = repository.join("target/dist-verify");
    drop(fs::remove_dir_all(&folder));
    let dist = Dist { out, folder };
    dist.check_size()?;
    let ways: [(&str, Install); 6] = [
        ("archive, by install.sh", root::archive),
        ("Debian package", root::debian),
        ("RPM package", root::rpm),
        ("wheel", environments::wheel),
        ("npm packages", environments::npm),
        ("image", container::image),
    ];
    let mut lines =
        vec!["| from | installed in | first Python run | second |\n|---|--:|--:|--:|".to_owned()];
    for (name, install) in ways {
        let times = verify(&dist, name, install, &RUNS, progress)?;
        let millis = |time: Duration| format!("{} ms", time.as_millis());
        lines.push(format!(
            "| {name} | {:.1} s | {} | {} |",
            times.install.as_secs_f64(),
            millis(times.first),
            millis(times.second)
        ));
        let longer = times.first.saturating_sub(times.second);
        if longer > FIRST_RUN {
            print_line(format!(
                "{name}: the first run takes {} longer than the second; the goal is {}",
                millis(longer),
                millis(FIRST_RUN)
            ));
        }
    }
    if dist.artifact("tarball", Architecture::Aarch64).is_ok()
        && Architecture::OWN == Architecture::X86_64
    {
        verify(&dist, "archive for aarch64, emulated", emulated::archive, &RUNS[..3], progress)?;
    }
    progress.step("package the crates that are published", |step| {
        for folder in [repository.to_owned(), repository.join("guests")] {
            let mut cargo = workspace::cargo(&folder);
            cargo.args(["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]);
            step.run(&mut cargo)?;
        }
        Ok::<_, Error>(())
    })?;
    progress.step("check deploy/kubernetes", |_| check_kubernetes(repository, progress))?;
    print_line(lines.join("\n"));
    Ok(())
}

/// Validates the files for Kubernetes against the schemas of its API, and of KEDA's resources.
fn check_kubernetes(repository: &Path, progress: &Progress) -> Result<(), Error> {
    clients::python("kubernetes", progress)?;
    let mut validate = Command::new(clients::folder("kubernetes").join("bin/kubernetes-validate"));
    validate.arg("--strict");
    for file in ["skillhost.yaml", "fleet.yaml"] {
        validate.arg(repository.join("deploy/kubernetes").join(file));
    }
    output(&mut validate)?;
    clients::node("keda", progress)?;
    let mut validate = Command::new("node");
    validate.arg(repository.join("tests/clients/keda/validate.mjs"));
    validate.args([clients::folder("keda"), repository.join("deploy/kubernetes/keda.yaml")]);
    output(&mut validate).map(drop)
}

fn verify(
    dist: &Dist<'_>,
    name: &str,
    install: Install,
    runs: &[(&[&str], &str)],
    progress: &Progress,
) -> Result<Times, Error> {
    let installed = progress.step(&format!("install: {name}"), |_| install(dist, progress))?;
    progress.step(&format!("run skills and a server: {name}"), |_| {
        let mut python = Vec::new();
        for (args, expected) in runs.iter().chain(&runs[..1]) {
            let start = Instant::now();
            let output = output(&mut (installed.command)(args))?;
            if args[1] == "./csv-report" {
                python.push(start.elapsed());
            }
            if !String::from_utf8_lossy(&output.stdout).contains(expected) {
                let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
                return Err(Error::new(format!(
                    "{name}: {} printed no {expected:?}: {stdout}",
                    args.join(" ")
                )));
            }
        }
        serve(&installed)?;
        Ok(Times { install: installed.time, first: python[0], second: python[1] })
    })
}

/// Starts the server on a free port, and asks whether it is alive.
fn serve(installed: &Installed) -> Result<(), Error> {
    let mut serve = (installed.command)(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child =
        serve.stdout(Stdio::piped()).spawn().map_err(Error::context("skillhost serve"))?;
    let answer = child.stdout.take().map_or_else(
        || Err(Error::new("skillhost serve has no output")),
        |stdout| {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map_err(Error::context("serve"))?;
            ask(&line)
        },
    );
    let ended = end(&mut child);
    answer.and(ended)
}

/// Ends the server. The child may be a wrapper, such as node or runc, which passes SIGTERM on but cannot
/// pass on SIGKILL.
fn end(child: &mut Child) -> Result<(), Error> {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM)
        .map_err(Error::context("skillhost serve"))?;
    let start = Instant::now();
    while child.try_wait().map_err(Error::context("skillhost serve"))?.is_none() {
        if start.elapsed() > END_TIMEOUT {
            drop(child.kill());
            drop(child.wait());
            let limit = END_TIMEOUT.as_secs();
            return Err(Error::new(format!("skillhost serve still runs {limit} s after SIGTERM")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn ask(line: &str) -> Result<(), Error> {
    let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    let address =
        address.ok_or_else(|| Error::new(format!("serve printed no address: {line:?}")))?;
    let mut stream = TcpStream::connect(address).map_err(Error::context(address))?;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut answer))
        .map_err(Error::context(address))?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(()),
        false => Err(Error::new(format!("/healthz answered: {answer}"))),
    }
}

impl Dist<'_> {
    /// Returns the path of the artifact of a kind that fits an architecture.
    fn artifact(&self, kind: &str, architecture: Architecture) -> Result<PathBuf, Error> {
        let manifest = read_json(&self.out.join("manifest.json"))?;
        let listed = manifest["artifacts"].as_array().into_iter().flatten();
        let file = listed
            .filter(|artifact| artifact["kind"] == kind)
            .filter(|artifact| {
                [architecture.name(), "any"].iter().any(|fits| artifact["machine"] == *fits)
            })
            .find_map(|artifact| artifact["file"].as_str());
        file.map(|file| self.out.join(file))
            .ok_or_else(|| Error::new(format!("the manifest lists no {kind}")))
    }

    fn check_size(&self) -> Result<(), Error> {
        let archive = self.artifact("tarball", Architecture::OWN)?;
        let size = archive.metadata().map_err(Error::context(archive.display()))?.len();
        match size <= ARCHIVE_MAX {
            true => Ok(()),
            false => Err(Error::new(format!(
                "{} has {size} bytes, and may have {ARCHIVE_MAX}",
                archive.display()
            ))),
        }
    }

    /// Creates a folder with a home folder and with `files`, the current folder of the runs: the
    /// skills and their inputs. If root verifies, they belong to `owner`.
    fn work(&self, name: &str, owner: Option<u32>) -> Result<PathBuf, Error> {
        let work = self.folder.join(name).join("work");
        let files = work.join("files");
        for (file, text) in INPUTS {
            write(&files.join(file), text.as_bytes())?;
        }
        for skill in ["csv-report", "link-checker", "log-triage", "calculator"] {
            let stage = self.out.join("stage").join(Architecture::OWN.name());
            let from = stage.join("share/skillhost/skills").join(skill);
            install::copy_tree(&from, &files.join(skill), &[])?;
        }
        let home = work.join("home");
        fs::create_dir_all(&home).map_err(Error::context(home.display()))?;
        if is_root() {
            for path in [&work, &files, &home] {
                chown(path, owner, owner).map_err(Error::context(path.display()))?;
            }
        }
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700))
            .map_err(Error::context(home.display()))?;
        Ok(work)
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Runs a command to its end, and fails with what it printed.
fn output(command: &mut Command) -> Result<Output, Error> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(Error::context(command.get_program().display()))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::new(format!(
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )))
}
