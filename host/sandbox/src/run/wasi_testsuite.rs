//! Runs the WASI 0.3 components of wasi-testsuite, for `cargo xtask conformance wasi`.
//!
//! They expect that their only preopened folder is the one that the test names. A run also has
//! `/tmp` and `/`, so the folders of these runs are opened here. Everything else is as in any run.
#![expect(clippy::disallowed_methods, reason = "reads the suite, and the variables that name it")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use serde::Deserialize;

use super::scratch::Scratch;
use super::*;
use crate::engine::Allocation;
use crate::files::{OpenMount, Vfs};
use crate::http::{Resolver, Roots, Tls};
use crate::streams::{Sink, Stdin};
use skillhost_policy::capabilities::{MountMode, Scope};
use skillhost_policy::outcome::{Denial, Outcome};
use skillhost_policy::pattern::PathGlob;
use skillhost_skill::runtime::{Component, EntryPoint};

/// The description of a test, `NAME.json` next to `NAME.wasm`.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Config {
    operations: Vec<Operation>,
    // A test without operations has these.
    args: Vec<String>,
    env: BTreeMap<String, String>,
    root: Option<String>,
    exit_code: u8,
}

impl Default for Config {
    fn default() -> Config {
        let (operations, args, env) = (Vec::new(), Vec::new(), BTreeMap::new());
        Config { operations, args, env, root: None, exit_code: 0 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Operation {
    Run {
        #[serde(default)]
        args: Vec<String>,
        #[serde(default)]
        env: BTreeMap<String, String>,
        root: Option<String>,
    },
    Write {
        payload: String,
    },
    Read {
        id: String,
        payload: String,
    },
    Wait {
        #[serde(default)]
        exit_code: u8,
    },
    /// An operation on a socket or on an HTTP service.
    #[serde(other)]
    Other,
}

#[test]
#[ignore = "needs the suite: cargo xtask conformance wasi --suite DIR"]
fn components_of_the_suite_run() {
    let variable = |name: &str| PathBuf::from(std::env::var(name).unwrap());
    let suite = variable("WASI_TESTSUITE");
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(Options {
        compiler: variable("WASI_COMPILER"),
        cache: cache.path().to_owned(),
        allocation: Allocation::OnDemand,
        tls: Tls::new(Roots::default()).unwrap().into(),
        resolver: Resolver::System,
    });
    let mut results: BTreeMap<String, Option<String>> = BTreeMap::new();
    for entry in fs::read_dir(&suite).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            results.insert(name, test(&sandbox, &path).err());
        }
    }
    assert!(!results.is_empty(), "{} has no components", suite.display());
    fs::write(variable("WASI_RESULTS"), serde_json::to_string(&results).unwrap()).unwrap();
}

/// Performs the operations of one test. The error says which one failed.
fn test(sandbox: &Sandbox, component: &Path) -> Result<(), String> {
    let config: Config = match fs::read(component.with_extension("json")) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Err(_) => Config::default(),
    };
    let Config { mut operations, args, env, root, exit_code } = config;
    if operations.is_empty() {
        operations = vec![Operation::Run { args, env, root }, Operation::Wait { exit_code }];
    }
    let mut running = None;
    for operation in operations {
        match operation {
            Operation::Run { args, env, root } => {
                let root = root.map(|root| component.with_file_name(root));
                running = Some(Running::start(sandbox, component, args, env, root.as_deref()));
            }
            Operation::Write { payload } => {
                let stdin = running.as_mut().and_then(|running| running.stdin.as_mut());
                stdin.unwrap().write_all(payload.as_bytes()).map_err(|error| error.to_string())?;
            }
            Operation::Read { id, payload } => {
                let running: &mut Running = running.as_mut().unwrap();
                let stream = if id == "stdout" { &mut running.stdout } else { &mut running.stderr };
                let mut bytes = vec![0; payload.len()];
                let read = stream.read_exact(&mut bytes);
                if read.is_err() || bytes != payload.as_bytes() {
                    return Err(format!("{id} is not {payload:?}"));
                }
            }
            Operation::Wait { exit_code } => running.take().unwrap().wait(exit_code)?,
            Operation::Other => {
                return Err("it uses sockets, or is an HTTP service".into());
            }
        }
    }
    Ok(())
}

