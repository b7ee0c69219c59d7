//! The rules that only deterministic runs follow.

use std::io::Read as _;
use std::time::Instant;

use skillhost::invoke::{RunRequest, Target};
use skillhost_policy::capabilities::MountMode;
use skillhost_policy::determinism::DeterminismRule;
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_policy::{Overrides, Policy};
use skillhost_sandbox::Io;
use skillhost_sandbox::http::Resolver;

use crate::cli::{guest, repository};
use crate::hostile_host::{Fixture, HANG_TIMEOUT};

fn stdout_of(outcome: &Outcome) -> String {
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    outcome.stdout.text().into_owned()
}

fn assert_aborted(outcome: &Outcome, words: &str) {
    match &outcome.status {
        Status::Aborted { reason } => assert!(reason.contains(words), "{reason}"),
        other => panic!("not aborted: {other:?}"),
    }
}

#[test]
fn only_the_seed_decides_what_is_random() {
    let fixture = Fixture::new();
    let random = |seed| stdout_of(&fixture.run(&["randomness"]).deterministic(seed).succeeds());
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    let live = || stdout_of(&fixture.run(&["randomness"]).succeeds());
    assert_ne!(live(), live());
}

/// In other runs, the processor chooses the bits of a NaN.
#[test]
fn every_nan_is_canonical() {
    let fixture = Fixture::new();
    let stdout = stdout_of(&fixture.run(&["floats"]).deterministic(0).succeeds());
    let (nan, narrow) = ("7ff8000000000000", "7fc00000");
    assert!(stdout.contains(nan) && stdout.contains(narrow), "{stdout}");
    let others = ["fff8", "dead", "ffc", "7fc1"];
    assert!(others.iter().all(|bits| !stdout.contains(bits)), "{stdout}");
}

#[test]
fn tool_calls_have_the_same_result() {
    let fixture = Fixture::with(guest("echo"), Resolver::System);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let call = || {
        let target = Target::Tool { name: "echo".into(), input: r#"{"text": "hi"}"#.into() };
        let (skill, policy) = (fixture.path("skills/hostile"), policy(&fixture));
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target,
            args: Vec::new(),
            io: Io::default(),
        };
        let outcome = runtime.block_on(fixture.host.invoke(request)).unwrap().finished.outcome;
        (outcome.status, outcome.result, outcome.error, outcome.usage.fuel)
    };
    let once = call();
    assert!(
        once.0 == Status::Exited { code: 0 } && once.3.is_some_and(|fuel| fuel > 0),
        "{once:?}"
    );
    assert_eq!(once, call());
}

/// A component of a few instructions uses the same fuel on every machine and in every build.
#[test]
fn small_components_use_a_known_amount_of_fuel() {
    for (name, fuel) in [("sleep", 4), ("hello", 58)] {
        let fixture = Fixture::with(guest(name), Resolver::System);
        let outcome = fixture.run(&[]).deterministic(0).succeeds();
        assert_eq!(outcome.usage.fuel, Some(fuel), "{name}");
    }
}

#[test]
fn sleeping_for_days_takes_no_time() {
    let fixture = Fixture::new();
    let started = Instant::now();
    for day in 1..=3 {
        assert!(
            stdout_of(&fixture.run(&["nap", "86400000"]).deterministic(day).succeeds())
                .contains("slept")
        );
    }
    assert!(started.elapsed() < HANG_TIMEOUT);
}

#[test]
fn fuel_always_ends_at_the_same_instruction() {
    let fixture = Fixture::new();
    for fuel in [100_000, 1_000_001, 5_000_000] {
        let run = || {
            fixture
                .run(&["lines", "1000000", "0"])
                .limit(Limit::Fuel, fuel)
                .deterministic(0)
                .hits(Limit::Fuel)
        };
        let (one, two) = (run(), run());
        assert_eq!((one.usage.fuel, two.usage.fuel), (Some(fuel), Some(fuel)));
        assert!(one.stdout == two.stdout && one.usage.memory_peak == two.usage.memory_peak);
    }
}

#[test]
fn timeout_and_full_stack_abort_the_run() {
    let fixture = Fixture::new();
    for verb in [&["spin"][..], &["start", "1", "spin"]] {
        let outcome = fixture
            .run(verb)
            .limit(Limit::Timeout, 300)
            .limit(Limit::Fuel, u64::MAX >> 1)
            .deterministic(0)
            .go();
        assert_aborted(&outcome, "the limit `timeout` of 300ms was hit");
    }
    assert_aborted(&fixture.run(&["recurse", "10000000"]).deterministic(0).go(), "stack is full");
    // A limit that does not depend on the host is a result.
    fixture
        .run(&["alloc", "100"])
        .limit(Limit::Memory, 50 << 20)
        .deterministic(0)
        .hits(Limit::Memory);
    fixture.run(&["print", "1000"]).limit(Limit::Stdout, 999).deterministic(0).hits(Limit::Stdout);
    fixture.assert_alive();
}

