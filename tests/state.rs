//! The state of skills: only where it is granted, separate for each skill, within its quota, one
//! run at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use skillhost::invoke::{RunRequest, Runner, Target};
use skillhost_ledger::state::StateStore;
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;

use crate::cli::{User, text};
use crate::hostile_host::{HANG_TIMEOUT, shell_host};

struct Place {
    dir: tempfile::TempDir,
    host: Runner,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { host: shell_host(dir.path()), dir };
        place.skill("a/keeper", "one");
        place
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.dir.path().join(rel)
    }

    fn skill(&self, folder: &str, text: &str) {
        std::fs::create_dir_all(self.path(folder)).unwrap();
        let manifest =
            format!("---\nname: keeper\ndescription: Keeps things. Use to test.\n---\n{text}\n");
        std::fs::write(self.path(folder).join("SKILL.md"), manifest).unwrap();
    }

    fn states(&self) -> StateStore {
        StateStore::new(self.path("kept"))
    }

    /// Runs a shell command of a skill with a state of this size.
    fn run(&self, folder: &str, state: u64, command: &str) -> Outcome {
        self.with(
            folder,
            Overrides { limits: vec![(Limit::State, state)], ..Overrides::default() },
            command,
        )
    }

    fn with(&self, folder: &str, overrides: Overrides, command: &str) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            tokio::time::timeout(
                HANG_TIMEOUT,
                invoke(&self.host, &self.path(folder), overrides, command),
            )
            .await
        });
        runtime.shutdown_background();
        outcome.unwrap()
    }

    fn prints(&self, folder: &str, state: u64, command: &str) -> String {
        let outcome = self.run(folder, state, command);
        assert_eq!(outcome.status, Status::Exited { code: 0 }, "{command}: {outcome:?}");
        outcome.stdout.text().trim().to_owned()
    }
}

async fn invoke(host: &Runner, skill: &Path, overrides: Overrides, command: &str) -> Outcome {
    let policy = Policy::builtin().with_command_line(overrides).unwrap();
    let request = RunRequest {
        skill: skill.into(),
        policy: &policy,
        target: Target::Shell(command.to_owned()),
        args: Vec::new(),
        io: Io::default(),
    };
    host.invoke(request).await.unwrap().finished.outcome
}

const KIB: u64 = 1 << 10;

#[test]
fn state_persists_only_where_it_is_granted() {
    let place = Place::new();
    assert_eq!(
        place.prints("a/keeper", 0, "[ -e /state ] || echo none; ls / | grep -c state || true"),
        "none\n0"
    );
    for attempt in ["echo x > /state/x", "python3 -c 'open(\"/state/x\")'"] {
        let outcome = place.run("a/keeper", 0, attempt);
        assert!(matches!(outcome.status, Status::Exited { code: 1.. }), "{attempt}: {outcome:?}");
        let [denial] = &outcome.denials[..] else { panic!("{attempt}: {outcome:?}") };
        let fix = denial.fix.as_deref().unwrap();
        assert!(
            denial.rule.contains("limit `state`") && fix.contains("state: 16MiB"),
            "{denial:?}"
        );
    }
    assert_eq!(place.states().list().unwrap(), [], "ungranted state is not created");
    place.prints("a/keeper", 16 * KIB, "mkdir /state/sub; echo kept > /state/sub/x");
    assert_eq!(
        place
            .prints("a/keeper", 16 * KIB, "cat /state/sub/x; ls /; ls /state")
            .split_whitespace()
            .filter(|word| *word == "state")
            .count(),
        1
    );
    let outcome = place.run("a/keeper", 16 * KIB, "cat /state/sub/x");
    assert_eq!((outcome.stdout.text().as_ref(), outcome.files["/state/sub/x"].read), ("kept\n", 5));
    // Without a grant, the state is invisible again.
    assert!(matches!(
        place.run("a/keeper", 0, "cat /state/sub/x").status,
        Status::Exited { code: 1.. }
    ));
    let about = std::fs::metadata(place.path("kept")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777, 0o700);
}

