//! Secrets are in no recording, and are available in its replay.

use serde_json::Value;

use super::network::StoppableServer;
use super::{all_bytes, elsewhere, holds, recording, same};
use crate::cli::{script_skill, text};
use crate::receipt::Place;

const TOKEN: &str = "sesame-\"open\"-\u{fc}-1234";
const COOKIE: &str = "cookie-of-the-session-0";

const SCRIPT: &str = r#"#!/bin/bash
echo "token $TOKEN"
cat
curl -s -H "Authorization: Bearer $TOKEN" "$1/echo?token=$2" -D head; echo
grep -i set-cookie head
curl -s -H "X-Key: key-from-a-file-42" "$1/b" -d "key=$TOKEN" > out; cat out data/a.txt
"#;

fn record(secrets: &str) -> (Place, std::process::Output) {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, secrets);
    std::fs::write(
        place.path("sk/SKILL.md"),
        "---\nname: sk\ndescription: Asks. Use to test.\nallowed-tools: Read Write Bash WebFetch\n---\n",
    )
    .unwrap();
    std::fs::write(place.path("sk/scripts/run.sh"), SCRIPT).unwrap();
    std::fs::write(place.path("w/data/a.txt"), format!("a file with {TOKEN} in it\n")).unwrap();
    let (env, url) = (format!("TOKEN={TOKEN}"), server.url());
    let args = [
        "run",
        "./sk",
        "run.sh",
        "--policy",
        &policy,
        "--workspace",
        "w",
        "--env",
        &env,
        "--env",
        "PIN=7",
        "--record",
        "rec",
        "--",
        &url,
        "sesame-in-url",
    ];
    let run = place.skillhost(&args, &format!("stdin with {TOKEN}\n"));
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stdout).contains(TOKEN), "{run:?}");
    (place, run)
}

#[test]
fn secrets_are_not_stored_and_a_replay_asks_for_them() {
    let (place, run) = record("secrets: { env: [TOKEN, PIN], headers: [X-Key, set-cookie] }\n");
    let all = all_bytes(&place.path("rec"));
    for secret in
        [TOKEN, "sesame-\\\"open", "value\": \"key-from-a-file-42", COOKIE, "Bearer sesame"]
    {
        assert!(!holds(&all, secret), "{secret}");
    }
    let recorded = recording(&place.path("rec"));
    let plain = skillhost_skill::runtime::digest(TOKEN.as_bytes());
    assert!(!recorded.to_string().contains(&plain), "a digest without salt could be looked up");
    let names: Vec<&String> = recorded["sealed"]["secrets"].as_object().unwrap().keys().collect();
    assert!(
        ["TOKEN", "PIN", "HEADER_SET_COOKIE"]
            .iter()
            .all(|name| names.iter().any(|known| known == name)),
        "{names:?}"
    );
    let other = elsewhere(&place.path("rec"));
    let run_with_token = |token: &str, flags: &[&str]| {
        let mut command =
            other.command(&[&["replay", "theirs/rec", "--secret-env", "PIN"], flags].concat());
        command.env("TOKEN", token).env("PIN", "7").env("HEADER_X_KEY", "key-from-a-file-42");
        for (index, name) in ["HEADER_SET_COOKIE", "HEADER_SET_COOKIE_2"].iter().enumerate() {
            command.env(name, format!("id=cookie-of-the-session-{index}; Path=/"));
        }
        other.finish(command, "")
    };
    // The skill itself contains that one.
    let mut flags = vec!["--secret-env", "TOKEN", "--secret-env", "HEADER_X_KEY"];
    for name in ["HEADER_SET_COOKIE", "HEADER_SET_COOKIE_2"] {
        if names.iter().any(|known| *known == name) {
            flags.extend(["--secret-env", name]);
        }
    }
    let replay = run_with_token(TOKEN, &flags);
    assert_eq!(
        (replay.status.code(), text(&replay.stdout)),
        (Some(0), text(&run.stdout)),
        "{replay:?}"
    );
    let wrong = run_with_token("other", &flags);
    assert_eq!(wrong.status.code(), Some(83), "{wrong:?}");
    assert!(
        text(&wrong.stderr).contains("the value of TOKEN differs from the recorded one"),
        "{wrong:?}"
    );
    // There is no terminal to ask on.
    let missing = run_with_token(TOKEN, &flags[2..]);
    assert_eq!(missing.status.code(), Some(64), "{missing:?}");
    assert!(text(&missing.stderr).contains("--secret-env TOKEN"), "{missing:?}");
    let unknown = run_with_token(TOKEN, &["--secret-env", "NOBODY"]);
    assert_eq!(unknown.status.code(), Some(64), "{unknown:?}");
    assert!(
        text(&unknown.stderr).contains("needs") && text(&unknown.stderr).contains("TOKEN"),
        "{unknown:?}"
    );
}

