//! A host for the hostile guest, in a temporary folder, with files around it that the guest must
//! not reach.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use skillhost::invoke::{RunRequest, Runner, RunnerOptions, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{LimitHit, Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::files::GuardedPaths;
use skillhost_sandbox::http::{Resolver, Roots, Tls};
use skillhost_sandbox::{Allocation, Io, Options, Sink, Stdin};

/// The content of the files outside.
pub const SECRET: &str = "a secret that no guest may see";

/// A run that takes longer hangs. Generous even for a loaded machine, because benchmarks measure
/// speed.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(120);

/// A host, a skill, a workspace, and files outside of each of them.
pub struct Fixture {
    pub dir: tempfile::TempDir,
    pub host: Runner,
}

impl Fixture {
    /// Uses the hostile component as the skill's.
    pub fn new() -> Fixture {
        Fixture::with(&hostile(), Resolver::System)
    }

    /// Uses the hostile component, in a host with this memory allocation.
    pub fn allocating(allocation: Allocation) -> Fixture {
        Fixture::with_both(&hostile(), Resolver::System, allocation)
    }

    /// Uses another component, or the given host names.
    pub fn with(component: &[u8], resolver: Resolver) -> Fixture {
        Fixture::with_both(component, resolver, Allocation::OnDemand)
    }

    fn with_both(component: &[u8], resolver: Resolver, allocation: Allocation) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["skills/hostile/in", "workspace/in", "workspace/flip", "scratch", "home"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for parent in ["", "skills", "scratch"] {
            let outside = root.join(parent).join("outside");
            std::fs::create_dir_all(&outside).unwrap();
            std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
            std::fs::write(outside.join("only-outside"), "").unwrap();
        }
        std::fs::write(root.join("skills/hostile/SKILL.md"), MANIFEST).unwrap();
        std::fs::write(root.join("skills/hostile/hostile.wasm"), component).unwrap();
        let workspace = root.join("workspace");
        std::fs::write(workspace.join("own.txt"), "the user's own").unwrap();
        std::fs::write(root.join("outside/other-name.txt"), "has two names").unwrap();
        std::fs::hard_link(root.join("outside/other-name.txt"), workspace.join("linked.txt"))
            .unwrap();
        for (target, link) in [
            (root.join("outside/secret.txt"), "link-absolute"),
            ("../outside/secret.txt".into(), "link-relative"),
            ("link-relative".into(), "link-to-link"),
            ("../outside".into(), "link-dir"),
            ("/".into(), "link-root"),
            ("/proc/self".into(), "link-proc"),
            ("../..".into(), "in/link-up"),
        ] {
            symlink(target, workspace.join(link)).unwrap();
        }
        Fixture { host: Runner::new(options(root, resolver, allocation)), dir }
    }

    pub fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    /// Replaces the skill's component.
    pub fn replace_component(&self, component: &[u8]) {
        std::fs::write(self.path("skills/hostile/hostile.wasm"), component).unwrap();
    }

    /// Builds a run with these arguments.
    pub fn run(&self, args: &[&str]) -> Run<'_> {
        Run {
            fixture: self,
            host: self.host.clone(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            overrides: Overrides {
                workspace: Some((self.path("workspace"), MountMode::Write)),
                ..Overrides::default()
            },
            target: Target::Main,
            stdin: Stdin::Empty,
            stdout: Sink::Capture,
            symlinks: false,
        }
    }