#[test]
fn asking_for_state_alone_grants_nothing() {
    let place = Place::new();
    let manifest = "---\nname: keeper\ndescription: Asks. Use to test.\nallowed-tools: Read(/state/**) Write(/state/**) Bash\n---\n";
    std::fs::write(place.path("a/keeper/SKILL.md"), manifest).unwrap();
    assert_eq!(place.prints("a/keeper", 0, "[ -e /state ] || echo none"), "none");
    std::fs::write(place.path("a/keeper/SKILL.md"), "---\nname: [keeper\n---\n").unwrap();
    let outcome = place.run("a/keeper", 16 * KIB, "[ -e /state ] || echo none");
    assert!(matches!(outcome.status, Status::Invalid { .. }), "{outcome:?}");
    assert_eq!(place.states().list().unwrap(), []);
}

#[test]
fn a_skill_elsewhere_has_its_own_state() {
    let place = Place::new();
    place.skill("b/keeper", "one");
    place.prints("a/keeper", KIB, "echo of a > /state/x");
    assert_eq!(
        place.prints("b/keeper", KIB, "cat /state/x 2> /dev/null || echo nothing"),
        "nothing"
    );
    place.prints("b/keeper", KIB, "echo of b > /state/x");
    // The same folder by another path, and after a change: the same state.
    std::os::unix::fs::symlink(place.path("a"), place.path("link")).unwrap();
    place.skill("a/keeper", "changed");
    assert_eq!(place.prints("link/keeper", KIB, "cat /state/x"), "of a");
    // Another name in the same place: another skill.
    std::fs::rename(place.path("a/keeper"), place.path("a/other")).unwrap();
    assert_eq!(
        place.prints("a/other", KIB, "cat /state/x 2> /dev/null || echo nothing"),
        "nothing"
    );
    let stored = place.states().list().unwrap();
    let owners: Vec<_> = stored.iter().map(|one| (one.owner.skill.as_str(), one.files)).collect();
    assert_eq!(owners, [("keeper", 1), ("keeper", 1), ("other", 0)]);
}

#[test]
fn the_state_quota_covers_all_runs() {
    let place = Place::new();
    let fill = |n: u64, name: &str| {
        place.run("a/keeper", 10_000, &format!("head -c {n} /dev/zero > /state/{name}"))
    };
    assert_eq!(fill(6_000, "a").status, Status::Exited { code: 0 });
    assert_eq!(fill(4_000, "b").status, Status::Exited { code: 0 });
    let full = fill(1, "c");
    assert!(
        full.limits_hit.iter().any(|hit| (hit.limit, hit.value) == (Limit::State, 10_000)),
        "{full:?}"
    );
    assert!(!matches!(full.status, Status::Exited { code: 0 }), "{full:?}");
    // Removing, truncating or overwriting makes room.
    assert_eq!(
        place.prints(
            "a/keeper",
            10_000,
            "rm /state/b; head -c 3000 /dev/zero > /state/a; head -c 7000 /dev/zero > /state/d; wc -c < /state/d"
        ),
        "7000"
    );
    // With a lower quota, the state stays and can shrink.
    assert!(!matches!(
        place.run("a/keeper", 5_000, "echo more > /state/e").status,
        Status::Exited { code: 0 }
    ));
    assert_eq!(
        place.prints("a/keeper", 5_000, "rm /state/d; echo more > /state/e; cat /state/e"),
        "more"
    );
    // The quota is separate from the limit on other writes.
    let limits = vec![(Limit::State, 10_000), (Limit::Disk, 100)];
    let outcome = place.with(
        "a/keeper",
        Overrides { limits, ..Overrides::default() },
        "head -c 2000 /dev/zero > /state/f; head -c 100 /dev/zero > /tmp/x",
    );
    assert_eq!((outcome.status, outcome.limits_hit), (Status::Exited { code: 0 }, vec![]));
}

