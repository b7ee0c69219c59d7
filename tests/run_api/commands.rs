//! The command line as a client of the run API, and what it refuses of a server.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_ledger::receipt::canonical;
use skillhost_skill::runtime::digest;

use super::ApiServer;
use crate::mcp::Place;
use crate::servers::{self, respond};
use crate::support::text;

/// A client of a server, with the token in a file.
pub struct Client<'a> {
    place: &'a Place,
    url: String,
    token: String,
}

impl<'a> Client<'a> {
    pub fn of(place: &'a Place, server: &ApiServer) -> Client<'a> {
        let url = format!("http://{}", server.server.address);
        Client { place, url, token: server.token.clone() }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.args(args).env("SKILLHOST_SERVER", &self.url).env("SKILLHOST_TOKEN", &self.token);
        command
    }

    pub fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        (status.code(), text(&stdout), text(&stderr))
    }

    pub fn succeeds(&self, args: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(args);
        assert_eq!(code, Some(0), "{args:?}: {stdout}{stderr}");
        stdout
    }
}

#[test]
fn submit_with_wait_behaves_as_run() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let input = place.user.work().join("input.txt");
    std::fs::write(&input, "typed\n").unwrap();
    let stdin = input.to_str().unwrap();
    let (code, stdout, stderr) =
        client.run(&["submit", "scribe", "note.sh", "--stdin", stdin, "--wait", "--", "a", "b"]);
    assert_eq!((code, &*stdout, &*stderr), (Some(0), "note: a b\ntyped\n", "told\n"));
    for (command, expected) in [("exit 7", 7), ("exit 64", 64)] {
        assert_eq!(
            client.run(&["submit", "scribe", "--command", command, "--wait"]).0,
            Some(expected)
        );
    }
    let (code, _, stderr) =
        client.run(&["submit", "scribe", "wait.sh", "--timeout", "50ms", "--wait"]);
    assert!(code == Some(124) && stderr.contains("timeout"), "{code:?} {stderr}");
    let tool =
        ["submit", "calculator", "calculate", "--input", "{\"expression\": \"6 * 7\"}", "--wait"];
    let result: Value = serde_json::from_str(&client.succeeds(&tool)).unwrap();
    assert_eq!(result["result"], "42");
    let whole: Value =
        serde_json::from_str(&client.succeeds(&[&tool[..], &["--json"]].concat())).unwrap();
    assert_eq!(whole["outcome"]["result"]["result"], "42");
    let (code, _, stderr) = client.run(&["submit", "nothing", "--wait"]);
    assert!(code == Some(64) && stderr.contains("there is no such skill"), "{stderr}");
    let (_, stdout, _) = client.run(&["submit", "nothing", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["error"]["code"], "no-skill");
}

#[test]
fn a_run_is_listed_followed_cancelled_and_read_later() {
    let place = Place::new();
    place.write("scribe/scripts/slow.sh", "#!/bin/bash\necho first\nsleep 1\necho last\nexit 5\n");
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let key = ["submit", "scribe", "slow.sh", "--key", "nightly"];
    let id = client.succeeds(&key).trim().to_owned();
    assert_eq!(client.succeeds(&key).trim(), id, "the same key is the same run");
    assert_eq!(client.succeeds(&["logs", "--follow", &id]), "first\nlast\n");
    assert_eq!(client.succeeds(&["logs", &id]), "first\nlast\n");
    let (code, stdout, _) = client.run(&["result", &id]);
    assert_eq!((code, &*stdout), (Some(5), "first\nlast\n"));
    let status: Value = serde_json::from_str(&client.succeeds(&["status", &id, "--json"])).unwrap();
    assert_eq!((&status["status"], &status["exit_code"]), (&json!("failed"), &json!(5)));
    let waits = client.succeeds(&["submit", "scribe", "wait.sh"]).trim().to_owned();
    server.until(&waits, "running");
    let (code, _, stderr) = client.run(&["result", &waits]);
    assert!(code == Some(64) && stderr.contains("has not ended"), "{stderr}");
    let began = Instant::now();
    assert!(client.succeeds(&["cancel", &waits]).contains("cancelled"));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(client.run(&["result", &waits]).0, Some(130));
    let list = client.succeeds(&["status"]);
    assert!(list.contains(&id) && list.contains(&waits), "{list}");
    assert!(!client.succeeds(&["status", "--only", "cancelled"]).contains(&id));
    assert_eq!(client.run(&["status", "../blobs"]).0, Some(64));
}

