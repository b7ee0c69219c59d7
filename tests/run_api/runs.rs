//! Runs: from the submission to the result.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ApiServer;
use crate::mcp::Place;

fn note(args: &[&str]) -> Value {
    json!({ "skill": "scribe", "target": { "script": "note.sh" }, "args": args })
}

#[test]
fn a_run_is_submitted_followed_and_its_result_is_read() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let mut run = note(&["one"]);
    run["stdin"] = json!("typed\n");
    let id = server.submit(&run);
    let result = server.result(&id);
    assert_eq!(result["outcome"]["stdout"], "note: one\ntyped\n", "{result}");
    assert_eq!(result["outcome"]["stderr"], "told\n");
    assert_eq!(result["run"]["status"], "succeeded");
    assert_eq!(
        (&result["run"]["outcome"], &result["run"]["exit_code"]),
        (&json!("exited"), &json!(0))
    );
    assert_eq!(server.get(&format!("/v1/runs/{id}/stdout")).text(), "note: one\ntyped\n");
    assert_eq!(server.get(&format!("/v1/runs/{id}/stderr")).text(), "told\n");
    // The record names the run and its tenant.
    let records = place.user.records();
    let record = records.last().unwrap();
    assert_eq!(record["session"], json!({ "id": id, "client": "tenant default" }));
    // A run of nothing that exists is refused at once.
    let refused = server.call("POST", "/v1/runs", &json!({ "skill": "nothing" }));
    assert_eq!((refused.status, refused.code()), (422, "no-skill".into()));
    let missing = server
        .result(&server.submit(&json!({ "skill": "scribe", "target": { "script": "x.sh" } })));
    assert_eq!(missing["run"]["outcome"], "invalid", "{missing}");
}

#[test]
fn tools_commands_receipts_and_deterministic_runs_are_asked_for() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let tool = json!({ "tool": { "name": "calculate", "input": { "expression": "6 * 7" } } });
    let result = server.result(&server.submit(&json!({ "skill": "calculator", "target": tool })));
    assert_eq!(result["outcome"]["result"]["result"], "42", "{result}");
    let command = json!({ "command": "echo a | cat; exit 3" });
    let result = server.result(&server.submit(&json!({ "skill": "scribe", "target": command })));
    assert_eq!(
        (&result["run"]["exit_code"], &result["outcome"]["stdout"]),
        (&json!(3), &json!("a\n"))
    );
    assert_eq!(result["run"]["status"], "failed");
    let mut run = note(&["same"]);
    run["deterministic"] = json!({ "seed": 7 });
    run["receipt"] = json!(true);
    let results = [0, 1].map(|_| server.result(&server.submit(&run)));
    for result in &results {
        assert_eq!(result["outcome"]["stdout"], "note: same\n", "{result}");
        assert!(result["outcome"]["usage"]["fuel"].is_u64());
    }
    let fuel = |result: &Value| result["outcome"]["usage"]["fuel"].clone();
    assert_eq!(fuel(&results[0]), fuel(&results[1]));
    assert!(results.iter().all(|result| result["receipt"].is_object()));
}

#[test]
fn logs_stream_while_the_run_is_in_progress_and_continue_where_they_ended() {
    let place = Place::new();
    place.write("scribe/scripts/slow.sh", "#!/bin/bash\necho first\nsleep 0.5\necho zweite ä\n");
    let server = ApiServer::new(&place, &[]);
    let id = server.submit(&json!({ "skill": "scribe", "target": { "script": "slow.sh" } }));
    let text = server.get(&format!("/v1/runs/{id}/logs")).text();
    assert!(text.starts_with("retry: 1000\n\n"), "{text}");
    let events: Vec<&str> = text.split("\n\n").filter(|event| event.contains("event: ")).collect();
    assert_eq!(events.len(), 3, "{text}");
    assert_eq!(events[0], "id: 6-0\nevent: stdout\ndata: \"first\\n\"");
    assert_eq!(events[1], "id: 16-0\nevent: stdout\ndata: \"zweite ä\\n\"");
    assert!(events[2].starts_with("id: 16-0\nevent: end\ndata: {\"id\":"), "{text}");
    let again = |last: &str| {
        let headers = [("Last-Event-ID", last)];
        server.call_as(&server.token, "GET", &format!("/v1/runs/{id}/logs"), &headers, b"")
    };
    let rest = again("6-0").text();
    assert!(!rest.contains("first") && rest.contains("zweite"), "{rest}");
    assert_eq!(again("other").code(), "invalid-request");
}

