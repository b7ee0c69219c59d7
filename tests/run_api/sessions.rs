//! Sessions of the run API: programs, files, streams, forks and snapshots of one workspace.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_server::api::tenants::new_token;

use super::{Answer, ApiServer, tenants_file};
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;

/// A session on a server.
pub struct Session<'a> {
    pub server: &'a ApiServer,
    pub id: String,
}

impl<'a> Session<'a> {
    pub fn create(server: &'a ApiServer, request: &Value) -> Session<'a> {
        let answer = server.call("POST", "/v1/sessions", request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), Some(&*format!("/v1/sessions/{id}")));
        Session { server, id }
    }

    /// A session of the skill that may write.
    pub fn new(server: &'a ApiServer) -> Session<'a> {
        Session::create(server, &json!({ "skills": ["writer"] }))
    }

    pub fn path(&self, part: &str) -> String {
        format!("/v1/sessions/{}/{part}", self.id)
    }

    pub fn get(&self, part: &str) -> Answer {
        self.server.get(&self.path(part))
    }

    pub fn post(&self, part: &str, body: &Value) -> Answer {
        self.server.call("POST", &self.path(part), body)
    }

    /// Runs a program to its end, and returns its result.
    pub fn run(&self, mut request: Value) -> Value {
        request["wait"] = json!(60);
        let answer = self.post("programs", &request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Runs a shell command that has to succeed, and returns what it prints.
    pub fn sh(&self, text: &str) -> String {
        let result = self.run(json!({ "target": { "command": text } }));
        assert_eq!(result["run"]["status"], "succeeded", "{text}: {result}");
        result["outcome"]["stdout"].as_str().unwrap().to_owned()
    }

    /// Starts a program, and returns its path.
    pub fn start(&self, request: &Value) -> String {
        let answer = self.post("programs", request);
        assert_eq!(answer.status, 202, "{}", answer.text());
        self.path(&format!("programs/{}", answer.json()["run"]["id"].as_str().unwrap()))
    }

    pub fn put(&self, path: &str, bytes: &[u8]) -> Answer {
        let url = self.path(&format!("file?path={path}"));
        self.server.call_as(&self.server.token, "PUT", &url, &[], bytes)
    }

    pub fn read(&self, path: &str) -> String {
        let answer = self.get(&format!("file?path={path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    pub fn changed(&self) -> Vec<String> {
        let diff = self.get("diff").json();
        let changes = diff["changes"].as_array().unwrap();
        changes.iter().map(|change| change["path"].as_str().unwrap().to_owned()).collect()
    }
}

/// Waits until a program has this status.
pub fn until(server: &ApiServer, program: &str, status: &str) {
    let began = Instant::now();
    while server.get(program).json()["status"] != status {
        assert!(began.elapsed() < HANG_TIMEOUT, "{}", server.get(program).text());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The folder of the sessions of a tenant.
fn folder(place: &Place, tenant: &str) -> PathBuf {
    place.user.home().join(".local/state/skillhost/tenants").join(tenant).join("sessions")
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn programs_and_requests_see_the_same_files() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::create(
        &server,
        &json!({ "skills": ["writer", "scribe"], "files": { "in.txt": { "content": "one\n" } } }),
    );
    assert_eq!(
        session.sh("cat in.txt; mkdir -p sub; echo two > sub/out; echo three > /tmp/x"),
        "one\n"
    );
    assert_eq!(
        (session.read("sub/out"), session.read("/tmp/x")),
        ("two\n".into(), "three\n".into())
    );
    assert_eq!(session.put("new/deep.txt", b"put\n").json(), json!({ "bytes": 4 }));
    assert_eq!(session.sh("cat new/deep.txt /tmp/x /workspace/sub/out"), "put\nthree\ntwo\n");
    // A program by its arguments, of which none is a command of the shell.
    let hostile =
        session.run(json!({ "args": ["echo", "$(touch stolen); `id`"], "cwd": "/workspace/sub" }));
    assert_eq!(hostile["outcome"]["stdout"], "$(touch stolen); `id`\n");
    let variable = session.run(
        json!({ "args": ["bash", "-c", "echo $A; pwd"], "env": { "A": "a b" }, "cwd": "sub" }),
    );
    assert_eq!(variable["outcome"]["stdout"], "a b\n/workspace/sub\n");
    // A part of another skill of the session, with its permissions: it may not write.
    let script = json!({ "skill": "scribe", "target": { "script": "write.sh" } });
    assert_ne!(session.run(script)["run"]["exit_code"], 0);
    let other = session.post("programs", &json!({ "skill": "loud", "args": ["ls"] }));
    assert_eq!(other.code(), "invalid-request", "a skill that is not the session's");
    let listed = session.get("files?path=/workspace&recursive=true").json();
    let paths: Vec<&str> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["in.txt", "new", "new/deep.txt", "sub", "sub/out"]);
    assert_eq!(session.changed(), ["new", "new/deep.txt", "sub", "sub/out"]);
    let removed = server.call("DELETE", &session.path("file?path=new"), &Value::Null);
    assert_eq!(removed.code(), "file-conflict");
    let removed =
        server.call("DELETE", &session.path("file?path=new&recursive=true"), &Value::Null);
    assert_eq!(removed.status, 200, "{}", removed.text());
    assert_eq!(session.get("file?path=new/deep.txt").code(), "not-found");
    // The base is the client's, and the record names the session.
    let info = server.get(&format!("/v1/sessions/{}", session.id)).json();
    assert_eq!((&info["status"], &info["running"]), (&json!("active"), &json!(0)));
    assert!(place.user.records().iter().any(|record| record.to_string().contains(&session.id)));
}

#[test]
fn input_is_streamed_output_is_followed_and_a_signal_ends_a_program_at_once() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::new(&server);
    let echo = "while read -r line; do echo \"got $line\"; done; echo end";
    let program = session.start(&json!({ "target": { "command": echo }, "stream_stdin": true }));
    let send = |text: &str, end: bool| {
        let url = format!("{program}/stdin?end={end}");
        server.call_as(&server.token, "POST", &url, &[], text.as_bytes())
    };
    let mut events = Events::follow(&server, &format!("{program}/logs"));
    assert_eq!(send("one\n", false).status, 200);
    assert_eq!(events.next("stdout"), json!("got one\n"), "before the input has ended");
    assert_eq!(send("two\n", true).status, 200);
    assert_eq!(events.until("end")["status"], "succeeded");
    assert_eq!(send("three\n", false).code(), "program-ended");
    assert_eq!(server.get(&format!("{program}/stdout")).text(), "got one\ngot two\nend\n");
    // A guest that computes, and one that waits for input that never comes.
    for (command, stream) in [("while :; do :; done", false), ("cat", true)] {
        for signal in ["TERM", "KILL"] {
            let program =
                session.start(&json!({ "target": { "command": command }, "stream_stdin": stream }));
            until(&server, &program, "running");
            std::thread::sleep(Duration::from_millis(200));
            let began = Instant::now();
            let answer =
                server.call("POST", &format!("{program}/signal"), &json!({ "signal": signal }));
            assert_eq!(
                (answer.status, &answer.json()["status"]),
                (200, &json!("cancelled")),
                "{command}"
            );
            assert!(began.elapsed() < Duration::from_secs(1), "{command}: {:?}", began.elapsed());
        }
    }
    assert_eq!(session.sh("echo still here"), "still here\n");
    assert_eq!(
        session
            .post("programs", &json!({ "args": ["cat"], "stdin": "x", "stream_stdin": true }))
            .code(),
        "invalid-request"
    );
}

#[test]
fn programs_run_at_once_on_the_same_files_within_one_quota() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::create(&server, &json!({ "skills": ["writer"], "disk": 100_000 }));
    let waits = "until [ -s go ]; do sleep 0.05; done; cat go > seen; echo done";
    let waiting = session.start(&json!({ "target": { "command": waits } }));
    until(&server, &waiting, "running");
    // A program is no run.
    let id = waiting.rsplit('/').next().unwrap();
    assert_eq!(server.get(&format!("/v1/runs/{id}/wait?timeout=30")).status, 404);
    assert_eq!(session.sh("echo went > go"), "");
    until(&server, &waiting, "succeeded");
    assert_eq!(session.read("seen"), "went\n");
    // Together they have one quota, whoever writes.
    session.sh("head -c 60000 /dev/zero > a");
    let second = session.run(json!({ "target": { "command": "head -c 60000 /dev/zero > b" } }));
    assert_ne!(second["run"]["status"], "succeeded", "{second}");
    assert_eq!(session.put("c", &[0; 60_000]).code(), "session-disk");
    session.sh("rm a b c; head -c 90000 /dev/zero > d");
    // Neither does what another program hit end a later one.
    assert_eq!(session.run(json!({ "target": { "command": "exit 3" } }))["run"]["exit_code"], 3);
    let info = server.get(&format!("/v1/sessions/{}", session.id)).json();
    assert_eq!((&info["disk"], &info["disk_limit"]), (&json!(90_010), &json!(100_000)));
}

#[test]
fn a_session_and_its_forks_may_not_do_what_their_policy_denies() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let policy = json!({ "deny": ["Write(kept/**)"], "limits": { "timeout": 300 } });
    let request = json!({
        "skills": ["writer"], "files": { "kept/in": { "content": "one\n" } }, "policy": policy,
    });
    let session = Session::create(&server, &request);
    let info = server.get(&format!("/v1/sessions/{}", session.id)).json();
    assert_eq!(info["policy"], policy);
    let forked = session.post("fork", &json!({})).json();
    assert_eq!(forked["policy"], policy);
    let fork = Session { server: &server, id: forked["id"].as_str().unwrap().to_owned() };
    for session in [&session, &fork] {
        // Programs and requests alike.
        assert_eq!(session.sh("cat kept/in; echo two > other"), "one\n");
        let denied = session.run(json!({ "target": { "command": "echo two > kept/in" } }));
        assert_eq!(denied["run"]["status"], "failed", "{denied}");
        assert_eq!(session.put("kept/in", b"two\n").status, 403);
        assert_eq!(session.read("kept/in"), "one\n");
        // A program may ask for less time, and gets no more.
        let sleeps =
            json!({ "target": { "command": "sleep 20" }, "limits": { "timeout": 60_000 } });
        assert_eq!(session.run(sleeps)["run"]["outcome"], "limit-hit");
    }
    // Who may only read sees what others wrote.
    let read_only =
        json!({ "skills": ["writer"], "files": request["files"], "policy": { "deny": ["Write"] } });
    let read_only = Session::create(&server, &read_only);
    assert_eq!(read_only.sh("cat kept/in; touch kept/new || ls kept"), "one\nin\n");
    // Bits of permission would be seen by others.
    assert_eq!(read_only.sh("chmod 000 kept/in 2> /dev/null || echo denied"), "denied\n");
    assert!(read_only.changed().is_empty());
    // Without the policy, the skill may.
    let free =
        Session::create(&server, &json!({ "skills": ["writer"], "files": request["files"] }));
    free.sh("echo two > kept/in; sleep 0.4");
    for (policy, says) in [
        (json!({ "deny": ["Write("] }), "policy.deny[0]"),
        (json!({ "deny": ["Read", "Fly"] }), "policy.deny[1]"),
        (json!({ "deny": vec!["Read"; 65] }), "64 entries"),
        (json!({ "deny": ["x".repeat(1025)] }), "1024 bytes"),
        // Thousands of patterns, compiled for each program.
        (
            json!({ "deny": [format!("Read(/{}{})", "{a,b}".repeat(6), "/?".repeat(480))] }),
            "256 wildcards",
        ),
        (json!({ "deny": vec![format!("Read(x{})", "/?".repeat(100)); 3] }), "256 wildcards"),
        (json!({ "deny": ["Write", "Write(/tmp/**)"] }), "policy.deny[1]"),
        (json!({ "deny": ["Write(/state)"] }), "/state"),
        (json!({ "allow": ["WebFetch"] }), "allow"),
    ] {
        let request = json!({ "skills": ["writer"], "policy": policy });
        let answer = server.call("POST", "/v1/sessions", &request);
        assert_eq!(answer.status, 400, "{policy}: {}", answer.text());
        assert!(answer.text().contains(says), "{policy}: {}", answer.text());
    }
}

#[test]
fn a_file_that_is_cut_short_stays_as_it_was() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::new(&server);
    assert_eq!(session.put("file", b"old\n").status, 200);
    let state = place.user.home().join(".local/state/skillhost/tenants/default");
    let before = entries(&state.join("blobs"));
    let mut stream = TcpStream::connect(&server.server.address).unwrap();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 1000000\r\n\r\n",
        session.path("file?path=file"),
        server.server.address,
        server.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[b'n'; 500_000]).unwrap();
    let began = Instant::now();
    while entries(&state.join("blobs")) == before {
        assert!(began.elapsed() < HANG_TIMEOUT, "the upload does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(session.read("file"), "old\n", "while the new content arrives");
    drop(stream);
    while entries(&state.join("blobs")) > before {
        assert!(began.elapsed() < HANG_TIMEOUT, "the part that arrived is kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(session.read("file"), "old\n");
    // A program that has the file open goes on with the old content.
    let reads = "exec 3< file; echo ready; read -r _; cat <&3; cat file";
    let program = session.start(&json!({ "target": { "command": reads }, "stream_stdin": true }));
    let mut events = Events::follow(&server, &format!("{program}/logs"));
    events.next("stdout");
    assert_eq!(session.put("file", b"new\n").status, 200);
    let url = format!("{program}/stdin?end=true");
    assert_eq!(server.call_as(&server.token, "POST", &url, &[], b"\n").status, 200);
    events.until("end");
    assert_eq!(server.get(&format!("{program}/stdout")).text(), "ready\nold\nnew\n");
}

#[test]
fn the_rules_of_programs_hold_for_requests() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::new(&server);
    let hook = session.put(".git/hooks/post-checkout", b"#!/bin/sh\n");
    assert!(hook.code() == "file-denied" && hook.text().contains("git"), "{}", hook.text());
    session.sh("ln -s /etc/passwd out; ln -s ../../../etc/passwd up; ln -s /tmp tmp");
    session.put("/tmp/x", b"x");
    for path in ["out", "up", "/etc/passwd", "/skill/SKILL.md", "a/../../x"] {
        let answer = session.get(&format!("file?path={path}"));
        assert!(matches!(answer.status, 400 | 403 | 404), "{path}: {}", answer.text());
    }
    assert_eq!(session.read("tmp/x"), "x", "a link to /tmp is inside");
    assert_eq!(session.get("file?path=").code(), "invalid-request");
    // One whose first skill may only read.
    let reads = Session::create(
        &server,
        &json!({ "skills": ["scribe"], "files": { "a": { "content": "a" } } }),
    );
    assert_eq!(reads.put("b", b"b").code(), "file-denied");
    assert_eq!(reads.read("a"), "a");
}

#[test]
fn a_fork_a_snapshot_and_dropped_changes_are_apart() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let files: serde_json::Map<String, Value> =
        (0..20).map(|n| (format!("d/{n}"), json!({ "content": "base" }))).collect();
    let one = Session::create(&server, &json!({ "skills": ["writer"], "files": files }));
    one.sh("echo one > mine; rm d/0; echo x > d/1; ln -s /workspace/d/1 link; echo t > /tmp/t");
    let fork = one.post("fork", &Value::Null);
    assert_eq!((fork.status, &fork.json()["parent"]), (201, &json!(one.id)), "{}", fork.text());
    let two = Session { server: &server, id: fork.json()["id"].as_str().unwrap().to_owned() };
    let look = "cat mine link; ls d | wc -l; [ -e /tmp/t ] || echo none";
    assert_eq!(two.sh(look), "one\nx\n19\nnone\n");
    two.sh("echo two > mine; echo y > d/2");
    assert_eq!((one.read("mine"), one.read("d/2")), ("one\n".into(), "base".into()));

    let snapshot = one.post("snapshot", &Value::Null).json();
    let tree = json!({ "tree": snapshot["tree"] });
    assert_eq!(snapshot["files"], 20, "{snapshot}");
    one.sh("rm -r d link; echo other > mine; echo more > more");
    let restored = one.post("restore", &tree);
    assert_eq!(restored.status, 200, "{}", restored.text());
    let look = "cat mine link; ls d | wc -l; [ -e more ] || echo none; cat /tmp/t";
    assert_eq!(one.sh(look), "one\nx\n19\nnone\nt\n");
    assert_eq!(one.changed(), ["d/0", "d/1", "link", "mine"], "still relative to the beginning");
    // A new session begins with the snapshot, and has changed nothing.
    let three =
        Session::create(&server, &json!({ "skills": ["writer"], "tree": snapshot["tree"] }));
    assert_eq!(three.sh("cat mine link"), "one\nx\n");
    assert!(three.changed().is_empty());
    assert_eq!(one.post("drop", &Value::Null).status, 200);
    assert!(one.changed().is_empty() && one.read("d/0") == "base");
    // What needs the files to stand still does not wait for programs.
    let program = one.start(&json!({ "target": { "command": "sleep 3000" } }));
    until(&server, &program, "running");
    for part in ["fork", "snapshot", "apply", "drop"] {
        assert_eq!(one.post(part, &Value::Null).code(), "session-busy", "{part}");
    }
    assert_eq!(one.post("restore", &tree).code(), "session-busy");
    assert_eq!(one.get("diff").status, 200);
}

#[test]
fn hostile_trees_are_refused_and_change_nothing() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::new(&server);
    session.sh("echo kept > file");
    let a = server.put_blob(b"a");
    let file = json!({ "kind": "file", "digest": a });
    for entries in [
        json!({ "../x": file }),
        json!({ "/x": file }),
        json!({ "a": { "kind": "file", "digest": "sha256:../runs.db" } }),
        json!({ ".git/hooks/post-checkout": file }),
        json!({ "a": file, "a/b": file }),
        json!({ "a": { "kind": "link", "target": "/etc" }, "a/passwd": file }),
        json!({ "a": { "kind": "file", "digest": format!("sha256:{}", "0".repeat(64)) } }),
    ] {
        let tree = server.put_blob(json!({ "entries": entries }).to_string().as_bytes());
        let answer = session.post("restore", &json!({ "tree": tree }));
        assert!(
            matches!(answer.status, 400 | 403 | 404 | 409 | 422),
            "{entries}: {}",
            answer.text()
        );
        assert_eq!(session.read("file"), "kept\n", "{entries}");
    }
    let tree = server.put_blob(b"not JSON");
    assert_eq!(session.post("restore", &json!({ "tree": tree })).code(), "invalid-request");
    // A symlink of a tree is never followed by the host.
    let link = json!({ "entries": { "out": { "kind": "link", "target": "/etc" } } });
    let tree = server.put_blob(link.to_string().as_bytes());
    let session = Session::create(&server, &json!({ "skills": ["writer"], "tree": tree }));
    assert_eq!(session.get("file?path=out/passwd").status / 100, 4);
    assert_eq!(session.put("out/x", b"x").status / 100, 4);
}

#[test]
fn the_first_files_are_bounded_and_counted_before_they_are_written() {
    let place = Place::new();
    let (token, digest) = new_token();
    let quotas = "quotas: { session-disk: 1MiB }";
    let file = tenants_file(&place, &[("one", &digest, quotas)]);
    let mut server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    server.token = token;
    let create = |files: Value| {
        let request = json!({ "skills": ["writer"], "disk": 0, "files": files });
        server.call("POST", "/v1/sessions", &request)
    };
    let refused = |files: Value| create(files).code();
    let deep = ["a"; 65].join("/");
    assert_eq!(refused(json!({ deep: { "content": "" } })), "invalid-request");
    // Many folders, few files.
    let files: serde_json::Map<String, Value> = (0..400)
        .map(|n| (format!("{n}/{}/x", ["a"; 60].join("/")), json!({ "content": "" })))
        .collect();
    assert_eq!(refused(Value::Object(files)), "invalid-request");
    let files: serde_json::Map<String, Value> =
        (0..300).map(|n| (format!("{n}/x"), json!({ "content": "" }))).collect();
    assert_eq!(refused(Value::Object(files)), "session-disk", "an entry counts as a block");
    let blob = server.put_blob(&[7; 2 << 20]);
    assert_eq!(refused(json!({ "x": { "digest": blob } })), "session-disk");
    assert_eq!(entries(&folder(&place, "one").join("bases")), 0);
    assert_eq!(create(json!({ "x": { "content": "x" } })).status, 201);
}

#[test]
fn applied_changes_never_follow_links_that_they_replace() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let files = json!({ "d/b": { "content": "kept" } });
    let session = Session::create(&server, &json!({ "skills": ["writer"], "files": files }));
    session.sh("ln -s d a");
    assert_eq!(session.post("apply", &Value::Null).status, 200);
    session.sh("rm a; mkdir a; echo new > a/b");
    assert_eq!(session.post("apply", &Value::Null).status, 200);
    assert_eq!((session.read("d/b"), session.read("a/b")), ("kept".into(), "new\n".into()));
}

#[test]
fn input_of_programs_that_wait_is_bounded() {
    let place = Place::new();
    let (token, digest) = new_token();
    let file = tenants_file(&place, &[("one", &digest, "quotas: { running: 1 }")]);
    let mut server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    server.token = token;
    let session = Session::new(&server);
    let first = session.start(&json!({ "target": { "command": "sleep 3000" } }));
    until(&server, &first, "running");
    let large = json!({ "target": { "command": "cat" }, "stdin": "x".repeat(7 << 20) });
    for _ in 0..9 {
        session.start(&large);
    }
    assert_eq!(session.post("programs", &large).code(), "queue-full");
    session.start(&json!({ "target": { "command": "true" } }));
}

#[test]
fn changes_are_watched() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let session = Session::new(&server);
    let mut events = Events::follow(&server, &session.path("watch"));
    events.next("start");
    session.sh("echo 1 > a; mv a b; rm b; echo 2 > c");
    let seen = |event: &Value| {
        (event["path"].as_str().unwrap().to_owned(), event["change"].as_str().unwrap().to_owned())
    };
    let mut last = std::collections::BTreeMap::new();
    while last.get("c").is_none_or(|change| change == "added") && last.len() < 50 {
        let (path, change) = seen(&events.next("change"));
        last.insert(path, change);
    }
    assert_eq!(last.get("c").map(String::as_str), Some("changed"), "{last:?}");
    session.put("d", b"d");
    assert_eq!(seen(&events.next("change")).0, "d");
}

