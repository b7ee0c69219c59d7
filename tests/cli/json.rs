//! The JSON forms, held against the schemas that the same binary prints.

use serde_json::Value;

use super::{User, text};

fn json(user: &User, args: &[&str]) -> Value {
    let run = user.skillhost(args);
    serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {run:?}"))
}

fn holds(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let problems: Vec<String> = validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(problems.is_empty(), "{}\n{value:#}", problems.join("\n"));
}

#[test]
fn every_outcome_is_what_its_schema_says() {
    let user = User::new();
    let schema = json(&user, &["schema", "outcome"]);
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    for (kind, args) in [
        ("exited", vec!["run", "hello", "--json"]),
        ("exited", vec!["run", "hello2", "--json"]),
        ("exited", vec!["run", "echo", "echo", "--input", r#"{"text": "\u001b"}"#, "--json"]),
        ("exited", vec!["run", "echo", "nothing", "--json"]),
        ("exited", vec!["run", "hello", "--workspace", "data:overlay", "--diff", "--json"]),
        ("trapped", vec!["run", "trap", "--json"]),
        ("limit-hit", vec!["run", "spin", "--timeout", "50ms", "--json"]),
        ("limit-hit", vec!["run", "grow", "--json"]),
        ("limit-hit", vec!["run", "spin", "--fuel", "1000", "--json"]),
        ("denied", vec!["run", "hello", "--workspace", "link", "--json"]),
        ("invalid", vec!["run", "other", "--json"]),
    ] {
        let outcome = json(&user, &args);
        holds(&schema, &outcome);
        assert_eq!(outcome["status"]["kind"], kind, "{args:?}: {outcome:#}");
    }
}

#[test]
fn every_audit_record_is_what_its_schema_says() {
    let user = User::new();
    let schema = json(&user, &["schema", "audit"]);
    for guest in ["hello", "code3", "trap", "grow", "other", "unknown"] {
        user.skillhost(&["run", guest]);
    }
    let records = user.records();
    assert_eq!(records.len(), 6);
    records.iter().for_each(|record| holds(&schema, record));
}

#[test]
fn a_result_means_the_same_and_holds_nothing_that_a_terminal_acts_on() {
    let user = User::new();
    let run = user.skillhost(&["run", "echo", "echo", "--input", "{\"text\": \"\\u001b[2J\u{9b}1m \u{202e}\"}"]);
    let printed = text(&run.stdout);
    assert!(printed.chars().all(|c| c == '\n' || !skillhost::diagnostic::is_hidden(c)), "{printed:?}");
    let value: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value["text"], "\u{1b}[2J\u{9b}1m \u{202e}");
}

#[test]
fn checks_grants_and_worlds_are_json_too() {
    let user = User::new();
    let checked = json(&user, &["check", "hello", "nowhere", "scripts", "--json"]);
    holds(&json(&user, &["schema", "check"]), &checked);
    assert_eq!(checked["skills"][0]["name"], "hello");
    assert_eq!(checked["skills"][1]["diagnostics"][0]["rule"], "skill-folder");
    assert_eq!(checked["skills"][2]["compatibility"]["scripts"][0]["needs"][0]["name"], "numpy");
    assert_eq!(checked["summary"]["do_not_load"], 1);
    let grant = json(&user, &["run", "hello", "--explain", "--json"]);
    assert_eq!(grant["decisions"][0]["verdict"], "granted");
    let report = json(&user, &["inspect", "echo", "--json"]);
    assert_eq!(report["tools"][0]["name"], "echo");
}