#[test]
fn runs_of_one_skill_take_turns_with_state() {
    let place = Place::new();
    place.skill("b/keeper", "one");
    let command =
        "n=$(cat /state/n 2> /dev/null || echo 0); sleep 0.02; echo $((n + 1)) > /state/n";
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut runs = tokio::task::JoinSet::new();
        for n in 0..16 {
            let (host, skill) = (place.host.clone(), place.path(["a/keeper", "b/keeper"][n % 2]));
            let overrides = Overrides {
                limits: vec![(Limit::State, KIB), (Limit::Timeout, 110_000)],
                ..Overrides::default()
            };
            runs.spawn(async move { invoke(&host, &skill, overrides, command).await.status });
        }
        while let Some(status) = tokio::time::timeout(HANG_TIMEOUT, runs.join_next()).await.unwrap()
        {
            assert_eq!(status.unwrap(), Status::Exited { code: 0 });
        }
    });
    for folder in ["a/keeper", "b/keeper"] {
        assert_eq!(place.prints(folder, KIB, "cat /state/n"), "8");
    }
}

#[test]
fn waiting_for_state_is_limited_and_interruptible() {
    let place = Place::new();
    let guard = place.states().take("keeper", &place.path("a/keeper")).unwrap().unwrap();
    let limits = vec![(Limit::State, KIB), (Limit::Timeout, 200)];
    let outcome = place.with("a/keeper", Overrides { limits, ..Overrides::default() }, "true");
    let Status::Failed { message, fix: Some(_) } = outcome.status else { panic!("{outcome:?}") };
    assert!(message.contains("another run"), "{message}");
    let policy = Policy::builtin()
        .with_command_line(Overrides { limits: vec![(Limit::State, KIB)], ..Overrides::default() })
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let status = runtime.block_on(async {
        let io = Io {
            interrupt: Some(Box::pin(tokio::time::sleep(Duration::from_millis(30)))),
            ..Io::default()
        };
        let skill = place.path("a/keeper");
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target: Target::Shell("true".into()),
            args: vec![],
            io,
        };
        tokio::time::timeout(HANG_TIMEOUT, place.host.invoke(request))
            .await
            .unwrap()
            .unwrap()
            .finished
            .outcome
            .status
    });
    assert_eq!(status, Status::Interrupted);
    drop(guard);
    assert_eq!(place.run("a/keeper", KIB, "true").status, Status::Exited { code: 0 });
}

#[test]
fn no_granted_folder_reaches_state() {
    let place = Place::new();
    place.prints("a/keeper", KIB, "echo secret > /state/x");
    let workspace = Some((place.dir.path().canonicalize().unwrap(), MountMode::Write));
    let outcome = place.with(
        "a/keeper",
        Overrides { workspace, ..Overrides::default() },
        "ls /workspace; find /workspace -name x; cat /workspace/kept/*/files/x",
    );
    let shown = outcome.stdout.text();
    assert!(
        shown.contains("scratch") && !shown.contains("kept") && !shown.contains("secret"),
        "{shown}"
    );
}

#[test]
fn guests_make_no_links_in_state_and_cannot_leave_it() {
    let place = Place::new();
    let outcome = place.run(
        "a/keeper",
        KIB,
        "ln -s /skill/SKILL.md /state/l; ln /state/x /state/y; cat /state/../owner.json /state/../../owner.json; ls -a /state",
    );
    assert!(
        !outcome.stdout.text().contains("folder\":") && !outcome.stdout.text().contains('l'),
        "{:?}",
        outcome.stdout.text()
    );
}

#[test]
fn state_is_input_of_a_deterministic_run() {
    let runs: Vec<Outcome> = (0..2)
        .map(|_| {
            let place = Place::new();
            place.prints("a/keeper", KIB, "echo 41 > /state/n");
            let determinism = DeterminismRule { on: Some(true), ..DeterminismRule::default() };
            let overrides = Overrides {
                limits: vec![(Limit::State, KIB)],
                determinism,
                ..Overrides::default()
            };
            let outcome = place.with(
                "a/keeper",
                overrides,
                "n=$(cat /state/n); echo $((n + 1)) > /state/n; ls -l /state; cat /state/n",
            );
            assert_eq!(place.prints("a/keeper", KIB, "cat /state/n"), "42");
            outcome
        })
        .collect();
    assert_eq!(runs[0].status, Status::Exited { code: 0 });
    assert_eq!((&runs[0].stdout, runs[0].usage.fuel), (&runs[1].stdout, runs[1].usage.fuel));
}