#[test]
fn one_tenant_cannot_reach_the_sessions_of_another_or_more_than_its_own_quota() {
    let place = Place::new();
    let ((one, one_digest), (two, two_digest)) = (new_token(), new_token());
    let quotas = "quotas: { sessions: 2, session-disk: 300MiB }";
    let file = tenants_file(&place, &[("one", &one_digest, quotas), ("two", &two_digest, "")]);
    let mut server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    server.token.clone_from(&one);
    let session = Session::new(&server);
    session.sh("echo secret > file");
    let program = session.start(&json!({ "target": { "command": "sleep 3000" } }));
    let id = session.id.clone();
    // The disk of the second does not fit, and then it does.
    let big = server.call("POST", "/v1/sessions", &json!({ "skills": ["writer"] }));
    assert_eq!(big.code(), "session-disk");
    let small = json!({ "skills": ["writer"], "disk": 1000 });
    Session::create(&server, &small);
    assert_eq!(server.call("POST", "/v1/sessions", &small).code(), "session-quota");
    assert_eq!(entries(&folder(&place, "one").join("live")), 2);
    let mode = std::fs::metadata(folder(&place, "one")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    server.token.clone_from(&two);
    let unknown = "0123456789abcdef0123456789abcdef";
    let paths = ["", "/programs", "/file?path=file", "/files?path=.", "/watch", "/diff"];
    for part in paths {
        let (theirs, none) = (
            server.get(&format!("/v1/sessions/{id}{part}")),
            server.get(&format!("/v1/sessions/{unknown}{part}")),
        );
        assert_eq!((theirs.status, theirs.text()), (404, none.text()), "{part}");
    }
    for part in ["apply", "drop", "fork", "snapshot"] {
        let path = format!("/v1/sessions/{id}/{part}");
        assert_eq!(server.call("POST", &path, &Value::Null).code(), "not-found", "{part}");
    }
    let body = json!({ "args": ["cat", "file"] });
    assert_eq!(
        server.call("POST", &format!("/v1/sessions/{id}/programs"), &body).code(),
        "not-found"
    );
    assert_eq!(
        server.call("DELETE", &format!("/v1/sessions/{id}"), &Value::Null).code(),
        "not-found"
    );
    assert_eq!(server.get("/v1/sessions").json(), json!({ "sessions": [] }));
    let own = Session::new(&server);
    let run = program.rsplit('/').next().unwrap();
    assert_eq!(own.get(&format!("programs/{run}")).code(), "not-found");
    assert_eq!(server.get(&format!("/v1/runs/{run}")).code(), "not-found");
}

#[test]
fn a_session_ends_expires_or_is_lost_and_leaves_no_files() {
    let place = Place::new();
    let live = folder(&place, "default").join("live");
    let (ended, expired, lost) = {
        let server = ApiServer::new(&place, &[]);
        let session = Session::new(&server);
        session.sh("echo x > file");
        let program = session.start(&json!({ "target": { "command": "while :; do :; done" } }));
        until(&server, &program, "running");
        let began = Instant::now();
        let answer = server.call("DELETE", &format!("/v1/sessions/{}", session.id), &Value::Null);
        assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("ended")));
        assert!(began.elapsed() < Duration::from_secs(2));
        assert!(session.get("files?path=.").code() == "session-ended" && entries(&live) == 0);
        let idle = Session::create(&server, &json!({ "skills": ["writer"], "idle": 1 }));
        let began = Instant::now();
        while entries(&live) > 0 {
            assert!(began.elapsed() < HANG_TIMEOUT, "an idle session does not expire");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(server.get(&format!("/v1/sessions/{}", idle.id)).json()["status"], "expired");
        let stays = Session::new(&server);
        stays.sh("echo x > file");
        (session.id, idle.id, stays.id)
    };
    // The server was killed: nothing is cleaned up.
    assert_eq!(entries(&live), 1);
    let server = ApiServer::new(&place, &[]);
    for (id, status) in [(&ended, "ended"), (&expired, "expired"), (&lost, "lost")] {
        assert_eq!(server.get(&format!("/v1/sessions/{id}")).json()["status"], status);
    }
    let answer = server.get(&format!("/v1/sessions/{lost}/diff"));
    assert!(
        answer.code() == "session-ended" && answer.text().contains("lost"),
        "{}",
        answer.text()
    );
    assert_eq!((entries(&live), entries(&folder(&place, "default").join("bases"))), (0, 0));
    assert_eq!(server.get("/v1/sessions").json()["sessions"].as_array().unwrap().len(), 3);
}

/// A client that follows a stream of events.
pub struct Events {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Events {
    pub fn follow(server: &ApiServer, path: &str) -> Events {
        let mut stream = TcpStream::connect(&server.server.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            server.server.address, server.token
        );
        stream.write_all(head.as_bytes()).unwrap();
        Events { lines: BufReader::new(stream).lines() }
    }

    /// Returns the data of the next event, which has this name.
    pub fn next(&mut self, name: &str) -> Value {
        let (found, data) = self.any();
        assert_eq!(found, name, "{data}");
        data
    }

    /// Returns the data of the first event with this name.
    pub fn until(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.any();
            if found == name {
                return data;
            }
        }
    }

    fn any(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.lines.next().expect("an event").unwrap();
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }
}
