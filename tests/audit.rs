//! Every run has one record, whatever its outcome; a run that cannot be recorded does not start.

mod chain;
mod crash;
mod query;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cli::{User, guest, script_skill, text};

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Runs a skill, and returns its record.
fn record(user: &User, args: &[&str]) -> Value {
    let before = user.records().len();
    user.skillhost(args);
    let mut records = user.records();
    assert_eq!(records.len(), before + 1, "{args:?}: one record for each invocation");
    records.pop().unwrap()
}

#[test]
fn every_kind_of_ending_is_recorded() {
    let user = User::new();
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    for (args, kind) in [
        (&["run", "./hello"][..], "exited"),
        (&["run", "./code3"], "exited"),
        (&["run", "./trap"], "trapped"),
        (&["run", "./spin", "--timeout", "50ms"], "limit-hit"),
        (&["run", "./grow"], "limit-hit"),
        (&["run", "./hello", "--workspace", "link"], "denied"),
        (&["run", "./nowhere"], "invalid"),
        (&["run", "./broken"], "invalid"),
        (&["run", "./core"], "invalid"),
        (&["run", "./other"], "invalid"),
        (&["run", "./unknown"], "invalid"),
        (&["run", "./echo", "echo", "--input", "{\"text\": \"\"}"], "exited"),
        (&["run", "./echo", "nothing", "--input", "{}"], "exited"),
    ] {
        let record = record(&user, args);
        assert_eq!(record["status"]["kind"], kind, "{args:?}: {record:#}");
        assert_eq!(record["version"], 3);
        assert_eq!(record["skill"]["name"], args[1].trim_start_matches("./"));
    }
}

#[test]
fn exit_codes_limits_and_denials_are_recorded() {
    let user = User::new();
    assert_eq!(record(&user, &["run", "./code3"])["status"]["code"], 3);
    let limit = record(&user, &["run", "./spin", "--timeout", "50ms"]);
    assert_eq!(
        (&limit["status"]["limit"], &limit["status"]["value"]),
        (&"timeout".into(), &50.into())
    );
    assert_eq!(limit["capabilities"]["limits"]["timeout_ms"], 50, "{limit:#}");
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    let denied = record(&user, &["run", "./hello", "--workspace", "link"]);
    assert!(denied["status"]["rule"].as_str().unwrap().contains("symlink"), "{denied:#}");
}

#[test]
fn commands_that_run_nothing_leave_no_record() {
    let user = User::new();
    for args in [
        &["check", "./hello"][..],
        &["inspect", "echo"],
        &["run", "./hello", "--explain"],
        &["run", "./hello", "--timeout", "x"],
    ] {
        user.skillhost(args);
    }
    assert!(user.records().is_empty());
}

#[test]
fn the_component_is_recorded_by_its_digest() {
    let user = User::new();
    let record = record(&user, &["run", "./hello"]);
    assert_eq!(record["program"]["component"], digest(guest("hello")));
    assert_eq!(record["program"]["name"], "hello");
    assert!(record["skill"]["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn the_skill_digest_changes_with_any_file() {
    let user = User::new();
    let digest_now = || record(&user, &["run", "./hello"])["skill"]["digest"].clone();
    let first = digest_now();
    assert_eq!(first, digest_now());
    std::fs::write(user.work().join("hello/notes.md"), "a").unwrap();
    let second = digest_now();
    std::fs::write(user.work().join("hello/notes.md"), "b").unwrap();
    let third = digest_now();
    assert!(first != second && second != third && first != third);
}

/// Computes a digest with the key of the log at `log`, as the documentation describes.
fn keyed(log: &Path, content: &[u8]) -> String {
    let hex = std::fs::read_to_string(log.with_extension("jsonl.key")).unwrap();
    let key: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let pad = |pad: u8| (0..64).map(|at| key.get(at).unwrap_or(&0) ^ pad).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), digest(content).into_bytes()].concat());
    digest(&[pad(0x5c), inner.to_vec()].concat()).replace("sha256", "hmac-sha256")
}

fn log_of(user: &User) -> PathBuf {
    user.home().join(".local/state/skillhost/audit.jsonl")
}

