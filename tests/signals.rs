//! `skillhost run` as an operating-system process: interrupted, killed, blocked, read slowly.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::hostile_host::{Fixture, HANG_TIMEOUT};

/// Runs the hostile skill with the binary, with separate folders for everything.
struct Machine {
    fixture: Fixture,
    audit: PathBuf,
}

impl Machine {
    fn new() -> Machine {
        let fixture = Fixture::new();
        // Compiles the component before anything is timed.
        fixture.run(&["verbs"]).succeeds();
        let own = fixture.path("cache/skillhost");
        std::fs::create_dir_all(&own).unwrap();
        let shared = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("skillhost/components");
        std::os::unix::fs::symlink(shared, own.join("components")).unwrap();
        std::fs::create_dir_all(fixture.path("temporary")).unwrap();
        std::fs::remove_file(fixture.path("audit.jsonl")).unwrap();
        Machine { audit: fixture.path("audit.jsonl"), fixture }
    }

    fn command(&self, flags: &[&str], args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skillhost"));
        command
            .arg("run")
            .arg(self.fixture.path("skills/hostile"))
            .arg("--workspace")
            .arg(self.fixture.path("workspace"));
        command.arg("--audit").arg(&self.audit).args(flags).arg("--").args(args);
        command
            .env_clear()
            .env("HOME", self.fixture.path("home"))
            .env("XDG_CACHE_HOME", self.fixture.path("cache"));
        command
            .env("TMPDIR", self.fixture.path("temporary"))
            .env("CANARY", "a variable of the host");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, flags: &[&str], args: &[&str]) -> Child {
        self.command(flags, args).spawn().unwrap()
    }