#[test]
fn a_workspace_is_uploaded_and_its_changes_are_applied_to_unchanged_files_only() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let project = place.user.work().join("project");
    std::fs::create_dir_all(project.join("sub")).unwrap();
    std::fs::write(project.join("in.txt"), "old\n").unwrap();
    std::os::unix::fs::symlink("in.txt", project.join("link")).unwrap();
    std::fs::create_dir(project.join("empty")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(project.join("socket")).unwrap();
    let folder = project.to_str().unwrap();
    let edit = "cat /workspace/link; ls /workspace; echo new > /workspace/in.txt; echo x > /workspace/sub.txt";
    let submit = ["submit", "writer", "--command", edit, "--workspace", folder, "--wait"];
    let (code, stdout, stderr) = client.run(&submit);
    assert_eq!((code, &*stdout), (Some(0), "old\nempty\nin.txt\nlink\nsub\n"), "{stderr}");
    assert!(
        stderr.contains("1 entry of the workspace not uploaded")
            && stderr.contains("the run wrote"),
        "{stderr}"
    );
    assert_eq!(std::fs::read_to_string(project.join("in.txt")).unwrap(), "old\n");
    let diff = client.succeeds(&[&submit[..], &["--diff"]].concat());
    assert!(diff.contains("-old") && diff.contains("+new"), "{diff}");
    let id = client.succeeds(&submit[..6]).trim().to_owned();
    server.result(&id);
    // A file that changed meanwhile keeps all changes away.
    std::fs::write(project.join("in.txt"), "mine\n").unwrap();
    let (code, _, stderr) = client.run(&["result", &id, "--apply", folder]);
    assert!(code == Some(74) && stderr.contains("has changed since the run"), "{stderr}");
    assert!(!project.join("sub.txt").exists());
    std::fs::write(project.join("in.txt"), "old\n").unwrap();
    client.succeeds(&[&submit[..], &["--apply"]].concat());
    assert_eq!(std::fs::read_to_string(project.join("in.txt")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(project.join("sub.txt")).unwrap(), "x\n");
}

#[test]
fn a_receipt_of_a_run_with_symlinks_is_verified_with_the_same_folder() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let project = place.user.work().join("project");
    std::fs::create_dir_all(project.join("sub")).unwrap();
    std::fs::write(project.join("sub/in.txt"), "old\n").unwrap();
    std::os::unix::fs::symlink("sub/in.txt", project.join("link")).unwrap();
    let folder = project.to_str().unwrap();
    let edit = "cat link; echo new >> link; ln -s sub made";
    let submit = ["submit", "writer", "--command", edit, "--workspace", folder];
    let id = client.succeeds(&[&submit[..], &["--deterministic", "--receipt"]].concat());
    let result = server.result(id.trim());
    assert_eq!(result["outcome"]["stdout"], "old\n", "{result}");
    let receipt = place.user.work().join("receipt.json");
    std::fs::write(&receipt, canonical::text(&result["receipt"])).unwrap();
    let verify = || {
        let receipt = receipt.to_str().unwrap();
        client.run(&["verify", receipt, "--unsigned", "--skill", "writer", "--inputs", folder])
    };
    let (code, stdout, stderr) = verify();
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    // Another target is another input.
    std::fs::remove_file(project.join("link")).unwrap();
    std::os::unix::fs::symlink("./sub/in.txt", project.join("link")).unwrap();
    let (code, stdout, stderr) = verify();
    assert_eq!(code, Some(83), "{stdout}{stderr}");
}

#[test]
fn a_local_skill_is_uploaded_and_needs_the_operators_approval() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let folder = place.user.work().join("mine");
    crate::cli::script_skill(&folder, &[("go.sh", "#!/bin/bash\necho mine\n")]);
    let submit = ["submit", "./mine", "go.sh", "--wait"];
    let (code, stdout, stderr) = client.run(&submit);
    assert!(code == Some(77) && stdout.is_empty(), "{code:?} {stdout}{stderr}");
    assert!(stderr.contains("skillhost approve"), "{stderr}");
}

