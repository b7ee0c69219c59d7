//! Third-party clients: the official Python and TypeScript SDKs, and the Inspector. `cargo xtask
//! clients` fetches them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::http::Server;
use super::{Place, TRUSTED};
use crate::cli::{repository, text};

fn client(path: &str) -> PathBuf {
    let path = repository("target").join("clients").join(path);
    assert!(path.exists(), "{} is missing: run `cargo xtask clients` first", path.display());
    path
}

/// The steps of a session by name; steps with the same name keep their order.
struct Steps(Vec<Value>);

impl Steps {
    fn of(command: &mut Command) -> Steps {
        let run = command.output().unwrap();
        assert!(run.status.success(), "{}\n{}", text(&run.stdout), text(&run.stderr));
        Steps(text(&run.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn all(&self, step: &str) -> Vec<&Value> {
        self.0.iter().filter(|found| found["step"] == step).collect()
    }

    fn first(&self, step: &str) -> &Value {
        self.all(step)[0]
    }

    fn text(&self, step: &str) -> &str {
        self.first(step)["text"].as_str().unwrap()
    }
}

/// A client with its arguments up to the mode, in the user's environment.
fn python(place: &Place) -> Command {
    let mut command = place.user.command(client("python/bin/python").to_str().unwrap());
    command.arg(repository("tests/clients/python/session.py"));
    command
}

fn node(place: &Place) -> Command {
    // The machine determines which `node` this is.
    let mut command = place.user.command("node");
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.arg(repository("tests/clients/node/session.mjs")).arg(client("node"));
    command
}

/// The operator's folder.
fn workspace(place: &Place) -> PathBuf {
    let folder = place.user.work().join("shared");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Asserts that the user was asked before a write to the operator's folder, and agreed.
fn check_approved(steps: &Steps, place: &Place) {
    assert!(steps.text("asked").starts_with("writer asks to run"), "{}", steps.text("asked"));
    assert_eq!(steps.first("approved")["is_error"], false, "{}", steps.first("approved"));
    assert_eq!(std::fs::read_to_string(workspace(place).join("sub/out.txt")).unwrap(), "kept\n");
    let approvals = text(&place.user.skillhost(&["permissions", "--json"]).stdout);
    assert!(approvals.contains("the user of "), "the approval records its user: {approvals}");
}

/// The command of a server that a client starts: its program, its arguments, and the environment
/// that the client must pass on.
fn stdio(command: &mut Command, place: &Place) {
    start(
        command,
        &place.server(
            "mcp",
            &[
                "--workspace",
                workspace(place).to_str().unwrap(),
                "--policy",
                &place.asking_clients(),
            ],
        ),
    );
}

fn start(command: &mut Command, server: &Command) {
    command.arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let path = std::env::var_os("PATH").unwrap();
    command.env("PATH", path);
}

/// Checks the session, whichever client completed it.
fn check(steps: &Steps, place: &Place, is_alone: bool) {
    let names = |step: &Value| {
        step["names"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let [before, after] = steps.all("tools")[..] else { panic!("{:?}", steps.0) };
    let discovery = ["discover_skills", "activate_skill", "read_skill_file"];
    assert_eq!(names(before)[..3], discovery);
    assert_eq!(names(after).len(), if is_alone { 4 } else { 6 }, "{after}");
    assert!(
        steps.text("discover").contains("scribe: The scribe of the tests."),
        "{}",
        steps.text("discover")
    );
    assert!(steps.text("activate").contains("then run `scripts/note.sh`"));
    assert_eq!(steps.text("read"), "one\ntwo\n");
    let run = steps.first("run");
    assert_eq!(
        (&run["is_error"], &run["output"]["stdout"], &run["output"]["exit_code"]),
        (&json!(false), &json!("note: x\nin\n"), &json!(0)),
        "{run}"
    );
    assert_eq!(steps.first("tool")["output"]["result"], "18446744073709551617");
    let refused = steps.first("refused");
    assert_eq!(refused["is_error"], true);
    assert!(
        refused["denials"][0]["what"].as_str().unwrap().contains("/workspace/out.txt"),
        "{refused}"
    );

    // The operator sees it in the audit log.
    let log =
        text(&place.user.skillhost(&["audit", "list", "--json", "--status", "exited"]).stdout);
    let records: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let newest = records.iter().find(|record| record["skill"]["name"] == "scribe").unwrap();
    assert_eq!(
        (&newest["skill"]["name"], &newest["program"]["script"]["path"]),
        (&json!("scribe"), &json!("scripts/write.sh")),
        "{newest}"
    );
    // The log has a keyed digest of the denied attempt.
    assert_eq!(newest["denials"][0]["rule"], refused["denials"][0]["rule"]);
    assert_eq!(place.user.skillhost(&["audit", "verify"]).status.code(), Some(0));
}

#[test]
fn the_python_client_completes_a_session() {
    for mode in ["legacy", "auto"] {
        let place = Place::new();
        let mut command = python(&place);
        stdio(command.arg(mode), &place);
        let steps = Steps::of(&mut command);
        check(&steps, &place, false);
        check_approved(&steps, &place);
        assert_eq!(
            steps.first("connected")["version"],
            if mode == "auto" { "2026-07-28" } else { "2025-11-25" }
        );
        assert!(steps.first("run")["progress"].as_u64() >= Some(1), "{}", steps.first("run"));
        assert!(
            steps.text("resource").starts_with("---\nname: scribe\n")
                && steps.text("prompt").ends_with("Please.")
        );
    }
}

#[test]
fn the_python_client_learns_that_writes_are_staged() {
    for mode in ["legacy", "auto"] {
        let place = Place::new();
        let policy = place.user.work().join("staging.yaml");
        let text = "default: { allow: [Read, Write, Bash], stage: true, approval: enabled }\nclients: { stdio: { ask: client } }\n";
        std::fs::write(&policy, format!("{TRUSTED}{text}")).unwrap();
        let args = [
            "--workspace",
            workspace(&place).to_str().unwrap(),
            "--policy",
            policy.to_str().unwrap(),
        ]
        .map(str::to_owned);
        let mut command = python(&place);
        start(
            command.arg(mode).arg("--only"),
            &place.server("mcp", &args.each_ref().map(String::as_str)),
        );
        let steps = Steps::of(&mut command);
        let [runs] = steps.all("asked")[..] else {
            panic!("approval requested for more than the run: {:?}", steps.0)
        };
        assert!(runs["text"].as_str().unwrap().starts_with("writer asks to run"), "{runs}");
        assert!(
            steps.text("approved").contains("the operator can apply them: skillhost approve"),
            "{}",
            steps.text("approved")
        );
        assert!(!workspace(&place).join("sub/out.txt").exists());
    }
}

#[test]
fn the_python_client_completes_a_session_over_http() {
    for mode in ["legacy", "auto"] {
        let place = Place::new();
        let server = Server::new(
            &place,
            &[
                "--workspace",
                workspace(&place).to_str().unwrap(),
                "--policy",
                &place.asking_clients(),
            ],
        );
        let url = format!("http://{}/mcp", server.address);
        let steps = Steps::of(python(&place).args([mode, "--url", &url, &server.token]));
        check(&steps, &place, mode == "auto");
        check_approved(&steps, &place);
    }
}

#[test]
fn the_typescript_client_completes_a_session() {
    for mode in ["legacy", "auto"] {
        let place = Place::new();
        let mut command = node(&place);
        stdio(command.arg(mode), &place);
        check(&Steps::of(&mut command), &place, false);
    }
}

#[test]
fn the_typescript_client_verifies_files_over_http() {
    for mode in ["legacy", "auto"] {
        let place = Place::new();
        let server = Server::new(&place, &[]);
        let url = format!("http://{}/mcp", server.address);
        let steps = Steps::of(node(&place).args([mode, "--url", &url, &server.token]));
        check(&steps, &place, mode == "auto");
        if mode == "auto" {
            let skills = steps.first("skills");
            assert_eq!(skills["invalid"], json!([]));
            assert_eq!(skills["verified"].as_array().unwrap().len(), 12, "{skills}");
            assert_eq!(skills["directory"].as_array().unwrap().len(), 3, "{skills}");
        }
    }
}

#[test]
fn the_inspector_lists_and_calls_tools() {
    let place = Place::new();
    let inspect = |args: &[&str]| {
        let mut command = place.user.command("node");
        command
            .arg(client(
                "node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
            ))
            .arg("--cli");
        stdio(&mut command, &place);
        let run = command.args(args).output().unwrap();
        assert!(run.status.success(), "{}\n{}", text(&run.stdout), text(&run.stderr));
        serde_json::from_str::<Value>(&text(&run.stdout)).unwrap()
    };
    let tools = inspect(&["--method", "tools/list"]);
    assert_eq!(tools["tools"].as_array().unwrap().len(), 3, "{tools}");
    let found = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "discover_skills",
        "--tool-arg",
        "query=scribe",
    ]);
    assert!(super::answer_text(&found).contains("scribe: "), "{found}");
    let resources = inspect(&["--method", "resources/list"]);
    assert_eq!(resources["resources"].as_array().unwrap().len(), 4, "{resources}");
}
