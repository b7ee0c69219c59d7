//! The skills that keep state, and the formatter, as an agent uses them: through their tools, on
//! the command line.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{User, repository, text};
use crate::support::files;

struct Place(User);

impl Place {
    fn new() -> Place {
        let place = Place(User::new());
        std::fs::write(
            place.0.work().join("p.yaml"),
            "default: { allow: [Read, Write] }\nlimits: { state: 1MiB }\n",
        )
        .unwrap();
        place
    }

    fn run(&self, skill: &str, args: &[&str]) -> (i32, String, String) {
        let folder = repository("skills").join(skill);
        assert!(
            folder.join(format!("{skill}.wasm")).is_file(),
            "{skill} is not built: run `cargo xtask components`"
        );
        let mut run = self.0.command(env!("CARGO_BIN_EXE_skillhost"));
        run.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")))
            .arg("run")
            .arg(folder)
            .args(args);
        let output = run.output().unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// The result of a tool call.
    fn call(&self, skill: &str, tool: &str, input: Value) -> Value {
        let (code, stdout, stderr) = self.run(
            skill,
            &[tool, "--input", &input.to_string(), "--policy", "p.yaml", "--workspace", "."],
        );
        assert_eq!(code, 0, "{skill} {tool} {input}: {stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    fn fails(&self, skill: &str, tool: &str, input: Value) -> String {
        let (code, _, stderr) = self.run(
            skill,
            &[tool, "--input", &input.to_string(), "--policy", "p.yaml", "--workspace", "."],
        );
        assert_eq!(code, 1, "{skill} {tool} {input}: {stderr}");
        stderr
    }
}

#[test]
fn notes_are_there_in_the_next_run() {
    let place = Place::new();
    let saved = place.call(
        "notes",
        "save",
        json!({ "text": "# Release\nShip on Friday.", "tags": ["Work"] }),
    );
    assert_eq!(
        (&saved["id"], &saved["title"], &saved["tags"]),
        (&json!(1), &json!("Release"), &json!(["work"]))
    );
    place.call("notes", "save", json!({ "text": "Milk and bread" }));
    assert_eq!(
        place.call("notes", "search", json!({ "query": "friday ship" }))["notes"][0]["excerpt"],
        "Ship on Friday."
    );
    place.call("notes", "update", json!({ "id": 1, "text": "Ship on Monday." }));
    assert_eq!(place.call("notes", "read", json!({ "id": 1 }))["text"], "Ship on Monday.");
    let listed = place.call("notes", "list", json!({}));
    assert_eq!((listed["notes"].as_array().unwrap().len(), &listed["more"]), (2, &json!(0)));
    place.call("notes", "delete", json!({ "id": 1 }));
    assert!(place.fails("notes", "read", json!({ "id": 1 })).contains("there is no note 1"));
    // The state is exported unchanged, and is gone after a wipe.
    assert!(place.0.skillhost(&["state", "export", "notes", "out"]).status.success());
    assert!(
        std::fs::read_to_string(place.0.work().join("out/notes.json"))
            .unwrap()
            .contains("Milk and bread")
    );
    assert!(place.0.skillhost(&["state", "wipe", "notes"]).status.success());
    assert_eq!(place.call("notes", "list", json!({}))["notes"], json!([]));
}

#[test]
fn skills_of_the_host_keep_state_without_a_policy() {
    let place = Place::new();
    let shown = place.0.skillhost(&[
        "show",
        "notes",
        "--json",
        "--skills",
        repository("skills").to_str().unwrap(),
    ]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let programs = place.0.work().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let list = json!({ "state": { shown["skill_digest"].as_str().unwrap(): "16MiB" } });
    std::fs::write(programs.join("state.json"), list.to_string()).unwrap();
    let save = ["save", "--input", r#"{"text": "Milk"}"#, "--programs", "programs"];
    let (code, _, stderr) = place.run("notes", &save);
    assert_eq!(code, 0, "{stderr}");
    let (_, stdout, _) = place.run("notes", &["list", "--input", "{}", "--programs", "programs"]);
    assert!(stdout.contains("Milk"), "{stdout}");
    let (_, stdout, _) = place.run("notes", &["--explain", "--programs", "programs"]);
    assert!(stdout.contains("keep up to 16 MiB between runs"), "{stdout}");
    // Other skills, changed ones and operators with a policy of their own decide for themselves.
    let (code, _, stderr) =
        place.run("tasks", &["list", "--input", "{}", "--programs", "programs"]);
    assert!(code == 1 && stderr.contains("limits: { state: 16MiB }"), "{stderr}");
    std::fs::write(place.0.work().join("own.yaml"), "default: { allow: [Read] }\n").unwrap();
    let (code, _, _) = place.run("notes", &[&save[..], &["--policy", "own.yaml"]].concat());
    assert_eq!(code, 1);
    let changed = place.0.work().join("notes");
    std::fs::create_dir(&changed).unwrap();
    std::fs::copy(repository("skills/notes/notes.wasm"), changed.join("notes.wasm")).unwrap();
    std::fs::write(
        changed.join("SKILL.md"),
        "---\nname: notes\ndescription: N.\nmetadata: {component: notes.wasm}\n---\n",
    )
    .unwrap();
    let output = place.0.skillhost(&[&["run", "./notes"][..], &save].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
}

#[test]
fn missing_grants_suggest_the_line_that_adds_them() {
    let place = Place::new();
    for (skill, tool) in [("notes", "list"), ("tasks", "list")] {
        let (code, _, stderr) = place.run(skill, &[tool, "--input", "{}"]);
        assert!(code == 1 && stderr.contains("limits: { state: 16MiB }"), "{stderr}");
    }
    assert_eq!(text(&place.0.skillhost(&["state", "list"]).stdout), "no skill has state\n");
}

#[test]
fn a_full_state_is_reported_and_keeps_its_files() {
    let place = Place::new();
    std::fs::write(place.0.work().join("p.yaml"), "limits: { state: 4KiB }\n").unwrap();
    place.call("notes", "save", json!({ "text": "small" }));
    let input = json!({ "text": "x".repeat(5_000) }).to_string();
    let (code, _, stderr) = place.run("notes", &["save", "--input", &input, "--policy", "p.yaml"]);
    assert!(
        code == 125 && stderr.contains("the limit `state` of 4 KiB, set by "),
        "{code} {stderr}"
    );
    assert_eq!(place.call("notes", "list", json!({}))["notes"][0]["title"], "small");
}

#[test]
fn tasks_are_due_in_order_and_done_once() {
    let place = Place::new();
    place.call("tasks", "create", json!({ "title": "later", "due": "+2w" }));
    place.call(
        "tasks",
        "create",
        json!({ "title": "long ago", "due": "2020-02-29", "tags": ["home"] }),
    );
    place.call("tasks", "create", json!({ "title": "some day" }));
    let ids = |listed: Value| {
        listed["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["id"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let listed = place.call("tasks", "list", json!({}));
    assert_eq!(
        (&listed["tasks"][0]["overdue"], &listed["tasks"][1]["overdue"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(ids(listed), [2, 1, 3]);
    place.call("tasks", "complete", json!({ "id": 2 }));
    assert_eq!(ids(place.call("tasks", "list", json!({ "status": "overdue" }))), Vec::<u64>::new());
    assert_eq!(ids(place.call("tasks", "search", json!({ "query": "HOME long" }))), [2]);
    assert!(
        place
            .fails("tasks", "create", json!({ "title": "x", "due": "2026-02-30" }))
            .contains("is not a valid day")
    );
}

#[test]
fn tasks_have_priorities_and_reminders_and_are_exported() {
    let place = Place::new();
    // The state of a version without priorities and reminders.
    let old = json!({ "last": 1, "tasks": [{ "id": 1, "title": "old", "due": "2020-02-29", "created": "2020-01-01" }] });
    place.call("tasks", "create", json!({ "title": "first" }));
    let stored = files(&place.0.home().join(".local/share/skillhost/state"));
    let stored: Vec<_> = stored
        .iter()
        .map(|owner| owner.join("files/tasks.json"))
        .filter(|file| file.is_file())
        .collect();
    assert_eq!(stored.len(), 1, "{stored:?}");
    std::fs::write(&stored[0], old.to_string()).unwrap();
    place.call(
        "tasks",
        "create",
        json!({ "title": "pay", "due": "+2d", "priority": "high", "reminder": "1w before" }),
    );
    place.call("tasks", "create", json!({ "title": "plan", "reminder": "+3d" }));
    let listed = place.call("tasks", "list", json!({ "sort": "priority" }));
    let ids: Vec<&Value> =
        listed["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [2, 1, 3]);
    assert_eq!(
        (&listed["reminders"], &listed["tasks"][1]["priority"]),
        (&json!([2]), &json!("normal"))
    );
    let due = place.call("tasks", "list", json!({ "status": "reminders" }));
    assert_eq!(due["tasks"].as_array().unwrap().len(), 1);
    let exported = place.call("tasks", "export", json!({}));
    assert_eq!(exported["tasks"], 3);
    let lines = |calendar: &str| -> Vec<String> {
        calendar
            .split("\r\n")
            .filter(|line| !line.starts_with("DTSTAMP"))
            .map(str::to_owned)
            .collect()
    };
    let calendar = lines(exported["calendar"].as_str().unwrap());
    assert_eq!(calendar[0], "BEGIN:VCALENDAR");
    for line in ["PRIORITY:1", "TRIGGER;RELATED=END:-P7D", "DUE;VALUE=DATE:20200229"] {
        assert!(calendar.contains(&line.to_owned()), "{calendar:?}");
    }
    // The identifiers of a second export are the same.
    let (code, stdout, stderr) = place.run("tasks", &["--policy", "p.yaml", "--", "export"]);
    assert_eq!((code, lines(&stdout)), (0, calendar), "{stderr}");
    let (code, stdout, _) = place.run("tasks", &["--policy", "p.yaml", "--", "list"]);
    assert!(code == 0 && stdout.contains("!    2  20"), "{stdout}");
}

#[test]
fn memories_are_recalled_and_saved_notes_are_searched() {
    let place = Place::new();
    place.call(
        "memory-recall",
        "remember",
        json!({ "text": "The staging database listens on port 5433.", "source": "Bob" }),
    );
    place.call("memory-recall", "remember", json!({ "text": "Anna prefers tea." }));
    let found = place.call(
        "memory-recall",
        "recall",
        json!({ "query": "which port do the databases listen on?" }),
    );
    assert_eq!(
        (&found["found"][0]["id"], &found["found"][0]["source"], &found["searched"]),
        (&json!(1), &json!("Bob"), &json!(2))
    );
    std::fs::create_dir_all(place.0.work().join("saved/deep")).unwrap();
    std::fs::write(
        place.0.work().join("saved/deep/trip.md"),
        "# Trip\n\nThe train to Zürich leaves at noon.\n",
    )
    .unwrap();
    let found = place.call(
        "memory-recall",
        "recall",
        json!({ "query": "zürich trains", "path": "/workspace/saved" }),
    );
    assert_eq!(found["found"][0]["source"], "/workspace/saved/deep/trip.md");
    assert_eq!(
        place.call("memory-recall", "forget", json!({ "id": 1 }))["text"],
        "The staging database listens on port 5433."
    );
    assert_eq!(
        place.call("memory-recall", "recall", json!({ "query": "staging" }))["found"],
        json!([])
    );
}

#[test]
fn files_are_formatted_in_place_only_on_request() {
    let place = Place::new();
    let file = place.0.work().join("a.json");
    std::fs::write(&file, "{\"b\":1.10,\n// why\n\"a\":[1,2]}").unwrap();
    let shown = place.call("code-format", "format", json!({ "path": "a.json" }));
    assert_eq!((&shown["language"], &shown["changed"]), (&json!("json"), &json!(true)));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("{\"b\""), "only shown");
    let checked =
        place.call("code-format", "check", json!({ "paths": ["a.json", "nowhere.toml"] }));
    assert_eq!(checked["files"][0]["formatted"], json!(false));
    assert!(checked["files"][1]["error"].as_str().unwrap().contains("nowhere.toml"));
    place.call("code-format", "format", json!({ "path": "a.json", "write": true }));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "{\n  \"b\": 1.10,\n  // why\n  \"a\": [1, 2]\n}\n"
    );
    assert!(
        place
            .fails("code-format", "format", json!({ "text": "a: [", "language": "yaml" }))
            .contains("error")
    );
}

#[test]
fn all_skills_of_the_repository_meet_the_specification() {
    let place = Place::new();
    let output = place
        .0
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .arg("check")
        .arg(repository("skills"))
        .arg("--json")
        .output()
        .unwrap();
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    let skills = checked["skills"].as_array().unwrap();
    assert_eq!(skills.len(), 18);
    for skill in skills {
        assert_eq!(skill["diagnostics"], json!([]), "{}", skill["path"]);
    }
}
