//! One record for every invocation, whatever came of it; none, and no invocation, where it cannot be written.

mod chain;
mod crash;
mod query;

use std::process::Stdio;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cli::{User, guest, text};

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Runs, and gives back the one record that came of it.
fn record(user: &User, args: &[&str]) -> Value {
    let before = user.records().len();
    user.skillhost(args);
    let mut records = user.records();
    assert_eq!(records.len(), before + 1, "{args:?}: one record for each invocation");
    records.pop().unwrap()
}

#[test]
fn every_way_to_end_leaves_a_record_that_tells_it() {
    let user = User::new();
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    for (args, kind) in [
        (&["run", "hello"][..], "exited"),
        (&["run", "code3"], "exited"),
        (&["run", "trap"], "trapped"),
        (&["run", "spin", "--timeout", "50ms"], "limit-hit"),
        (&["run", "grow"], "limit-hit"),
        (&["run", "hello", "--workspace", "link"], "denied"),
        (&["run", "nowhere"], "invalid"),
        (&["run", "broken"], "invalid"),
        (&["run", "core"], "invalid"),
        (&["run", "other"], "invalid"),
        (&["run", "unknown"], "invalid"),
        (&["run", "echo", "echo", "--input", "{\"text\": \"\"}"], "exited"),
        (&["run", "echo", "nothing", "--input", "{}"], "exited"),
    ] {
        let record = record(&user, args);
        assert_eq!(record["status"]["kind"], kind, "{args:?}: {record:#}");
        assert_eq!(record["version"], 3);
        assert_eq!(record["skill"]["name"], args[1]);
    }
}

#[test]
fn a_code_a_limit_and_a_denial_are_told_in_full() {
    let user = User::new();
    assert_eq!(record(&user, &["run", "code3"])["status"]["code"], 3);
    let limit = record(&user, &["run", "spin", "--timeout", "50ms"]);
    assert_eq!((&limit["status"]["limit"], &limit["status"]["value"]), (&"timeout".into(), &50.into()));
    assert_eq!(limit["capabilities"]["limits"]["timeout_ms"], 50, "{limit:#}");
    let denied = record(&user, &["run", "hello", "--workspace", "nowhere"]);
    assert!(denied["status"]["rule"].as_str().unwrap().contains("nowhere"), "{denied:#}");
}

#[test]
fn what_only_looks_leaves_no_record() {
    let user = User::new();
    for args in [&["check", "hello"][..], &["inspect", "echo"], &["run", "hello", "--explain"], &["run", "hello", "--timeout", "x"]] {
        user.skillhost(args);
    }
    assert!(user.records().is_empty());
}

#[test]
fn the_component_is_named_by_the_digest_of_its_bytes() {
    let user = User::new();
    let record = record(&user, &["run", "hello"]);
    assert_eq!(record["program"]["component"], digest(guest("hello")));
    assert_eq!(record["program"]["name"], "hello");
    assert!(record["skill"]["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn the_skill_is_named_by_a_digest_that_any_change_of_a_file_changes() {
    let user = User::new();
    let digest_now = || record(&user, &["run", "hello"])["skill"]["digest"].clone();
    let first = digest_now();
    assert_eq!(first, digest_now());
    std::fs::write(user.work().join("hello/notes.md"), "a").unwrap();
    let second = digest_now();
    std::fs::write(user.work().join("hello/notes.md"), "b").unwrap();
    let third = digest_now();
    assert!(first != second && second != third && first != third);
}

#[test]
fn arguments_and_values_are_kept_as_digests_alone() {
    let user = User::new();
    let run = |args: &[&str]| record(&user, &[&["run", "hello", "--env", "TOKEN=hunter2", "--"], args].concat());
    let one = run(&["s3cret", "x"]);
    assert_eq!(one["program"]["arguments"], digest(b"s3cret\0x\0"));
    assert_ne!(one["program"]["arguments"], run(&["s3cretx"])["program"]["arguments"]);
    let tool = record(&user, &["run", "echo", "echo", "--input", "{\"text\": \"s3cret\"}"]);
    assert_eq!(tool["program"]["arguments"], digest(b"{\"text\": \"s3cret\"}"));
    assert_eq!(tool["program"]["tool"], "echo");
    let log = std::fs::read_to_string(user.home().join(".local/state/skillhost/audit.jsonl")).unwrap();
    assert!(!log.contains("s3cret") && !log.contains("hunter2"), "{log}");
    assert!(one["capabilities"]["env"].to_string().contains("TOKEN"), "the name is kept: {one:#}");
}

#[test]
fn what_cannot_be_recorded_does_not_run() {
    let user = User::new();
    for audit in [".", "/dev/null/x", "/proc/none/x"] {
        let run = user.skillhost(&["run", "hello", "--audit", audit]);
        assert_eq!((run.status.code(), text(&run.stdout).as_str()), (Some(74), ""), "{audit}: {run:?}");
    }
}

#[test]
fn a_record_that_is_lost_fails_the_run_that_it_is_of() {
    let user = User::new();
    let run = user.skillhost(&["run", "hello", "--audit", "/dev/full"]);
    assert_eq!(run.status.code(), Some(74));
    assert!(text(&run.stderr).contains("the audit log /dev/full cannot be written: No space left on device"), "{run:?}");
}

#[test]
fn the_log_is_this_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    record(&user, &["run", "hello"]);
    let folder = user.home().join(".local/state/skillhost");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.clone()), mode(folder.join("audit.jsonl"))), (0o700, 0o600));
}

#[test]
fn hosts_that_share_a_log_do_not_mix_their_lines() {
    let user = User::new();
    let started: Vec<_> = (0..12)
        .map(|_| {
            let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
            command.args(["run", "hello", "--audit", "shared.jsonl"]).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    started.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    let log = std::fs::read_to_string(user.work().join("shared.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((records.len(), crate::cli::ends(&log).len()), (24, 12), "a start and an end of each");
}