    /// Returns the remaining scratch folders.
    fn scratch(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.fixture.path("temporary")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    fn statuses(&self) -> Vec<String> {
        self.fixture
            .audit()
            .iter()
            .map(|line| line["status"]["kind"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Waits for the process to end, with a timeout.
fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > HANG_TIMEOUT {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Checks whether a host has started its engine, whose thread is called `epoch`.
pub fn has_engine(host: &Child) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", host.id())) else { return false };
    threads.flatten().any(|thread| {
        std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "epoch")
    })
}

fn text(stream: Option<impl std::io::Read>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn an_interrupt_ends_the_guest_cleans_up_and_is_recorded() {
    use rustix::process::Signal;
    let machine = Machine::new();
    for (nth, sent) in [Signal::INT, Signal::TERM].into_iter().enumerate() {
        for args in [&["lines", "1000", "50"][..], &["sleep"], &["spin"]] {
            // If there is no output to wait for, the engine's thread shows that the guest is about
            // to run.
            let mut child = machine.start(&[], args);
            if args[0] == "lines" {
                let mut line = String::new();
                BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
                assert_eq!(line, "line 0\n");
            } else {
                while !has_engine(&child) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            let started = Instant::now();
            signal(&child, sent);
            let status = wait(&mut child);
            assert_eq!(status.code(), Some(130), "{args:?}: {status:?} {}", text(child.stderr));
            assert!(started.elapsed() < HANG_TIMEOUT, "{args:?} took {:?}", started.elapsed());
            assert_eq!(machine.scratch(), Vec::<String>::new(), "{args:?}");
        }
        assert_eq!(machine.statuses(), vec!["interrupted"; 3 * (nth + 1)]);
    }
}

#[test]
fn a_guest_waiting_for_the_terminal_times_out() {
    let machine = Machine::new();
    for verb in ["stdin", "cat"] {
        let (input, _open) = std::io::pipe().unwrap();
        let mut child =
            machine.command(&["--timeout", "300ms"], &[verb]).stdin(input).spawn().unwrap();
        assert_eq!(wait(&mut child).code(), Some(124));
        assert!(text(child.stderr).contains("--timeout"), "the message names no flag");
    }
    assert_eq!(machine.scratch(), Vec::<String>::new());
    assert_eq!(machine.statuses(), ["limit-hit", "limit-hit"]);
}

#[test]
fn hosts_start_normally_after_a_killed_host() {
    let machine = Machine::new();
    let mut child = machine.start(&[], &["sleep"]);
    while !has_engine(&child) {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(100));
    child.kill().unwrap();
    wait(&mut child);
    let mut next = machine.start(&[], &["burn", "1000"]);
    assert_eq!(wait(&mut next).code(), Some(0), "{}", text(next.stderr));
    assert_eq!(machine.statuses().last().map(String::as_str), Some("exited"));
}

/// Returns the code files in a cache folder, including incomplete ones.
fn code_in(cache: &Path) -> usize {
    let names = std::fs::read_dir(cache)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".own.")).count()
}

#[test]
fn a_host_killed_while_compiling_leaves_a_usable_cache() {
    let machine = Machine::new();
    let cache = machine.fixture.path("cache/skillhost/components");
    std::fs::remove_file(&cache).unwrap();
    let mut child = machine.start(&[], &["burn", "1000"]);
    while code_in(&cache) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    wait(&mut child);
    let mut next = machine.start(&[], &["burn", "1000"]);
    assert_eq!(wait(&mut next).code(), Some(0), "{}", text(next.stderr));
}

#[test]
fn a_compiler_does_not_outlive_its_host() {
    use rustix::process::Signal;
    for (end, limit) in [(Signal::INT, "77s"), (Signal::KILL, "78s")] {
        let machine = Machine::new();
        let cache = machine.fixture.path("cache/skillhost/components");
        std::fs::remove_file(&cache).unwrap();
        machine.fixture.replace_component(&crate::handwritten_components::long_function(200_000));
        let policy = machine.fixture.path("policy.yaml");
        std::fs::write(&policy, format!("limits: {{ compile: {limit} }}\n")).unwrap();
        let mut child = machine.start(&["--policy", policy.to_str().unwrap()], &[]);
        let compilers = || {
            crate::handwritten_components::compilers_with(&[
                "fast",
                "whole",
                "native",
                &limit.replace('s', "000"),
            ])
        };
        while compilers() == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it did not compile");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, end);
        let status = wait(&mut child);
        let started = Instant::now();
        while compilers() > 0 {
            assert!(started.elapsed() < HANG_TIMEOUT, "the compiler still runs after {end:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        if end == Signal::INT {
            assert_eq!(status.code(), Some(130), "{}", text(child.stderr));
            assert_eq!(machine.statuses(), ["interrupted"]);
            assert_eq!(code_in(&cache), 0, "something half written is in the cache");
        }
    }
}

#[test]
fn a_compiler_is_confined_while_it_compiles() {
    let machine = Machine::new();
    std::fs::remove_file(machine.fixture.path("cache/skillhost/components")).unwrap();
    machine.fixture.replace_component(&crate::handwritten_components::long_function(200_000));
    let policy = machine.fixture.path("policy.yaml");
    std::fs::write(&policy, "limits: { compile: 79s }\n").unwrap();
    let mut host = machine.start(&["--policy", policy.to_str().unwrap()], &[]);
    let started = Instant::now();
    let confined = loop {
        assert!(
            started.elapsed() < HANG_TIMEOUT && host.try_wait().unwrap().is_none(),
            "no compiler was seen to be confined"
        );
        // The limit's value identifies this test's compilers.
        let mut processes =
            std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
        let found = processes.find_map(|process| {
            let read = |file: &str| std::fs::read_to_string(process.join(file)).ok();
            let is_compiler =
                read("cmdline")?.contains("__compile\0fast\0whole\0native\x0079000\0");
            let status =
                read("status").filter(|status| is_compiler && status.contains("Seccomp:\t2\n"))?;
            Some((status, read("limits")?))
        });
        match found {
            Some(found) => break found,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(confined.0.contains("NoNewPrivs:\t1\n"), "{}", confined.0);
    assert!(
        confined.1.lines().any(|line| line.starts_with("Max open files") && line.contains(" 3 ")),
        "{}",
        confined.1
    );
    signal(&host, rustix::process::Signal::INT);
    wait(&mut host);
}

#[test]
fn a_run_that_cannot_be_recorded_does_not_happen() {
    let machine = Machine::new();
    let audit = machine.fixture.path("audit.jsonl");
    std::fs::create_dir(&audit).unwrap();
    let mut child = machine.start(&[], &["write", "1000", "/workspace"]);
    assert_eq!(wait(&mut child).code(), Some(74));
    assert!(text(child.stderr).contains("audit"));
    assert_eq!(text(child.stdout), "");
    assert!(!machine.fixture.path("workspace/written").exists(), "it ran");
}

#[test]
fn a_record_that_is_lost_at_the_end_fails_the_run() {
    let mut machine = Machine::new();
    machine.audit = "/dev/full".into();
    let mut child = machine.start(&[], &["burn", "1000"]);
    assert_eq!(wait(&mut child).code(), Some(74), "{}", text(child.stderr));
}

#[test]
fn the_policy_in_force_and_the_log_are_out_of_reach() {
    let mut machine = Machine::new();
    machine.audit = machine.fixture.path("workspace/log.jsonl");
    let policy = machine.fixture.path("workspace/policy.yaml");
    std::fs::write(&policy, "default: { allow: [Read, Write] }\n").unwrap();
    let flags = ["--policy", policy.to_str().unwrap()];
    let mut child = machine.start(&flags, &["state", "policy.yaml", "log.jsonl"]);
    let code = wait(&mut child).code();
    assert_eq!(code, Some(0), "{}{}", text(child.stdout), text(child.stderr));
    assert_eq!(std::fs::read_to_string(policy).unwrap(), "default: { allow: [Read, Write] }\n");
    assert_eq!(crate::cli::ends(&std::fs::read_to_string(&machine.audit).unwrap()).len(), 1);
}

#[test]
fn output_arrives_while_the_guest_still_runs() {
    let machine = Machine::new();
    let mut child = machine.start(&[], &["lines", "3", "1000"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "line 0");
    assert!(child.try_wait().unwrap().is_none(), "it had ended already");
    let started = Instant::now();
    assert_eq!(lines.next().unwrap().unwrap(), "line 1");
    assert!(started.elapsed() > Duration::from_millis(500), "both lines arrived at once");
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn a_slow_reader_does_not_defeat_the_timeout() {
    let machine = Machine::new();
    for stream in ["stdout", "stderr"] {
        // Nothing reads the pipe, so it fills up after 64 KiB.
        let started = Instant::now();
        let mut child = machine.start(&["--timeout", "500ms"], &["flood", stream]);
        if stream == "stdout" {
            assert_eq!(wait(&mut child).code(), Some(124));
        } else {
            // The host's last message also goes to stderr and may wait for its reader, but the
            // guest has ended.
            std::thread::sleep(Duration::from_secs(1));
            let mut rest = Vec::new();
            child.stderr.take().unwrap().read_to_end(&mut rest).unwrap();
            assert_eq!(wait(&mut child).code(), Some(124));
        }
        assert!(started.elapsed() < HANG_TIMEOUT);
        assert_eq!(machine.scratch(), Vec::<String>::new());
    }
}

#[test]
fn a_closed_stdout_ends_a_guest_that_handles_the_error() {
    let machine = Machine::new();
    let mut child = machine.start(&["--timeout", "10m"], &["flood", "stdout"]);
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let started = Instant::now();
    let code = wait(&mut child).code();
    assert!(started.elapsed() < HANG_TIMEOUT, "it went on for {:?}", started.elapsed());
    assert_ne!(code, Some(124));
    assert_eq!(machine.statuses().len(), 1);
}

#[test]
fn the_binary_s_environment_reaches_no_guest() {
    let machine = Machine::new();
    let mut child = machine.start(&[], &["environment", "tsoh eht fo elbairav a"]);
    let code = wait(&mut child).code();
    assert_eq!(code, Some(0), "{}", text(child.stdout));
    // If the operator allows it by name, the same attack succeeds.
    let mut child = machine.start(&["--env", "CANARY"], &["environment", "tsoh eht fo elbairav a"]);
    assert_eq!(wait(&mut child).code(), Some(3), "{}", text(child.stdout));
    let log = std::fs::read_to_string(machine.fixture.path("audit.jsonl")).unwrap();
    assert!(!log.contains("a variable of the host"), "a value is in the audit log");
}

#[test]
fn exit_codes_say_how_it_ended() {
    let machine = Machine::new();
    let code = |flags: &[&str], args: &[&str]| {
        wait(
            &mut machine
                .command(flags, args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
        .code()
    };
    assert_eq!(code(&[], &["exit", "7"]), Some(7));
    assert_eq!(code(&[], &["trap"]), Some(134));
    assert_eq!(code(&["--timeout", "200ms"], &["spin"]), Some(124));
    assert_eq!(code(&["--fuel", "10000000"], &["spin"]), Some(125));
    assert_eq!(code(&["--memory", "16MiB"], &["memory-in-pieces"]), Some(125));
    machine.fixture.replace_component(b"no component");
    assert_eq!(code(&[], &["verbs"]), Some(65));
}

#[test]
fn input_arrives_complete() {
    let machine = Machine::new();
    let mut child = machine.command(&[], &["cat"]).stdin(Stdio::piped()).spawn().unwrap();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut stdin = child.stdin.take().unwrap();
    let writing = {
        let sent = sent.clone();
        std::thread::spawn(move || stdin.write_all(&sent).unwrap())
    };
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    writing.join().unwrap();
    assert_eq!(wait(&mut child).code(), Some(0));
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());
}

#[test]
fn a_compiler_works_under_hard_limits_below_its_own() {
    let machine = Machine::new();
    std::fs::remove_file(machine.fixture.path("cache/skillhost/components")).unwrap();
    machine.fixture.replace_component(&crate::handwritten_components::long_function(200));
    let command = machine.command(&[], &[]);
    let mut limited = Command::new("prlimit");
    limited.args(["--fsize=1073741824", "--core=0", "--cpu=60"]);
    limited.arg(command.get_program()).args(command.get_args());
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    let output = limited.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