/// Errors of the host are not results. Here, the host can open too few files.
#[test]
fn failure_of_the_host_aborts_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("open-many");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: open-many\ndescription: Opens files. Use to test.\n---\n",
    )
    .unwrap();
    std::fs::write(
        skill.join("scripts/open.py"),
        "print(len([open('/skill/SKILL.md') for _ in range(200)]))\n",
    )
    .unwrap();
    let run = |mode: &str, files: &str| {
        let line = format!("ulimit -n {files} && exec \"$0\" run \"$1\" {mode} --audit \"$2\"");
        let mut command = std::process::Command::new("bash");
        command
            .args(["-c", &line, env!("CARGO_BIN_EXE_skillhost")])
            .arg(&skill)
            .arg(folder.path().join("audit.jsonl"));
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.env("SKILLHOST_PROGRAMS", repository("target/components")).output().unwrap()
    };
    let enough = run("--deterministic", "1000");
    assert_eq!(enough.status.code(), Some(0), "{enough:?}");
    let (live, short) = (run("", "100"), run("--deterministic", "100"));
    assert_eq!(
        live.status.code(),
        Some(1),
        "without determinism, the guest gets the error: {live:?}"
    );
    assert_eq!(short.status.code(), Some(75), "{short:?}");
    assert!(
        String::from_utf8_lossy(&short.stderr).contains("a file operation failed on the host"),
        "{short:?}"
    );
}

#[test]
fn failed_compilation_aborts_the_run() {
    let fixture =
        Fixture::with(&crate::handwritten_components::long_function(60_002), Resolver::System);
    assert_aborted(
        &fixture.run(&[]).limit(Limit::Compile, 1_000).deterministic(0).go(),
        "the limit `compile` of 1s",
    );
}

#[test]
fn deterministic_runs_have_no_network() {
    let fixture = Fixture::new();
    for version in ["0.3", "0.2"] {
        let allow = "WebFetch(http://127.0.0.1:9)";
        let outcome = fixture
            .run(&["fetch", "http://127.0.0.1:9/", "1", version])
            .allow(allow)
            .deterministic(0)
            .go();
        assert!(
            outcome.denials.iter().any(|denial| denial.rule.contains("have no network access")),
            "{outcome:?}"
        );
        assert_eq!(outcome.usage.http_sent, 0);
    }
}

#[test]
fn reader_of_the_output_does_not_change_the_result() {
    let fixture = Fixture::new();
    let run = || fixture.run(&["lines", "20000", "0"]).deterministic(0);
    let captured = run().succeeds();
    // No reader.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = run().stdout(writer).succeeds();
    // A slow reader, which gets all of it.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let slow = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let mut text = Vec::new();
        reader.read_to_end(&mut text).map(|_| text)
    });
    let late = run().stdout(writer).succeeds();
    assert_eq!(slow.join().unwrap().unwrap(), captured.stdout.0);
    assert_eq!((captured.usage.fuel, captured.usage.fuel), (unread.usage.fuel, late.usage.fuel));
    assert_eq!(unread.usage.stdout_bytes, captured.usage.stdout_bytes);
    // A reader that never reads cannot block the host.
    let (reader, writer) = std::io::pipe().unwrap();
    assert_aborted(&run().stdout(writer).limit(Limit::Timeout, 2_000).go(), "`timeout`");
    drop(reader);
}

fn policy(fixture: &Fixture) -> Policy {
    let workspace = Some((fixture.path("workspace"), MountMode::Overlay));
    let determinism = DeterminismRule { on: Some(true), ..DeterminismRule::default() };
    Policy::builtin()
        .with_command_line(Overrides { workspace, determinism, ..Overrides::default() })
        .unwrap()
}

#[test]
fn parallel_runs_do_not_influence_each_other() {
    let fixture = Fixture::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let invoke = async |verb: &[&str]| {
        let args = verb.iter().map(|word| (*word).to_owned()).collect();
        let (skill, policy) = (fixture.path("skills/hostile"), policy(&fixture));
        let request = RunRequest {
            skill: (&skill).into(),
            policy: &policy,
            target: Target::Main,
            args,
            io: Io::default(),
        };
        let outcome = fixture.host.invoke(request).await.unwrap().finished.outcome;
        (
            outcome.status.clone(),
            outcome.stdout.clone(),
            outcome.usage.fuel,
            outcome.usage.memory_peak,
        )
    };
    for verb in [
        &["waits"][..],
        &["talk", "4"],
        &["start", "3", "clocks"],
        &["file-metadata", "/workspace"],
    ] {
        let alone = runtime.block_on(invoke(verb));
        assert_eq!(alone.0, Status::Exited { code: 0 }, "{verb:?}");
        for together in runtime.block_on(futures::future::join_all((0..8).map(|_| invoke(verb)))) {
            assert_eq!(alone, together, "{verb:?}");
        }
    }
}

#[test]
fn cancelled_or_interrupted_run_ends() {
    let fixture = Fixture::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (skill, policy) = (fixture.path("skills/hostile"), policy(&fixture));
    let request = |io| {
        let args = ["start", "1", "spin"].map(str::to_owned).into();
        RunRequest { skill: (&skill).into(), policy: &policy, target: Target::Main, args, io }
    };
    runtime.block_on(async {
        let cancelled = tokio::time::timeout(
            std::time::Duration::from_millis(300),
            fixture.host.invoke(request(Io::default())),
        )
        .await;
        assert!(cancelled.is_err());
        let interrupt: futures::future::BoxFuture<'static, ()> =
            Box::pin(tokio::time::sleep(std::time::Duration::from_millis(300)));
        let invoked = fixture
            .host
            .invoke(request(Io { interrupt: Some(interrupt), ..Io::default() }))
            .await
            .unwrap();
        assert_eq!(invoked.finished.outcome.status, Status::Interrupted);
    });
    let started = Instant::now();
    while threads_named("deterministic") > 0 {
        assert!(started.elapsed() < HANG_TIMEOUT, "a run has not ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Counts the threads of this process. The runs of other tests have such threads too, but they end.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    tasks
        .filter(|task| {
            std::fs::read_to_string(task.path().join("comm"))
                .is_ok_and(|comm| name.starts_with(comm.trim()))
        })
        .count()
}
