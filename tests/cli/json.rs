//! Validates the JSON output against the schemas that the same binary prints.

use serde_json::Value;

use super::help::PREFACE;
use super::{User, skill_of, text};

fn json(user: &User, args: &[&str]) -> Value {
    let run = user.skillhost(args);
    serde_json::from_slice(&run.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {run:?}"))
}

fn holds(schema: &Value, value: &Value) {
    let validator = jsonschema::validator_for(schema).unwrap();
    let problems: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(problems.is_empty(), "{}\n{value:#}", problems.join("\n"));
}

#[test]
fn outcomes_match_their_schema() {
    let user = User::new();
    let schema = json(&user, &["schema", "outcome"]);
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    for (kind, args) in [
        ("exited", vec!["run", "./hello", "--json"]),
        ("exited", vec!["run", "./hello2", "--json"]),
        ("exited", vec!["run", "./echo", "echo", "--input", r#"{"text": "\u001b"}"#, "--json"]),
        ("exited", vec!["run", "./echo", "nothing", "--json"]),
        ("exited", vec!["run", "./hello", "--workspace", "data:overlay", "--diff", "--json"]),
        ("trapped", vec!["run", "./trap", "--json"]),
        ("limit-hit", vec!["run", "./spin", "--timeout", "50ms", "--json"]),
        ("limit-hit", vec!["run", "./grow", "--json"]),
        ("limit-hit", vec!["run", "./spin", "--fuel", "1000", "--json"]),
        ("denied", vec!["run", "./hello", "--workspace", "link", "--json"]),
        ("invalid", vec!["run", "./other", "--json"]),
    ] {
        let outcome = json(&user, &args);
        holds(&schema, &outcome);
        assert_eq!(outcome["status"]["kind"], kind, "{args:?}: {outcome:#}");
    }
}

#[test]
fn audit_records_match_their_schema() {
    let user = User::new();
    let schema = json(&user, &["schema", "audit"]);
    for guest in ["hello", "code3", "trap", "grow", "other", "unknown"] {
        user.skillhost(&["run", &format!("./{guest}")]);
    }
    let log =
        std::fs::read_to_string(user.home().join(".local/state/skillhost/audit.jsonl")).unwrap();
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(user.records().len(), 6);
    assert!(records.len() > 6, "starts are recorded as well");
    records.iter().for_each(|record| holds(&schema, record));
}

#[test]
fn json_result_is_equal_and_has_no_escapes() {
    let user = User::new();
    let run = user.skillhost(&[
        "run",
        "./echo",
        "echo",
        "--input",
        "{\"text\": \"\\u001b[2J\u{9b}1m \u{202e}\"}",
    ]);
    let printed = text(&run.stdout);
    assert!(
        printed.chars().all(|c| c == '\n' || !skillhost_policy::diagnostic::is_hidden(c)),
        "{printed:?}"
    );
    let value: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(value["text"], "\u{1b}[2J\u{9b}1m \u{202e}");
}

#[test]
fn check_explain_and_inspect_print_json() {
    let user = User::new();
    let checked = json(&user, &["check", "./hello", "./nowhere", "./scripts", "--json"]);
    holds(&json(&user, &["schema", "check"]), &checked);
    assert_eq!(checked["skills"][0]["name"], "hello");
    assert_eq!(checked["skills"][1]["diagnostics"][0]["rule"], "skill-folder");
    assert_eq!(checked["skills"][2]["compatibility"]["scripts"][0]["needs"][0]["name"], "numpy");
    assert_eq!(checked["summary"]["do_not_load"], 1);
    let grant = json(&user, &["run", "./hello", "--explain", "--json"]);
    assert_eq!(grant["decisions"][0]["verdict"], "granted");
    let report = json(&user, &["inspect", "echo", "--json"]);
    assert_eq!(report["tools"][0]["name"], "echo");
}

#[test]
fn catalog_and_approval_output_matches_its_schema() {
    let user = User::new();
    for (folder, more) in [
        (user.work().join(".agents/skills/reporter"), ""),
        (user.home().join(".agents/skills/reporter"), "Shadowed. "),
    ] {
        skill_of("writer", &folder);
        let file = folder.join("SKILL.md");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(file, text.replace("description: ", &format!("description: {more}")))
            .unwrap();
    }
    let scripts = user.work().join(".agents/skills/plain/scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("x.py"), "").unwrap();
    std::os::unix::fs::symlink("x.py", scripts.join("y.py")).unwrap();
    let text = "---\nname: plain\ndescription: Says things.\nallowed-tools: Read WebFetch\nmetadata:\n  tags: a, b\n---\n\nSay.\n";
    std::fs::write(scripts.join("../SKILL.md"), text).unwrap();
    std::fs::create_dir_all(user.work().join(".agents/skills/broken")).unwrap();
    std::fs::write(user.work().join(".agents/skills/broken/SKILL.md"), "").unwrap();
    std::fs::create_dir(user.work().join("out")).unwrap();
    // One request is approved, one is used up, one is pending; two levels are set.
    let run = ["run", "reporter", "--workspace", "out"];
    assert_eq!(user.skillhost(&run).status.code(), Some(77));
    assert!(user.skillhost(&["approve", "1", "--once"]).status.success());
    assert!(user.skillhost(&run).status.success());
    assert_eq!(user.skillhost(&run).status.code(), Some(77));
    assert!(
        user.skillhost(&["permissions", "set", "plain", "disabled", "--program", "scripts/x.py"])
            .status
            .success()
    );
    assert!(user.skillhost(&["permissions", "set", "reporter", "auto-approved"]).status.success());
    for (name, args, parts) in [
        ("list", vec!["list"], vec!["/skills/0", "/shadowed/0", "/broken/0"]),
        ("search", vec!["search", "says"], vec!["/hits/0"]),
        ("show", vec!["show", "plain"], vec!["/files/0", "/allowed_tools/0"]),
        ("show", vec!["show", "reporter"], vec!["/files/0"]),
        ("prompt", vec!["prompt", "--budget", "10"], vec![]),
        ("pending", vec!["pending"], vec!["/0"]),
        ("permissions", vec!["permissions"], vec!["/levels/1", "/approvals/0"]),
    ] {
        let printed = json(&user, &[&args[..], &["--json"]].concat());
        let mut schema = json(&user, &["schema", name]);
        for part in parts {
            assert!(printed.pointer(part).is_some(), "{name}: {part} is not in {printed:#}");
        }
        holds(&schema, &printed);
        // The output contains no property that the schema does not describe.
        close(&mut schema);
        holds(&schema, &printed);
    }
}

/// Forbids properties that the schema does not describe.
fn close(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Object(map) => {
            map.values_mut().for_each(close);
            if map.get("properties").is_some_and(Value::is_object) && map.contains_key("type") {
                map.insert("additionalProperties".into(), false.into());
            }
        }
        _ => {}
    }
}

#[test]
fn failing_commands_print_one_json_object() {
    let user = User::new();
    for (args, exit, code) in [
        (&["run", "./nowhere", "--json"][..], Some(65), Some("skill")),
        (&["run", "./nowhere", "--explain", "--json"], Some(65), Some("skill")),
        (&["run", "./hello", "--json", "--audit", "/dev/null/x"], Some(74), Some("audit-write")),
        (&["run", "nowhere", "--json"], Some(64), Some("no-skill")),
        (&["run", "nowhere", "--explain", "--json"], Some(64), Some("no-skill")),
        (&["run", "./hello", "--json", "--policy", "nowhere.yaml"], Some(65), Some("policy")),
        (&["run", "./hello", "--json", "--policy", "bad.yaml"], Some(65), Some("policy")),
        (&["run", "./several", "reprot.py", "--json"], Some(64), Some("choice")),
        (&["bench", "nowhere", "--json"], Some(64), Some("usage")),
        (&["build", "./nowhere", "--json"], Some(65), Some("skill")),
        (&["check", "nowhere", "--json"], Some(64), Some("no-skill")),
        (&["diff", "a.json", "b.json", "--json"], Some(74), Some("io")),
        (&["inspect", "./nowhere", "--json"], Some(65), Some("invalid")),
        (&["list", "--json", "--skills", "./nowhere"], Some(64), Some("usage")),
        (&["mount", "--into", ".", "./hello", "--json"], Some(65), Some("mount")),
        (&["mount", "--into", "x", "./nowhere", "--json"], Some(64), Some("no-skill")),
        (&["prompt", "--json", "--skills", "./nowhere"], Some(64), Some("usage")),
        (&["replay", "./nowhere", "--json"], Some(74), Some("io")),
        (&["runtimes", "--json", "--programs", "./nowhere"], Some(64), Some("usage")),
        (&["search", "x", "--json", "--skills", "./nowhere"], Some(64), Some("usage")),
        (&["state", "wipe", "nowhere", "--json"], Some(64), Some("usage")),
        (&["audit", "verify", "--json", "--audit", "nowhere.jsonl"], Some(74), Some("audit-read")),
        (&["audit", "prune", "--json"], Some(64), Some("usage")),
        (&["test", "./nowhere", "--json"], Some(65), Some("skill")),
        (&["test", "./hello", "--json"], Some(65), Some("invalid")),
        (&["verify", "--json"], Some(64), Some("usage")),
        (&["nowhere", "--json"], Some(64), Some("usage")),
        (&["run", "./hello", "--json", "--timeout", "soon"], Some(64), Some("usage")),
        (&["run", "./hello", "--json", "--apply"], Some(64), Some("usage")),
        (&["show", "nowhere", "--json"], Some(64), Some("no-skill")),
        (&["audit", "list", "--json", "--audit", "nowhere.jsonl"], Some(74), Some("audit-read")),
        (&["verify", "nowhere.json", "--json"], None, None),
        (&["stats", "--json", "--policy", "nowhere.yaml"], None, None),
    ] {
        let run = user.skillhost(args);
        let value: Value = serde_json::from_slice(&run.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {run:?}"));
        let error = &value["error"];
        assert!(
            error["code"].is_string() && error["message"].is_string() && error.get("fix").is_some(),
            "{args:?}: {value}"
        );
        assert!(
            !run.status.success() && exit.is_none_or(|exit| run.status.code() == Some(exit)),
            "{args:?}: {run:?}"
        );
        assert!(code.is_none_or(|code| error["code"] == code), "{args:?}: {value}");
        // Programs that read a stream of lines read errors the same way.
        assert_eq!(text(&run.stdout).lines().count(), 1, "{args:?}: {run:?}");
        assert!(PREFACE.contains(&format!("`{}`", error["code"].as_str().unwrap())), "{value}");
    }
    let missing: Value =
        serde_json::from_slice(&user.skillhost(&["run", "./nowhere", "--json"]).stdout).unwrap();
    assert!(missing["error"]["diagnostics"][0]["message"].is_string(), "{missing:#}");
    let bad = user.skillhost(&["list", "--json", "--policy", "bad.yaml"]);
    let bad: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(bad["error"]["diagnostics"].as_array().map(Vec::len), Some(3), "{bad:#}");
    // An argument for the skill, not for skillhost.
    assert!(user.skillhost(&["run", "./nowhere", "--", "--json"]).stdout.is_empty());
}