    /// Returns a host that owns these folders, with its programs in `own/programs`.
    pub fn owning<'a>(&self, folders: impl IntoIterator<Item = &'a str>) -> Runner {
        let options = options(self.dir.path(), Resolver::System, Allocation::OnDemand);
        let own = folders.into_iter().map(|folder| self.path(folder)).collect();
        let programs = vec![self.path("own/programs")];
        Runner::new(RunnerOptions {
            programs,
            guarded: GuardedPaths { own, ..options.guarded },
            ..options
        })
    }

    /// Returns everything except the host's log and cache: what a guest must leave unchanged.
    pub fn snapshot(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for part in ["outside", "skills", "scratch", "workspace", "home", "own"] {
            if self.path(part).exists() {
                list(self.dir.path(), &self.path(part), &mut found);
            }
        }
        found
    }

    /// Asserts that the host still serves, in the same process and with the same engine.
    pub fn assert_alive(&self) {
        let (before, hostile) =
            (std::fs::read(self.path("skills/hostile/hostile.wasm")).unwrap(), hostile());
        if before != hostile {
            self.replace_component(&hostile);
        }
        let outcome = self.run(&["burn", "1000"]).go();
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "the next run: {outcome:?}");
        if before != hostile {
            self.replace_component(&before);
        }
    }

    /// Returns the records of the audit log, without those of starts.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default();
        crate::support::ends(&text)
    }
}

const MANIFEST: &str = "\
---
name: hostile
description: Attempts to get out of the sandbox, and to use it up. Use when testing a host.
metadata:
  component: hostile.wasm
---
";

/// The hostile component, as `cargo xtask components` builds it.
pub fn hostile() -> Vec<u8> {
    let path = Path::new(crate::ROOT).join("target/components/hostile.wasm");
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; build it: `cargo xtask components`", path.display())
    })
}

/// A host with the built-in programs, as `cargo xtask components` builds them.
pub fn shell_host(root: &Path) -> Runner {
    let programs = Path::new(crate::ROOT).join("target/components");
    assert!(
        programs.join("shell.json").is_file(),
        "{} has no shell; build it: `cargo xtask components`",
        programs.display()
    );
    for folder in ["scratch", "home"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    Runner::new(RunnerOptions {
        programs: vec![programs],
        ..options(root, Resolver::System, Allocation::OnDemand)
    })
}

fn options(root: &Path, resolver: Resolver, allocation: Allocation) -> RunnerOptions {
    RunnerOptions {
        sandbox: Options {
            compiler: crate::COMPILER.into(),
            // Shared by all tests, so that a component is compiled once.
            cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components"),
            allocation,
            tls: Tls::new(Roots::default()).unwrap().into(),
            resolver,
        },
        programs: Vec::new(),
        scratch: root.join("scratch"),
        guarded: GuardedPaths { home: Some(root.join("home")), ..GuardedPaths::default() },
        state: root.join("kept"),
        settings: None,
        audit: root.join("audit.jsonl"),
        verifier: None,
    }
}

/// A run to be configured.
pub struct Run<'a> {
    fixture: &'a Fixture,
    host: Runner,
    args: Vec<String>,
    overrides: Overrides,
    target: Target,
    stdin: Stdin,
    stdout: Sink,
    symlinks: bool,
}