/// A server that answers as `answer` says, by path.
fn hostile(answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static) -> servers::Server {
    servers::Server::start(move |request, stream| {
        let request = String::from_utf8_lossy(request);
        let path = request.split(' ').nth(1).unwrap_or_default();
        match answer(path) {
            Some(value) if value.is_string() => {
                respond(stream, "200 OK", "", value.as_str().unwrap().as_bytes())
            }
            Some(value) => respond(stream, "200 OK", "", value.to_string().as_bytes()),
            None => respond(stream, "404 Not Found", "", b"{}"),
        }
    })
}

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Runs `result --apply` against a server that sends these changes, and the text `evil` as each blob.
fn apply_hostile(place: &Place, folder: &Path, changes: Value) -> Output {
    let run = json!({ "id": ID, "status": "succeeded", "skill": "x", "submitted": "now", "outcome": "exited", "exit_code": 0 });
    let outcome = json!({ "status": { "kind": "exited", "code": 0 }, "stdout": "", "stderr": "" });
    let result = json!({ "run": run, "outcome": outcome, "changes": changes });
    let server = hostile(move |path| match path {
        path if path.ends_with("/result") => Some(result.clone()),
        path if path.starts_with("/v1/blobs/") => Some(json!("evil")),
        _ => None,
    });
    let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
    command.args(["result", ID, "--server", &server.url(), "--apply"]).arg(folder);
    command.output().unwrap()
}

#[test]
fn a_hostile_server_cannot_write_outside_the_folder_or_what_runs_later() {
    let place = Place::new();
    let folder = place.user.work().join("target");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::os::unix::fs::symlink(place.user.home(), folder.join("out")).unwrap();
    let evil = digest(b"evil");
    let file = |digest: &str| json!({ "kind": "file", "digest": digest, "mode": 0o777 });
    for (path, after, code) in [
        ("../outside", file(&evil), 77),
        ("/etc/outside", file(&evil), 77),
        ("a/../../outside", file(&evil), 77),
        (".git/config", file(&evil), 77),
        (".bashrc", file(&evil), 77),
        ("sub/.vscode/tasks.json", file(&evil), 77),
        ("line\nend", file(&evil), 77),
        ("other", file(&digest(b"good")), 77),
        ("other", file("sha256:../../runs"), 77),
        ("out/escaped", file(&evil), 74),
    ] {
        let run = apply_hostile(&place, &folder, json!([{ "path": path, "after": after }]));
        assert_eq!(run.status.code(), Some(code), "{path}: {run:?}");
    }
    let escaped = [place.user.work().join("outside"), place.user.home().join("escaped")];
    assert!(escaped.iter().all(|path| !path.exists()));
    let names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let run = apply_hostile(&place, &folder, json!([{ "path": "fine.txt", "after": file(&evil) }]));
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert_eq!(std::fs::read_to_string(folder.join("fine.txt")).unwrap(), "evil");
}

#[test]
fn a_client_sends_its_token_to_no_server_in_the_clear_and_takes_none_from_arguments() {
    let place = Place::new();
    let skillhost = |args: &[&str]| {
        let mut command = place.user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.args(args).env("SKILLHOST_TOKEN", "secret-token-of-the-tests").stdin(Stdio::null());
        command.output().unwrap()
    };
    let clear = skillhost(&["status", "--server", "http://server.example"]);
    assert_eq!(clear.status.code(), Some(64), "{clear:?}");
    assert!(text(&clear.stderr).contains("https only"), "{clear:?}");
    assert_eq!(skillhost(&["status", "--token", "x"]).status.code(), Some(64));
    for wrong in ["ftp://127.0.0.1", "127.0.0.1", "http://127.0.0.1/path", "http://"] {
        assert_eq!(skillhost(&["status", "--server", wrong]).status.code(), Some(64), "{wrong}");
    }
    let answers = [
        ("no JSON", json!("<html>")),
        ("endless JSON", json!("[".repeat(1 << 20))),
        (
            "another id",
            json!({ "id": "../../x", "status": "queued", "skill": "x", "submitted": "" }),
        ),
    ];
    for (what, answer) in answers {
        let server = hostile(move |_| Some(answer.clone()));
        let run = skillhost(&["submit", "x", "--wait", "--server", &server.url()]);
        assert_eq!(run.status.code(), Some(74), "{what}: {run:?}");
        assert!(!text(&run.stderr).contains("secret-token"), "{what}: {run:?}");
        // Nothing of the server is printed unchecked.
        let run = skillhost(&["submit", "x", "--server", &server.url()]);
        assert!(run.status.code() == Some(74) && run.stdout.is_empty(), "{what}: {run:?}");
    }
}