#[test]
fn arguments_and_values_are_only_keyed_digests() {
    let user = User::new();
    let run = |args: &[&str]| {
        record(&user, &[&["run", "./hello", "--env", "TOKEN=hunter2", "--"], args].concat())
    };
    let one = run(&["s3cret", "x"]);
    assert_eq!(one["program"]["arguments"], keyed(&log_of(&user), b"s3cret\0x\0"));
    assert_eq!(
        one["program"]["arguments"],
        run(&["s3cret", "x"])["program"]["arguments"],
        "equal arguments have equal digests"
    );
    assert_ne!(one["program"]["arguments"], run(&["s3cretx"])["program"]["arguments"]);
    let tool = record(&user, &["run", "./echo", "echo", "--input", "{\"text\": \"s3cret\"}"]);
    assert_eq!(tool["program"]["arguments"], keyed(&log_of(&user), b"{\"text\": \"s3cret\"}"));
    assert_eq!(tool["program"]["tool"], "echo");
    let log = std::fs::read_to_string(log_of(&user)).unwrap();
    assert!(!log.contains("s3cret") && !log.contains("hunter2"), "{log}");
    assert!(
        !log.contains(&digest(b"s3cret\0x\0")),
        "a plain digest of a short text can be guessed"
    );
    assert!(one["capabilities"]["env"].to_string().contains("TOKEN"), "the name is kept: {one:#}");
}

#[test]
fn streams_and_the_skill_version_are_recorded() {
    let user = User::new();
    let skill = user.work().join("hello/SKILL.md");
    let text = std::fs::read_to_string(&skill).unwrap();
    std::fs::write(&skill, text.replace("metadata:\n", "metadata:\n  version: \"1.2\"\n")).unwrap();
    let hello = record(&user, &["run", "./hello"]);
    assert_eq!(hello["skill_version"], "1.2", "{text}");
    assert_eq!(
        hello["streams"],
        serde_json::json!({ "stdout": keyed(&log_of(&user), b"hello from 0.3\n") })
    );
    // Captured output has the same digest; empty output has none.
    assert_eq!(record(&user, &["run", "./hello", "--json"])["streams"], hello["streams"]);
    assert_eq!(record(&user, &["run", "./code3"])["streams"], serde_json::json!({}));
}

#[test]
fn the_stdin_digest_covers_what_the_guest_read() {
    use skillhost_sandbox::Stdin;
    let fixture = crate::hostile_host::Fixture::new();
    let log = fixture.path("audit.jsonl");
    let (read, write) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut &write, b"typed by a person").unwrap();
    drop(write);
    for stdin in [Stdin::Bytes(b"typed by a person".to_vec()), Stdin::Descriptor(read.into())] {
        fixture.run(&["cat"]).stdin(stdin).go();
        let streams = fixture.audit().pop().unwrap()["streams"].clone();
        assert_eq!(streams["stdin"], keyed(&log, b"typed by a person"));
        assert_eq!(streams["stdout"], streams["stdin"]);
    }
    // A guest that reads nothing has no digest of stdin.
    fixture.run(&["exit", "0"]).stdin(Stdin::Bytes(b"unread".to_vec())).go();
    assert!(fixture.audit().pop().unwrap()["streams"].get("stdin").is_none());
}

#[test]
fn invalid_tool_names_are_not_recorded() {
    let user = User::new();
    let long = "secret.".repeat(10_000);
    for name in ["curl -H 'secret'", "a.secret", &long] {
        let record_text = record(&user, &["run", "./hello", name]).to_string();
        assert!(!record_text.contains("secret") && record_text.len() < 4_000, "{record_text}");
        let tool = record(&user, &["run", "./hello", name, "--input", "{}"]).to_string();
        assert!(!tool.contains("secret") && tool.len() < 4_000, "{tool}");
    }
}