#[test]
fn variables_cookies_and_authorization_are_encrypted() {
    let (place, run) = record("");
    let all = all_bytes(&place.path("rec"));
    for secret in [TOKEN, "sesame-\\\"open", COOKIE, "Bearer sesame"] {
        assert!(!holds(&all, secret), "{secret}");
    }
    assert!(holds(&all, "key-from-a-file-42"), "other fields are stored in clear");
    let recorded = recording(&place.path("rec"));
    let header = &recorded["exchanges"][0]["request"]["headers"];
    let authorization =
        header.as_array().unwrap().iter().find(|header| header["name"] == "authorization").unwrap();
    assert!(
        authorization["value"].is_null() && authorization["secret"].is_string(),
        "{authorization}"
    );
    assert!(recorded["sealed"]["values"].is_string(), "{}", recorded["sealed"]);
    // This host has the key, so a replay asks nothing.
    same(&place, "rec", &[], &run);
    // Another host has another key, or none, and asks for the secrets that the run used.
    let other = elsewhere(&place.path("rec"));
    let replay = other.skillhost(&["replay", "theirs/rec"], "");
    assert_eq!(replay.status.code(), Some(64), "{replay:?}");
    assert!(text(&replay.stderr).contains("--secret-env"), "{replay:?}");
    let names: Vec<String> =
        recorded["sealed"]["secrets"].as_object().unwrap().keys().cloned().collect();
    assert!(names.contains(&"TOKEN".to_owned()) && names.contains(&"PIN".to_owned()), "{names:?}");
    let flags: Vec<&str> = names.iter().flat_map(|name| ["--secret-env", name]).collect();
    let mut command = other.command(&[&["replay", "theirs/rec"], &flags[..]].concat());
    command.env("TOKEN", TOKEN).env("PIN", "7");
    for (index, suffix) in ["", "_2"].iter().enumerate() {
        command.env(
            format!("HEADER_SET_COOKIE{suffix}"),
            format!("id=cookie-of-the-session-{index}; Path=/"),
        );
        command.env(format!("COOKIE{suffix}"), format!("cookie-of-the-session-{index}"));
    }
    let replay = other.finish(command, "");
    assert_eq!(
        (replay.status.code(), text(&replay.stdout)),
        (Some(0), text(&run.stdout)),
        "{names:?} {replay:?}"
    );
}

/// A secret field is secret as a whole, even if only a part of it is the value of a variable, and
/// trailers are fields like headers.
#[test]
fn all_of_a_secret_field_is_encrypted() {
    let place = Place::new();
    let server = StoppableServer::start();
    let policy = server.policy(&place, "");
    let script =
        "curl -s \"$1/x\" -D head > body; grep -i set-cookie head; curl -s \"$1/trailers\"\n";
    script_skill(&place.path("asks"), &[("ask.sh", script)]);
    let url = server.url();
    let args = [
        "run",
        "./asks",
        "ask.sh",
        "--policy",
        &policy,
        "--workspace",
        "w",
        "--env",
        "LOGIN=cookie-of-the",
        "--record",
        "rec",
        "--",
        &url,
    ];
    let run = place.skillhost(&args, "");
    assert!(
        run.status.code() == Some(0) && text(&run.stdout).contains("id=cookie-of-the-session-0"),
        "{run:?}"
    );
    let all = all_bytes(&place.path("rec"));
    for secret in ["-session-0", "cookie-of-the", "of-a-trailer"] {
        assert!(!holds(&all, secret), "{secret}");
    }
    let names: Vec<Value> = ["headers", "trailers"]
        .map(|part| recording(&place.path("rec"))["exchanges"][1]["response"]["head"][part].clone())
        .to_vec();
    assert!(names[1].as_array().is_some_and(|trailers| trailers.len() == 2), "{names:?}");
    same(&place, "rec", &[], &run);
}

#[test]
fn values_of_changed_recordings_are_not_decrypted() {
    let (place, _) = record("");
    let file = place.path("rec/recording.json");
    let mut recorded = recording(&place.path("rec"));
    recorded["arguments"][1] = "another".into();
    recorded.as_object_mut().unwrap().remove("digest");
    recorded["digest"] = skillhost_sandbox::recording::folder::digest(&recorded).into();
    std::fs::write(&file, skillhost_sandbox::recording::folder::text(&recorded).unwrap()).unwrap();
    let replay = place.skillhost(&["replay", "rec"], "");
    assert_eq!(replay.status.code(), Some(64), "{replay:?}");
    assert!(text(&replay.stderr).contains("not in the recording"), "{replay:?}");
}