impl Run<'_> {
    pub fn limit(mut self, limit: Limit, value: u64) -> Self {
        self.overrides.limits.push((limit, value));
        self
    }

    pub fn allow(mut self, entry: &str) -> Self {
        self.overrides.allow.push(entry.to_owned());
        self
    }

    pub fn deny(mut self, entry: &str) -> Self {
        self.overrides.deny.push(entry.to_owned());
        self
    }

    pub fn workspace(mut self, mode: MountMode) -> Self {
        self.overrides.workspace = Some((self.fixture.path("workspace"), mode));
        self
    }

    /// Lets guests create symlinks in the workspace.
    pub fn symlinks(mut self) -> Self {
        self.symlinks = true;
        self
    }

    /// Uses another host folder as the workspace.
    pub fn folder(mut self, host: &Path) -> Self {
        self.overrides.workspace = Some((host.to_owned(), MountMode::Write));
        self
    }

    /// Makes the run deterministic.
    pub fn deterministic(mut self, seed: u64) -> Self {
        self.overrides.determinism =
            DeterminismRule { on: Some(true), seed: Some(seed), start_time: None };
        self
    }

    /// Runs on another host.
    pub fn by(mut self, host: Runner) -> Self {
        self.host = host;
        self
    }

    /// Runs a script instead of the component.
    pub fn script(mut self, path: &str) -> Self {
        self.target = Target::Named(path.to_owned());
        self
    }

    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    pub fn stdout(mut self, stdout: impl Into<OwnedFd>) -> Self {
        self.stdout = Sink::Descriptor(stdout.into());
        self
    }

    /// Runs the guest on a thread; a timeout fails the test.
    pub fn go(self) -> Outcome {
        let mut policy = Policy::builtin()
            .with_command_line(self.overrides)
            .unwrap_or_else(|findings| panic!("{findings:?}"));
        policy.layers[0].symlinks = self.symlinks.then_some(true);
        let (host, skill, args, target) =
            (self.host, self.fixture.path("skills/hostile"), self.args, self.target);
        let (stdin, stdout) = (self.stdin, self.stdout);
        let (sender, receiver) = mpsc::channel();
        let shown = args.join(" ");
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let request = RunRequest {
                skill: (&skill).into(),
                policy: &policy,
                target,
                args,
                io: Io { stdin, stdout, ..Io::default() },
            };
            let outcome =
                runtime.block_on(host.invoke(request)).map(|invoked| invoked.finished.outcome);
            runtime.shutdown_background();
            // The receiver is gone if the test timed out.
            sender.send(outcome.unwrap_or_else(|error| panic!("{error}"))).ok();
        });
        receiver.recv_timeout(HANG_TIMEOUT).unwrap_or_else(|error| {
            panic!(
                "`hostile {}`: the host did not answer: {error}",
                shown.get(..80).unwrap_or(&shown)
            )
        })
    }

    /// Runs the guest, and expects this limit to end it in time.
    pub fn hits(self, limit: Limit) -> Outcome {
        let shown = self.args.join(" ");
        let started = Instant::now();
        let outcome = self.go();
        assert_hit(&outcome, limit, &shown);
        assert!(
            started.elapsed() < HANG_TIMEOUT,
            "`hostile {shown}` took {:?} to be stopped",
            started.elapsed()
        );
        outcome
    }

    /// Runs the guest, and expects it to exit with 0 without hitting a limit.
    pub fn succeeds(self) -> Outcome {
        let shown = self.args.join(" ");
        let outcome = self.go();
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "`hostile {shown}`: {outcome:?}");
        assert_eq!(outcome.limits_hit, [], "`hostile {shown}`");
        outcome
    }
}

/// Asserts that a limit ended a run, and is the first that the run hit.
pub fn assert_hit(outcome: &Outcome, limit: Limit, shown: &str) {
    match &outcome.status {
        Status::LimitHit(LimitHit { limit: hit, .. }) if *hit == limit => {}
        other => panic!(
            "`hostile {shown}` did not hit {limit}: {other:?}, {:?}, {}",
            outcome.limits_hit,
            outcome.stderr.text()
        ),
    }
    assert_eq!(outcome.limits_hit.first().map(|hit| hit.limit), Some(limit), "`hostile {shown}`");
}

/// Adds names, kinds, contents and times below a folder.
fn list(root: &Path, at: &Path, found: &mut BTreeMap<String, String>) {
    let meta = std::fs::symlink_metadata(at).unwrap();
    let name = at.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    if meta.is_dir() {
        found.insert(name, "folder".into());
        for entry in std::fs::read_dir(at).unwrap() {
            list(root, &entry.unwrap().path(), found);
        }
    } else if meta.is_symlink() {
        found.insert(name, format!("link to {}", std::fs::read_link(at).unwrap().display()));
    } else {
        let bytes = std::fs::read(at).unwrap();
        found.insert(
            name,
            format!("{} {:?}", skillhost_skill::runtime::digest(&bytes), meta.modified().unwrap()),
        );
    }
}