#[test]
fn attempts_are_recorded_without_the_guests_text() {
    let fixture = crate::hostile_host::Fixture::new();
    let (mut denials, mut about) = (0, std::collections::BTreeSet::new());
    let url = "http://127.0.0.1:9/a-secret-path";
    for attempt in [
        &["read-only", "/skill", "/workspace"][..],
        &["programs"],
        &["http-private", url, url],
        &["launch", "hostile", "exit", "7"],
    ] {
        let outcome = fixture.run(attempt).go();
        let record = fixture.audit().pop().unwrap();
        let log = record.to_string();
        for (denial, recorded) in outcome.denials.iter().zip(record["denials"].as_array().unwrap())
        {
            assert!(
                !log.contains(&denial.what) && recorded.get("fix").is_none(),
                "{denial:?}: {recorded}"
            );
            about.insert(recorded["about"].as_str().unwrap().to_owned());
            denials += 1;
        }
        for (request, recorded) in
            outcome.requests.iter().zip(record["requests"].as_array().unwrap())
        {
            assert!(
                !log.contains(&request.url)
                    && recorded["path"].as_str().unwrap().starts_with("hmac-sha256:"),
                "{recorded}"
            );
            assert!(recorded["failure"].is_string(), "{request:?}: {recorded}");
        }
        for (process, recorded) in
            outcome.processes.iter().zip(record["processes"].as_array().unwrap())
        {
            assert_eq!(
                (&recorded["program"], recorded.get("argv0")),
                (&"hostile.wasm".into(), None)
            );
            assert_eq!(
                recorded["argv"],
                keyed(&fixture.path("audit.jsonl"), b"hostile\0exit\x007\0"),
                "{process:?}"
            );
        }
        assert!(!log.contains("a-secret-path"), "{log}");
    }
    assert!(denials > 3, "{denials}");
    assert_eq!(about.into_iter().collect::<Vec<_>>(), ["path", "program", "request"]);
}

#[test]
fn texts_are_recorded_only_by_policy_and_without_secrets() {
    let user = User::new();
    let policy = user.work().join("policy.yaml");
    let run = |detail: &str| {
        std::fs::write(
            &policy,
            format!("audit: {{ detail: {detail} }}\ndefault: {{ env: [TOKEN=hunter2-hunter2] }}\n"),
        )
        .unwrap();
        record(
            &user,
            &[
                "run",
                "./hello",
                "--policy",
                "policy.yaml",
                "--",
                "plain",
                "--token=hunter2-hunter2",
            ],
        )
    };
    assert!(run("digests").get("text").is_none());
    let recorded = run("text");
    assert_eq!(recorded["text"]["arguments"][0], "plain");
    assert!(
        !recorded.to_string().contains("hunter2")
            && recorded["text"]["arguments"][1].as_str().unwrap().starts_with("--token="),
        "{recorded:#}"
    );
    std::fs::write(&policy, "audit: { detail: all }\n").unwrap();
    let wrong = user.skillhost(&["run", "./hello", "--policy", "policy.yaml"]);
    assert!(
        wrong.status.code() == Some(65)
            && text(&wrong.stderr).contains("is not one of: digests, text"),
        "{wrong:?}"
    );
}

#[test]
fn a_run_that_cannot_be_recorded_does_not_start() {
    let user = User::new();
    for audit in [".", "/dev/null/x", "/proc/none/x"] {
        let run = user.skillhost(&["run", "./hello", "--audit", audit]);
        assert_eq!(
            (run.status.code(), text(&run.stdout).as_str()),
            (Some(74), ""),
            "{audit}: {run:?}"
        );
    }
}

#[test]
fn a_run_fails_if_its_record_is_lost() {
    let user = User::new();
    let run = user.skillhost(&["run", "./hello", "--audit", "/dev/full"]);
    assert_eq!(run.status.code(), Some(74));
    assert!(
        text(&run.stderr).contains("cannot write the audit log /dev/full: No space left on device"),
        "{run:?}"
    );
}

#[test]
fn only_this_user_can_read_the_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    record(&user, &["run", "./hello"]);
    let folder = user.home().join(".local/state/skillhost");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(folder.clone()), mode(folder.join("audit.jsonl"))), (0o700, 0o600));
}

#[test]
fn hosts_sharing_a_log_do_not_mix_lines() {
    let user = User::new();
    let started: Vec<_> = (0..12)
        .map(|_| {
            let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
            command
                .args(["run", "./hello", "--audit", "shared.jsonl"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    started.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    let log = std::fs::read_to_string(user.work().join("shared.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (records.len(), crate::cli::ends(&log).len()),
        (24, 12),
        "a start and an end of each"
    );
}

#[test]
fn a_run_without_a_runtime_has_its_wall_time() {
    let user = User::new();
    let skill = user.work().join("scripted");
    script_skill(&skill, &[("run.rb", "puts 1\n")]);
    let run = user.skillhost(&["run", "./scripted", "scripts/run.rb"]);
    assert!(!run.status.success(), "{run:?}");
    let record = &user.records()[0];
    assert!(record["usage"]["wall_ms"].as_f64().unwrap() > 0.0, "{record}");
}