#[test]
fn cancelling_reaches_a_running_guest_within_a_second() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    for script in ["wait.sh", "loop"] {
        let target = match script {
            "loop" => json!({ "command": "while :; do :; done" }),
            script => json!({ "script": script }),
        };
        let id = server.submit(&json!({ "skill": "scribe", "target": target }));
        server.until(&id, "running");
        // The guest has started, not only its preparation.
        std::thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        let answer = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["status"], "cancelled");
        assert!(began.elapsed() < Duration::from_secs(1), "{script}: {:?}", began.elapsed());
        assert_eq!(server.result(&id)["run"]["outcome"], "interrupted");
        // It ends once.
        let again = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
        assert_eq!(again.json()["status"], "cancelled");
    }
}

#[test]
fn files_are_the_workspace_and_writes_come_back_as_changes() {
    let place = Place::new();
    place.write(
        "writer/scripts/edit.sh",
        "#!/bin/bash\ncat /workspace/a/in.txt\necho new > /workspace/out.txt\necho more >> /workspace/a/in.txt\nrm /workspace/gone.txt\nls -l /workspace/run.sh | cut -c4\n",
    );
    let server = ApiServer::new(&place, &[]);
    let text = b"uploaded\n";
    let run = json!({
        "skill": "writer",
        "target": { "script": "edit.sh" },
        "files": {
            "a/in.txt": { "digest": skillhost_skill::runtime::digest(text) },
            "gone.txt": { "content": "x" },
            "run.sh": { "content": { "base64": "Og==" }, "executable": true },
        },
    });
    let refused = server.call("POST", "/v1/runs", &run);
    assert_eq!(refused.code(), "blobs-missing");
    assert_eq!(refused.json()["missing"], json!([skillhost_skill::runtime::digest(text)]));
    server.put_blob(text);
    let result = server.result(&server.submit(&run));
    assert!(result["outcome"]["stdout"].as_str().unwrap().starts_with("uploaded\n"), "{result}");
    let paths: Vec<&str> = result["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["a/in.txt", "gone.txt", "out.txt"], "{result}");
    assert!(result["changes"][1].get("after").is_none());
    let after = &result["changes"][0]["after"];
    let blob = server.get(&format!("/v1/blobs/{}", after["digest"].as_str().unwrap()));
    assert_eq!(blob.text(), "uploaded\nmore\n");
    assert_eq!(result["changes"][0]["before"]["digest"], skillhost_skill::runtime::digest(text));
    assert!(result["diff"].as_str().unwrap().contains("+more"), "{result}");
}

#[test]
fn a_workspace_is_named_by_the_digest_of_a_tree() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let text = b"uploaded\n";
    let tree = json!({ "entries": {
        "a/in.txt": { "kind": "file", "digest": skillhost_skill::runtime::digest(text) },
        "a/run.sh": { "kind": "file", "digest": skillhost_skill::runtime::digest(b"echo ran\n"), "mode": 0o755 },
        "empty": { "kind": "folder" },
        "link": { "kind": "link", "target": "a/in.txt" },
        "absolute": { "kind": "link", "target": "/workspace/a/run.sh" },
        "out": { "kind": "link", "target": "/etc/shadow" },
    } });
    let tree = tree.to_string();
    let digest = skillhost_skill::runtime::digest(tree.as_bytes());
    let command = "cat link out; bash absolute; ls -l a/in.txt | cut -c4; ls; echo more >> link; mv a/in.txt empty/; mv link moved";
    let run = json!({ "skill": "writer", "target": { "command": command }, "tree": digest });
    let refused = server.call("POST", "/v1/runs", &run);
    assert_eq!(
        (refused.code(), refused.json()["missing"].clone()),
        ("blobs-missing".into(), json!([digest]))
    );
    server.put_blob(tree.as_bytes());
    let refused = server.call("POST", "/v1/runs", &run);
    assert_eq!(refused.json()["missing"].as_array().map(Vec::len), Some(2), "{}", refused.text());
    server.put_blob(text);
    server.put_blob(b"echo ran\n");
    let result = server.result(&server.submit(&run));
    // A symlink leads to what the guest finds there, never to a file of the host.
    let stdout = result["outcome"]["stdout"].as_str().unwrap();
    assert_eq!(stdout, "uploaded\nran\n-\na\nabsolute\nempty\nlink\nout\n", "{result}");
    let stderr = result["outcome"]["stderr"].as_str().unwrap();
    assert!(stderr.contains("out: No such file"), "{result}");
    let changes = result["changes"].as_array().unwrap();
    let change = |path: &str| changes.iter().find(|change| change["path"] == path);
    assert!(change("a/in.txt").is_some_and(|change| change.get("after").is_none()), "{result}");
    let moved = &change("empty/in.txt").unwrap()["after"]["digest"];
    let blob = server.get(&format!("/v1/blobs/{}", moved.as_str().unwrap()));
    assert_eq!(blob.text(), "uploaded\nmore\n");
    assert_eq!(change("moved").unwrap()["after"], json!({ "kind": "link", "target": "a/in.txt" }));
    assert_eq!(changes.len(), 4, "{result}");
}