/// A component that runs, and the other ends of its streams.
struct Running {
    stdin: Option<PipeWriter>,
    stdout: PipeReader,
    stderr: PipeReader,
    ended: mpsc::Receiver<Outcome>,
}

impl Running {
    fn start(
        sandbox: &Sandbox,
        component: &Path,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        root: Option<&Path>,
    ) -> Running {
        let (input, stdin) = pipe().unwrap();
        let (stdout, output) = pipe().unwrap();
        let (stderr, errors) = pipe().unwrap();
        let program = Program {
            name: component.file_name().unwrap().to_str().unwrap().to_owned(),
            component: Component::new(fs::read(component).unwrap()),
            entry: EntryPoint::Command,
            args,
            script: None,
        };
        // The tests create and remove files.
        let folder = tempfile::tempdir().unwrap();
        let (workspace, scratch) = (folder.path().join("workspace"), folder.path().join("scratch"));
        fs::create_dir(&scratch).unwrap();
        let mounts = root.map(|root| {
            copy(root, &workspace);
            Mount::new("/workspace", workspace.canonicalize().unwrap(), MountMode::Write)
        });
        let all = || Scope {
            all_of: vec![vec![PathGlob::new("/workspace/**").unwrap()]],
            ..Scope::empty()
        };
        let capabilities = Capabilities {
            mounts: mounts.into_iter().collect(),
            read: all(),
            write: all(),
            env,
            ..Capabilities::default()
        };
        let io = Io {
            stdin: Stdin::Descriptor(input.into()),
            stdout: Sink::Descriptor(output.into()),
            stderr: Sink::Descriptor(errors.into()),
            ..Io::default()
        };
        let (sender, ended) = mpsc::channel();
        let sandbox = sandbox.clone();
        thread::spawn(move || {
            let spec = RunSpec {
                host_programs: Default::default(),
                program: &program,
                programs: None,
                capabilities: Arc::new(capabilities),
                skill: None,
                extra: ExtraMounts::default(),
                guarded: &GuardedPaths::default(),
                scratch: &scratch,
                evidence: false,
                recording: RecordingIo::default(),
                http_cache: None,
                io,
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let started = Instant::now();
            let ran = runtime.unwrap().block_on(run_within(&sandbox, spec, started, only_mounts));
            let finished = ran.unwrap_or_else(|status| FinishedRun::refused(status, started));
            sender.send(finished.outcome).unwrap();
            drop(folder);
        });
        Running { stdin: Some(stdin), stdout, stderr, ended }
    }

    /// Closes stdin, and waits for the end.
    fn wait(mut self, exit_code: u8) -> Result<(), String> {
        drop(self.stdin.take());
        let read = |mut stream: PipeReader| {
            let mut text = String::new();
            stream.read_to_string(&mut text).ok();
            text
        };
        // A component could fill one pipe while the other is read.
        let stderr = thread::spawn(move || read(self.stderr));
        read(self.stdout);
        let stderr = stderr.join().unwrap();
        match self.ended.recv().unwrap().status {
            Status::Exited { code } if code == exit_code => Ok(()),
            status => Err(format!("{status:?} {stderr}")),
        }
    }
}

/// Opens the folders of the capabilities and no others.
fn only_mounts(
    rules: FileRules,
    limits: &Limits,
    folders: Folders<'_>,
    sources: FileSources,
) -> Result<mounts::Mounts, Denial> {
    let Folders { guarded, scratch, .. } = folders;
    let open = |mount: &Mount| OpenMount::open(mount, guarded);
    let mounts = rules.mounts.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let FileSources { times, contents, .. } = sources;
    Ok(mounts::Mounts {
        files: Vfs::new(mounts, rules.paths, limits, guarded, times, contents),
        scratch: Arc::new(Scratch::new(scratch)?),
        memory: None,
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