#[test]
fn values_that_are_not_secret_are_stored_in_clear() {
    let (place, run) = record("record: { plain: [TOKEN, PIN, Set-Cookie, authorization] }\n");
    let all = all_bytes(&place.path("rec"));
    assert!(holds(&all, COOKIE) && holds(&all, "Bearer sesame"));
    let recorded = recording(&place.path("rec"));
    assert_eq!(
        (&recorded["environment"]["TOKEN"], &recorded["sealed"]["secrets"]),
        (&TOKEN.into(), &serde_json::json!({}))
    );
    assert!(recorded["sealed"]["values"].is_null(), "{}", recorded["sealed"]);
    let other = elsewhere(&place.path("rec"));
    same(&other, "theirs/rec", &[], &run);
}

/// Runs a replay on a terminal, and types `keys` when it asks.
fn replay_on_terminal(place: &Place, keys: &str) -> Option<(Option<i32>, String)> {
    use std::io::{Read as _, Write as _};
    use std::process::Stdio;
    let mut command = place.user.command("script");
    command.env("SKILLHOST_PROGRAMS", crate::cli::repository("target/components"));
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.args([
        "-qec",
        "skillhost replay rec; stty -a | grep -o '[^ ]*echo;\\|[-]*echo '; exit",
        "/dev/null",
    ]);
    // A machine without script(1) cannot provide a terminal.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let (mut shown, mut byte) = (Vec::new(), [0]);
    let mut stdout = child.stdout.take().unwrap();
    while !shown.ends_with(b"TOKEN: ") && stdout.read(&mut byte).unwrap() == 1 {
        shown.push(byte[0]);
    }
    child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    stdout.read_to_end(&mut shown).unwrap();
    Some((child.wait().unwrap().code(), String::from_utf8_lossy(&shown).into_owned()))
}

#[test]
fn a_terminal_prompt_does_not_show_the_secret() {
    let place = Place::new();
    std::fs::write(place.path("p.yaml"), "default: { allow: [Bash] }\nsecrets: { env: [TOKEN] }\n")
        .unwrap();
    let args = [
        "run",
        "./sk",
        "--policy",
        "p.yaml",
        "--env",
        "TOKEN=sesame-open-1234",
        "--record",
        "rec",
        "--command",
        "echo ${#TOKEN} bytes",
    ];
    assert_eq!(place.skillhost(&args, "").status.code(), Some(0));
    for (keys, message) in [
        ("sesame-open-1234\n", super::SAME),
        ("other\n", "differs from the recorded one"),
        ("\u{3}", "the prompt failed"),
    ] {
        let Some((_, shown)) = replay_on_terminal(&place, keys) else { return };
        assert!(
            shown.contains(message) && !shown.contains("sesame") && !shown.contains("other"),
            "{keys:?}: {shown}"
        );
        assert!(
            shown.contains("echo") && !shown.contains("-echo"),
            "the terminal settings are restored: {shown}"
        );
    }
}

#[test]
fn secret_names_in_the_policy_are_checked() {
    let place = Place::new();
    std::fs::write(place.path("p.yaml"), "secrets: { env: [TOKEN], headers: [X-Key] }\n").unwrap();
    let run = place.skillhost(&["run", "./hello", "--policy", "p.yaml", "--explain"], "");
    assert!(text(&run.stdout).contains("never recorded: TOKEN, x-key"), "{run:?}");
    let recorded = crate::receipt::parsed(
        &place
            .skillhost(&["run", "./hello", "--policy", "p.yaml", "--explain", "--json"], "")
            .stdout,
    );
    assert_eq!(recorded["secrets"], serde_json::json!({ "env": ["TOKEN"], "headers": ["x-key"] }));
    for (wrong, named) in [
        ("env: [A-B]", "`A-B` is not the name of a variable"),
        ("headers: ['a b']", "`a b` is not the name of a header"),
        ("values: []", "unknown key `values`"),
        (
            "env: [] }\nrecord: { plain: ['a b']",
            "`a b` is not the name of a variable or a header field",
        ),
    ] {
        std::fs::write(place.path("p.yaml"), format!("secrets: {{ {wrong} }}\n")).unwrap();
        let run = place.skillhost(&["run", "./hello", "--policy", "p.yaml"], "");
        assert_eq!(run.status.code(), Some(65), "{run:?}");
        assert!(text(&run.stderr).contains(named), "{run:?}");
    }
}

#[test]
fn without_secrets_a_replay_asks_nothing() {
    let place = Place::new();
    let run = place.skillhost(&["run", "./hello", "--record", "rec"], "");
    assert_eq!(recording(&place.path("rec"))["sealed"]["secrets"], serde_json::json!({}));
    same(&place, "rec", &[], &run);
}