#[test]
fn a_queued_run_keeps_its_tree_and_the_files_of_it_from_expiring() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let file = server.put_blob(b"a");
    let tree = json!({ "entries": { "a": { "kind": "file", "digest": file } } }).to_string();
    let tree = server.put_blob(tree.as_bytes());
    let id =
        server.submit(&json!({ "skill": "writer", "target": { "command": "true" }, "tree": tree }));
    let db = place.user.home().join(".local/state/skillhost/tenants/default/runs.db");
    let db = rusqlite::Connection::open(db).unwrap();
    let mut kept = db.prepare("SELECT digest FROM run_blobs WHERE run = ?1").unwrap();
    let kept = kept.query_map([&id], |row| row.get(0)).unwrap();
    let mut kept: Vec<String> = kept.map(Result::unwrap).collect();
    let mut expected = vec![file, tree];
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected);
}

#[test]
fn a_tree_that_a_run_cannot_start_with_is_refused() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let submit = |tree: &str| {
        let command = json!({ "command": "ls" });
        server.call(
            "POST",
            "/v1/runs",
            &json!({ "skill": "writer", "target": command, "tree": tree }),
        )
    };
    assert_eq!(submit("sha256:../runs.db").code(), "invalid-request");
    let a = server.put_blob(b"a");
    let file = json!({ "kind": "file", "digest": a });
    for entries in [
        json!({ "../x": file }),
        json!({ "/x": file }),
        json!({ "a": { "kind": "file", "digest": "sha256:../runs.db" } }),
        json!({ "a": file, "a/b": file }),
        json!({ "a": { "kind": "link", "target": "/etc" }, "a/passwd": file }),
        json!({ "a": { "kind": "link", "target": "" } }),
        json!({ "a": { "kind": "link", "target": "x".repeat(4_096) } }),
        json!({ "a": { "kind": "socket" } }),
    ] {
        let tree = server.put_blob(json!({ "entries": entries }).to_string().as_bytes());
        let answer = submit(&tree);
        assert_eq!(answer.code(), "invalid-request", "{entries}: {}", answer.text());
    }
    assert_eq!(submit(&server.put_blob(b"not JSON")).code(), "invalid-request");
    let tree = server.put_blob(json!({ "entries": { "a": file } }).to_string().as_bytes());
    let both = json!({ "skill": "writer", "target": { "command": "ls" }, "tree": tree, "files": { "b": { "content": "" } } });
    assert_eq!(server.call("POST", "/v1/runs", &both).code(), "invalid-request");
    // Neither may the paths of `files` contradict one another.
    let files = json!({ "a": { "content": "" }, "a/b": { "content": "" } });
    let run = json!({ "skill": "writer", "target": { "command": "ls" }, "files": files });
    assert_eq!(server.call("POST", "/v1/runs", &run).code(), "invalid-request");
}