#[test]
fn state_is_listed_exported_and_wiped() {
    let user = User::new();
    let policy = "default: { allow: [Read, Write, Bash] }\nlimits: { state: 1MiB }\n";
    std::fs::write(user.work().join("p.yaml"), policy).unwrap();
    for folder in ["py", "elsewhere/py"] {
        let folder = user.work().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(
            folder.join("SKILL.md"),
            "---\nname: py\ndescription: Keeps. Use to test.\n---\n",
        )
        .unwrap();
    }
    let run = |skill: &str, command: &str| {
        let mut run = user.command(env!("CARGO_BIN_EXE_skillhost"));
        run.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")))
            .env("SKILLHOST_POLICY", user.work().join("p.yaml"));
        run.args(["run", skill, "--command", command]).output().unwrap()
    };
    let state = |args: &[&str]| {
        let run = user.skillhost(&[&["state"], args].concat());
        (run.status.code().unwrap(), text(&run.stdout), text(&run.stderr))
    };
    assert_eq!(state(&["list"]), (0, "no skill has state\n".into(), String::new()));
    let first = run("./py", "mkdir /state/d; echo kept > /state/d/x");
    assert!(first.status.success(), "{first:?}");
    assert!(
        state(&["list"]).1.contains("py") && state(&["list"]).1.contains("5 B"),
        "{}",
        state(&["list"]).1
    );
    assert_eq!(state(&["export", "py", "out", "--json"]).0, 0);
    assert_eq!(std::fs::read_to_string(user.work().join("out/d/x")).unwrap(), "kept\n");
    assert_eq!(state(&["export", "py", "out"]).0, 74, "the target exists");
    assert!(run("elsewhere/py", "echo other > /state/x").status.success());
    let (code, _, why) = state(&["wipe", "py"]);
    assert!(code == 64 && why.contains("several skills are named `py`"), "{why}");
    let listed: serde_json::Value = serde_json::from_str(&state(&["list", "--json"]).1).unwrap();
    let key = listed[0]["key"].as_str().unwrap().to_owned();
    let guard = StateStore::new(user.home().join(".local/share/skillhost/state"));
    let stored = listed.as_array().unwrap().iter().find(|one| one["key"] == key.as_str()).unwrap();
    let guard = guard.take("py", Path::new(stored["folder"].as_str().unwrap())).unwrap().unwrap();
    assert_eq!(state(&["wipe", &key]).0, 74, "a run holds it");
    drop(guard);
    assert_eq!(state(&["wipe", &key]).0, 0);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&state(&["list", "--json"]).1)
            .unwrap()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(state(&["wipe", "nobody"]).0, 64);

    // A receipt mentions the state, and cannot be verified by a replay.
    let receipt = |args: &[&str]| {
        let mut run = user.command(env!("CARGO_BIN_EXE_skillhost"));
        run.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")))
            .env("SKILLHOST_POLICY", user.work().join("p.yaml"));
        run.args(args).output().unwrap()
    };
    run("./py", "echo 1 > /state/n");
    let recorded = receipt(&[
        "run",
        "./py",
        "--deterministic",
        "--receipt",
        "r.json",
        "--command",
        "cat /state/n; echo 2 > /state/n",
    ]);
    assert!(recorded.status.success(), "{recorded:?}");
    let receipt_text = std::fs::read_to_string(user.work().join("r.json")).unwrap();
    assert!(receipt_text.contains("\"/state/n\""), "{receipt_text}");
    let verified = receipt(&["verify", "r.json", "--skill", "./py", "--unsigned"]);
    assert_eq!(verified.status.code(), Some(83), "{verified:?}");
    assert_eq!(text(&run("./py", "cat /state/n").stdout), "2\n", "nothing ran");
}
