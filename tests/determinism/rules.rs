//! What deterministic runs do otherwise than others.

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

fn said(outcome: &Outcome) -> String {
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
    let chance = |seed| said(&fixture.run(&["randomness"]).deterministic(seed).succeeds());
    assert_eq!(chance(1), chance(1));
    assert_ne!(chance(1), chance(2));
    let live = || said(&fixture.run(&["randomness"]).succeeds());
    assert_ne!(live(), live());
}

/// The bits of a NaN are the processor's choice elsewhere.
#[test]
fn every_nan_is_canonical() {
    let fixture = Fixture::new();
    let said = said(&fixture.run(&["floats"]).deterministic(0).succeeds());
    let (nan, narrow) = ("7ff8000000000000", "7fc00000");
    assert!(said.contains(nan) && said.contains(narrow), "{said}");
    let others = ["fff8", "dead", "ffc", "7fc1"];
    assert!(others.iter().all(|bits| !said.contains(bits)), "{said}");
}

#[test]
fn a_tool_answers_the_same() {
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

/// On every machine, by every build: a component of a few instructions, whose fuel is written down
/// here.
#[test]
fn the_fuel_of_a_small_component_is_known() {
    for (name, fuel) in [("sleep", 4), ("hello", 58)] {
        let fixture = Fixture::with(guest(name), Resolver::System);
        let outcome = fixture.run(&[]).deterministic(0).succeeds();
        assert_eq!(outcome.usage.fuel, Some(fuel), "{name}");
    }
}

#[test]
fn an_hour_takes_no_time() {
    let fixture = Fixture::new();
    let started = Instant::now();
    for day in 1..=3 {
        assert!(
            said(&fixture.run(&["nap", "86400000"]).deterministic(day).succeeds())
                .contains("slept")
        );
    }
    assert!(started.elapsed() < HANG_TIMEOUT);
}

#[test]
fn fuel_is_the_verdict_and_falls_at_the_same_instruction() {
    let fixture = Fixture::new();
    for fuel in [100_000, 1_000_001, 5_000_000] {
        let go = || {
            fixture
                .run(&["lines", "1000000", "0"])
                .limit(Limit::Fuel, fuel)
                .deterministic(0)
                .hits(Limit::Fuel)
        };
        let (one, two) = (go(), go());
        assert_eq!((one.usage.fuel, two.usage.fuel), (Some(fuel), Some(fuel)));
        assert!(one.stdout == two.stdout && one.usage.memory_peak == two.usage.memory_peak);
    }
}

#[test]
fn time_and_the_stack_only_abort() {
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
    // A limit of the guest's own is a result.
    fixture
        .run(&["alloc", "100"])
        .limit(Limit::Memory, 50 << 20)
        .deterministic(0)
        .hits(Limit::Memory);
    fixture.run(&["print", "1000"]).limit(Limit::Stdout, 999).deterministic(0).hits(Limit::Stdout);
    fixture.assert_alive();
}

/// The host's own errors are no results either: here it may open too few files.
#[test]
fn a_host_that_cannot_do_its_part_aborts_the_run() {
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
    assert_eq!(live.status.code(), Some(1), "a guest may cope with it: {live:?}");
    assert_eq!(short.status.code(), Some(75), "{short:?}");
    assert!(
        String::from_utf8_lossy(&short.stderr).contains("a file operation failed on the host"),
        "{short:?}"
    );
}

#[test]
fn a_component_that_cannot_be_compiled_here_aborts_the_run() {
    let fixture =
        Fixture::with(&crate::handwritten_components::long_function(60_002), Resolver::System);
    assert_aborted(
        &fixture.run(&[]).limit(Limit::Compile, 1_000).deterministic(0).go(),
        "the limit `compile` of 1s",
    );
}

#[test]
fn the_network_is_off() {
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
fn readers_of_the_output_make_no_difference() {
    let fixture = Fixture::new();
    let run = || fixture.run(&["lines", "20000", "0"]).deterministic(0);
    let captured = run().succeeds();
    // Nobody.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let unread = run().stdout(writer).succeeds();
    // Somebody slow, who gets all of it.
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
    // Somebody who holds the pipe and never reads does not hold the host.
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
fn many_runs_of_one_host_at_once_are_each_as_if_alone() {
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
fn a_run_that_is_given_up_or_interrupted_ends() {
    let fixture = Fixture::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (skill, policy) = (fixture.path("skills/hostile"), policy(&fixture));
    let request = |io| {
        let args = ["start", "1", "spin"].map(str::to_owned).into();
        RunRequest { skill: (&skill).into(), policy: &policy, target: Target::Main, args, io }
    };
    runtime.block_on(async {
        let given_up = tokio::time::timeout(
            std::time::Duration::from_millis(300),
            fixture.host.invoke(request(Io::default())),
        )
        .await;
        assert!(given_up.is_err());
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
        assert!(started.elapsed() < HANG_TIMEOUT, "a run goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Threads of this process; other tests' runs come to an end too.
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    tasks
        .filter(|task| {
            std::fs::read_to_string(task.path().join("comm"))
                .is_ok_and(|comm| name.starts_with(comm.trim()))
        })
        .count()
}