#[test]
fn a_key_names_one_run_also_after_a_restart() {
    let place = Place::new();
    let file = place.user.work().join("token");
    let token = "a-token-of-the-tests".to_owned();
    std::fs::write(&file, &token).unwrap();
    let start = || {
        let mut server = ApiServer::new(&place, &["--token-file", file.to_str().unwrap()]);
        server.token.clone_from(&token);
        server
    };
    let server = start();
    let submit = |server: &ApiServer, key: &str, arg: &str| {
        let headers = [("Idempotency-Key", key)];
        server.call_as(&token, "POST", "/v1/runs", &headers, note(&[arg]).to_string().as_bytes())
    };
    let first = submit(&server, "k1", "a");
    let id = first.json()["id"].clone();
    assert_eq!(first.status, 202);
    for _ in 0..2 {
        let again = submit(&server, "k1", "a");
        assert_eq!((again.status, again.json()["id"].clone()), (200, id.clone()));
    }
    // Neither a skill that has gone nor a key order of another client matters to what was accepted.
    let tool = |input: &str| {
        let body = format!(
            r#"{{"skill": "calculator", "target": {{"tool": {{"name": "calculate", "input": {input}}}}}}}"#
        );
        let headers = [("Idempotency-Key", "tool")];
        server.call_as(&token, "POST", "/v1/runs", &headers, body.as_bytes())
    };
    let ordered = [r#"{"a": 1, "b": {"c": 2, "d": 3}}"#, r#"{"b": {"d": 3, "c": 2}, "a": 1}"#];
    let [one, two] = ordered.map(tool);
    assert_eq!((one.status, two.status), (202, 200), "{}", two.text());
    assert_eq!(one.json()["id"], two.json()["id"]);
    let other = submit(&server, "k1", "b");
    assert_eq!((other.status, other.code()), (409, "key-conflict".into()));
    assert_eq!(submit(&server, "k2", "a").status, 202);
    assert_eq!(submit(&server, "", "a").code(), "invalid-request");
    assert_eq!(submit(&server, &"k".repeat(256), "a").code(), "invalid-request");
    server.result(id.as_str().unwrap());
    drop(server);
    let server = start();
    let again = submit(&server, "k1", "a");
    assert_eq!((again.status, again.json()["id"].clone()), (200, id.clone()));
    assert_eq!(submit(&server, "k1", "b").status, 409);
    let result = server.result(id.as_str().unwrap());
    assert_eq!(result["outcome"]["stdout"], "note: a\n", "results survive, too");
}

#[test]
fn a_killed_server_loses_no_queued_run_and_says_which_run_is_lost() {
    let place = Place::new();
    let (token, sha256) = skillhost_server::api::tenants::new_token();
    let file = super::tenants_file(&place, &[("one", &sha256, "quotas: { running: 1 }")]);
    let start = || {
        let mut server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
        server.token.clone_from(&token);
        server
    };
    let server = start();
    let running = server.submit(&json!({ "skill": "scribe", "target": { "script": "wait.sh" } }));
    server.until(&running, "running");
    let queued = server.submit(&note(&["later"]));
    assert_eq!(server.get(&format!("/v1/runs/{queued}")).json()["status"], "queued");
    // SIGKILL
    drop(server);
    let server = start();
    assert_eq!(server.get(&format!("/v1/runs/{running}")).json()["status"], "lost");
    let lost = server.get(&format!("/v1/runs/{running}/result")).json();
    assert!(lost.get("outcome").is_none(), "{lost}");
    assert_eq!(server.result(&queued)["outcome"]["stdout"], "note: later\n");
}

#[test]
fn lists_have_filters_and_pages() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let ids: Vec<String> = (0..3).map(|_| server.submit(&note(&[]))).collect();
    ids.iter().for_each(|id| drop(server.result(id)));
    let failing = server.submit(&json!({ "skill": "loud", "target": { "command": "exit 1" } }));
    server.result(&failing);
    let list = |query: &str| {
        let found = server.get(&format!("/v1/runs{query}")).json();
        let ids = found["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), found["next"].as_str().map(str::to_owned))
    };
    assert_eq!(list("").0, [&failing, &ids[2], &ids[1], &ids[0]].map(Clone::clone));
    assert_eq!(list("?status=failed").0, std::slice::from_ref(&failing));
    assert_eq!(list("?skill=loud&status=succeeded").0, [""; 0]);
    let (first, next) = list("?limit=2");
    assert_eq!(first, [failing, ids[2].clone()]);
    let (second, _) = list(&format!("?limit=2&cursor={}", next.unwrap()));
    assert_eq!(second, [ids[1].clone(), ids[0].clone()]);
    for wrong in ["?limit=0", "?limit=1001", "?status=done", "?cursor=x", "?order=up", "?skill=%f"]
    {
        assert_eq!(server.get(&format!("/v1/runs{wrong}")).code(), "invalid-request", "{wrong}");
    }
}

#[test]
fn limits_only_lower_those_of_the_policy() {
    let place = Place::new();
    let policy = place.user.work().join("low.yaml");
    let text = format!(
        "default: {{ allow: [Read, Write, Bash] }}\nlimits: {{ timeout: 5s }}\n{}",
        crate::mcp::TRUSTED
    );
    std::fs::write(&policy, text).unwrap();
    let server = ApiServer::new(&place, &["--policy", policy.to_str().unwrap()]);
    for (timeout, granted) in [(900_000, 5_000), (1_000, 1_000)] {
        let mut run = note(&[]);
        run["limits"] = json!({ "timeout": timeout, "state": 1 << 20, "tmp": 1 << 20 });
        server.result(&server.submit(&run));
        let records = place.user.records();
        let limits = &records.last().unwrap()["capabilities"]["limits"];
        assert_eq!(limits["timeout_ms"], granted, "{limits}");
        assert!(limits.get("state").is_none() && limits.get("tmp").is_none(), "{limits}");
    }
    let mut run = note(&[]);
    run["limits"] = json!({ "timeout": 50 });
    run["target"] = json!({ "script": "wait.sh" });
    assert_eq!(server.result(&server.submit(&run))["run"]["outcome"], "limit-hit");
}
