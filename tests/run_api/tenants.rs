//! Tenants: tokens, scopes and quotas, and that one can neither see, use nor guess what is another's.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skillhost_server::api::tenants::new_token;
use skillhost_skill::runtime::digest;

use super::sessions::{Session, until as until_program};
use super::{ApiServer, replace, tenants_file};
use crate::mcp::Place;
use crate::mcp::http::Server;

/// A server with the tenants `one` and `two`, and their tokens.
fn two_tenants(place: &Place, more: [&str; 2]) -> (ApiServer, [String; 2]) {
    let ((one, one_digest), (two, two_digest)) = (new_token(), new_token());
    let file = tenants_file(place, &[("one", &one_digest, more[0]), ("two", &two_digest, more[1])]);
    let mut server = ApiServer::new(place, &["--tenants", file.to_str().unwrap()]);
    server.token.clone_from(&one);
    (server, [one, two])
}

fn note(arg: &str) -> Value {
    json!({ "skill": "scribe", "target": { "script": "note.sh" }, "args": [arg] })
}

/// The skill of these tests, as a list of blobs.
fn upload_skill(server: &ApiServer, name: &str, tools: &str) -> super::Answer {
    let text = format!(
        "---\nname: {name}\ndescription: An upload of the tests.\nallowed-tools: {tools}\n---\nRun it.\n"
    );
    let script = "#!/bin/bash\necho uploaded\necho x > /workspace/x && echo written\n";
    let files = json!({
        "SKILL.md": { "digest": server.put_blob(text.as_bytes()) },
        "scripts/go.sh": { "digest": server.put_blob(script.as_bytes()), "executable": true },
    });
    server.call("POST", "/v1/skills", &json!({ "name": name, "files": files }))
}

#[test]
fn one_tenant_cannot_see_or_use_what_is_anothers() {
    let place = Place::new();
    let (mut server, [one, two]) =
        two_tenants(&place, ["trust-uploads: true", "trust-uploads: true"]);
    let id = server.submit(&note("secret"));
    server.result(&id);
    let blob = server.put_blob(b"the blob of one");
    let skill =
        upload_skill(&server, "of-one", "Bash").json()["digest"].as_str().unwrap().to_owned();
    let key = [("Idempotency-Key", "shared")];
    let body = note("one").to_string();
    let first = server.call_as(&one, "POST", "/v1/runs", &key, body.as_bytes());
    assert_eq!(first.status, 202);

    // The second tenant gets for each the answer for what does not exist.
    server.token.clone_from(&two);
    let unknown = "0123456789abcdef0123456789abcdef";
    for part in ["", "/wait", "/result", "/logs", "/stdout", "/stderr"] {
        let (theirs, none) = (
            server.get(&format!("/v1/runs/{id}{part}")),
            server.get(&format!("/v1/runs/{unknown}{part}")),
        );
        assert_eq!(theirs.status, 404, "{part}");
        assert_eq!((theirs.status, theirs.text()), (none.status, none.text()), "{part}");
    }
    let cancel = server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
    assert_eq!(cancel.code(), "not-found");
    assert_eq!(server.get("/v1/runs").json()["runs"], json!([]));
    let none = server.get(&format!("/v1/blobs/{}", digest(b"nobody's")));
    let theirs = server.get(&format!("/v1/blobs/{blob}"));
    assert_eq!((theirs.status, theirs.text()), (404, none.text()));
    let head = server.call_as(&two, "HEAD", &format!("/v1/blobs/{blob}"), &[], b"");
    assert_eq!(head.status, 404);
    // Neither as an input nor as a skill, by digest or by name.
    let mut run = note("x");
    run["files"] = json!({ "x": { "digest": blob } });
    assert_eq!(server.call("POST", "/v1/runs", &run).code(), "blobs-missing");
    run["files"] = json!({});
    run["tree"] = json!(blob);
    let (theirs, none) = (server.call("POST", "/v1/runs", &run), {
        run["tree"] = json!(digest(b"nobody's"));
        server.call("POST", "/v1/runs", &run)
    });
    assert_eq!((theirs.code(), none.code()), ("blobs-missing".into(), "blobs-missing".into()));
    for name in [&*skill, "of-one", &format!("of-one@{skill}")] {
        assert_eq!(server.call("POST", "/v1/runs", &json!({ "skill": name })).code(), "no-skill");
    }
    // The same key is the second tenant's own.
    let second = server.call_as(&two, "POST", "/v1/runs", &key, note("two").to_string().as_bytes());
    assert_eq!(second.status, 202, "{}", second.text());
    assert_ne!(second.json()["id"], first.json()["id"]);
    // The same bytes are stored for each.
    server.put_blob(b"the blob of one");
    let folder =
        |tenant: &str| place.user.home().join(".local/state/skillhost/tenants").join(tenant);
    let hex = blob.strip_prefix("sha256:").unwrap();
    for tenant in ["one", "two"] {
        assert!(folder(tenant).join("blobs").join(hex).is_file(), "{tenant}");
    }
    // Each has an audit log of its own, and the operator's has nothing.
    server.result(second.json()["id"].as_str().unwrap());
    let log = |tenant: &str| std::fs::read_to_string(folder(tenant).join("audit.jsonl")).unwrap();
    assert!(log("one").contains(&id) && !log("two").contains(&id));
    assert!(place.user.records().is_empty());
}

#[test]
fn tokens_have_scopes_expire_and_are_rotated_without_a_restart() {
    let place = Place::new();
    let ((reader, reader_digest), (runner, runner_digest)) = (new_token(), new_token());
    let (next, next_digest) = new_token();
    let text = |runner_digest: &str, expires: &str| {
        format!(
            "tenants:\n  one:\n    tokens:\n      - {{ sha256: {reader_digest}, scopes: [read] }}\n      - {{ sha256: {runner_digest}, scopes: [run, read], expires: {expires} }}\n"
        )
    };
    let file = place.user.work().join("tenants.yaml");
    replace(&file, &text(&runner_digest, "2099-01-01T00:00:00Z"));
    let server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    let status = |server: &ApiServer, token: &str, method: &str, path: &str, body: &Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = server.call_as(token, method, path, &[], body.as_bytes());
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    let list =
        |server: &ApiServer, token: &str| status(server, token, "GET", "/v1/runs", &Value::Null).0;
    assert_eq!(list(&server, &reader), 200);
    let scope = (403, "scope-missing".to_owned());
    assert_eq!(status(&server, &reader, "POST", "/v1/runs", &note("x")), scope);
    assert_eq!(status(&server, &runner, "POST", "/v1/runs", &note("x")).0, 202);
    let blob = format!("/v1/blobs/{}", digest(b""));
    assert_eq!(status(&server, &runner, "PUT", &blob, &Value::Null), scope);
    assert_eq!(status(&server, &runner, "POST", "/v1/skills", &json!({})), scope);
    // Neither is the server's own token a tenant's, nor a tenant's token the server's.
    let own = server.server.token.clone();
    for wrong in ["", "x", &own, &runner_digest, &runner[..40]] {
        assert_eq!(list(&server, wrong), 401, "{wrong}");
    }
    let metrics = server.server.get("/metrics", &[("Authorization", &format!("Bearer {runner}"))]);
    assert_eq!(metrics.status, 401);
    // Another token takes its place.
    let changes = |server: &ApiServer, token: &str, expected: u16| {
        let began = Instant::now();
        while list(server, token) != expected {
            assert!(began.elapsed() < Duration::from_secs(20), "the file is not read again");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    replace(&file, &text(&next_digest, "2099-01-01T00:00:00Z"));
    changes(&server, &next, 200);
    assert_eq!(list(&server, &runner), 401);
    // A broken file changes nothing, and the log says so.
    replace(&file, "tenants: { one: { token: [] } }");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!((list(&server, &next), list(&server, &reader)), (200, 200));
    replace(&file, &text(&next_digest, "2001-01-01T00:00:00Z"));
    changes(&server, &next, 401);
    assert_eq!(list(&server, &reader), 200);
    let stderr = server.server.stderr_after_the_end();
    assert!(stderr.contains("the tenants file is not valid"), "{stderr}");
    for secret in [&reader, &runner, &next, &own] {
        assert!(!stderr.contains(&**secret), "a token is in the log: {stderr}");
    }
}

#[test]
fn quotas_bound_the_queue_the_hour_and_the_storage() {
    let place = Place::new();
    let quotas =
        "quotas: { running: 1, queued: 2, storage: 64KiB, bytes-per-hour: 100KiB, streams: 1 }";
    let (mut server, [one, two]) = two_tenants(&place, [quotas, ""]);
    let held = server.submit(&json!({ "skill": "scribe", "target": { "script": "wait.sh" } }));
    server.until(&held, "running");
    let queued: Vec<String> = (0..2).map(|_| server.submit(&note("x"))).collect();
    let asked = Instant::now();
    let full = server.call("POST", "/v1/runs", &note("x"));
    assert_eq!((full.status, full.code()), (429, "queue-full".into()));
    assert!(asked.elapsed() >= Duration::from_millis(100), "a refusal takes its time");
    assert!(full.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // The other tenant has a queue and turns of its own.
    server.token.clone_from(&two);
    let result = server.result(&server.submit(&note("other")));
    assert_eq!(result["outcome"]["stdout"], "note: other\n");
    server.token.clone_from(&one);
    server.call("POST", &format!("/v1/runs/{held}/cancel"), &Value::Null);
    queued.iter().for_each(|id| drop(server.result(id)));
    let put = |server: &ApiServer, bytes: &[u8]| {
        server.call_as(&server.token, "PUT", &format!("/v1/blobs/{}", digest(bytes)), &[], bytes)
    };
    assert_eq!(put(&server, &[1; 40 << 10]).status, 200);
    assert_eq!(put(&server, &[2; 40 << 10]).code(), "storage-quota");
    // What is printed counts, too.
    let loud = json!({ "skill": "loud", "target": { "script": "shout.sh" }, "args": ["5000"] });
    server.result(&server.submit(&loud));
    let used = server.call("POST", "/v1/runs", &note("x"));
    assert_eq!((used.status, used.code()), (429, "bytes-quota".into()));
    assert!(used.header("retry-after").unwrap().parse::<u64>().unwrap() > 60);
    assert_eq!(put(&server, b"x").code(), "bytes-quota");
    server.token.clone_from(&two);
    assert_eq!(put(&server, &[2; 40 << 10]).status, 200);
}

#[test]
fn what_is_refused_counts_as_received() {
    let place = Place::new();
    let quotas = "quotas: { storage: 64KiB, bytes-per-hour: 50KiB }";
    let names = ["file", "body", "length", "part", "session"];
    let tokens = names.map(|_| new_token());
    let tenants: Vec<_> =
        names.iter().zip(&tokens).map(|(name, (_, digest))| (*name, &**digest, quotas)).collect();
    let file = tenants_file(&place, &tenants);
    let mut server = ApiServer::new(&place, &["--tenants", file.to_str().unwrap()]);
    let is_used_up = |server: &ApiServer| {
        // It is counted after the answer. What these few runs send does not use up the quota.
        (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let answer = server.call("POST", "/v1/runs", &note("x"));
            answer.status == 429 && answer.code() == "bytes-quota"
        })
    };
    let [file, body, length, part, session] = tokens.map(|(token, _)| token);
    let large = [1; 80 << 10];
    server.token = file;
    let put = format!("/v1/blobs/{}", digest(&large));
    let refused = server.call_as(&server.token, "PUT", &put, &[], &large);
    assert_eq!(refused.code(), "storage-quota");
    assert!(is_used_up(&server), "a file");
    server.token = body;
    let refused = server.call_as(&server.token, "POST", "/v1/runs", &[], &large);
    assert_eq!(refused.code(), "invalid-request");
    assert!(is_used_up(&server), "a body that is not JSON");
    server.token = length;
    let refused = server.call_as(&server.token, "POST", "/v1/runs", &[], &vec![b' '; 9 << 20]);
    assert_eq!(refused.code(), "body-too-large");
    assert!(is_used_up(&server), "a body that is too large");
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {part}\r\nContent-Length: 90000\r\n\r\n",
        server.server.address
    );
    let mut client = TcpStream::connect(&server.server.address).unwrap();
    client.write_all(&[head.as_bytes(), &large].concat()).unwrap();
    client.shutdown(std::net::Shutdown::Both).unwrap();
    server.token = part;
    assert!(is_used_up(&server), "a body that ends early");
    server.token = session;
    let named = json!({ "skills": ["x".repeat(60 << 10)] });
    assert_ne!(server.call("POST", "/v1/sessions", &named).status, 201);
    assert!(is_used_up(&server), "a session");
}

#[test]
fn one_tenant_cannot_keep_others_from_a_skill() {
    let place = Place::new();
    let quotas = "quotas: { running: 40, memory: 16GiB }";
    let (mut server, [one, two]) = two_tenants(&place, [quotas, ""]);
    server.token.clone_from(&one);
    let long = json!({
        "skill": "scribe", "target": { "script": "wait.sh" }, "limits": { "memory": 64 << 20 },
    });
    let held: Vec<String> = (0..40).map(|_| server.submit(&long)).collect();
    held.iter().for_each(|id| server.until(id, "running"));
    server.token.clone_from(&two);
    assert_eq!(server.result(&server.submit(&note("other")))["outcome"]["stdout"], "note: other\n");
    let stderr = server.server.stderr_after_the_end();
    assert!(stderr.contains("the quotas `memory` exceed what runs may have together"), "{stderr}");
    assert!(!stderr.contains("the quotas `running` exceed"), "{stderr}");
}

#[test]
fn programs_of_sessions_take_no_place_in_the_queue() {
    let place = Place::new();
    let (server, _) = two_tenants(&place, ["quotas: { running: 1, queued: 1 }", ""]);
    let session = Session::new(&server);
    let sleep = json!({ "target": { "command": "sleep 60" } });
    let first = session.start(&sleep);
    until_program(&server, &first, "running");
    // Two wait for the turn of the first.
    let _waiting = [session.start(&sleep), session.start(&sleep)];
    let queued = server.submit(&note("x"));
    assert_eq!(server.call("POST", "/v1/runs", &note("y")).code(), "queue-full");
    server.call("DELETE", &format!("/v1/sessions/{}", session.id), &Value::Null);
    assert_eq!(server.result(&queued)["outcome"]["stdout"], "note: x\n");
}

#[test]
fn requests_that_hold_a_connection_are_counted() {
    let place = Place::new();
    let (mut server, [one, two]) = two_tenants(&place, ["quotas: { streams: 1 }", ""]);
    let id = server.submit(&json!({ "skill": "scribe", "target": { "script": "wait.sh" } }));
    server.until(&id, "running");
    let blob = server.put_blob(b"x");
    let mut held = TcpStream::connect(&server.server.address).unwrap();
    let request = format!(
        "GET /v1/runs/{id}/logs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one}\r\n\r\n"
    );
    held.write_all(request.as_bytes()).unwrap();
    assert!(held.read(&mut [0; 12]).unwrap() > 0);
    let call = |method: &str, path: &str, body: &[u8]| {
        server.call_as(&server.token, method, path, &[("Content-Type", "application/zip")], body)
    };
    let blob = format!("/v1/blobs/{blob}");
    for (method, path) in [
        ("GET", format!("/v1/runs/{id}/wait")),
        ("GET", format!("/v1/runs/{id}/logs")),
        ("GET", format!("/v1/runs/{id}/stdout")),
        ("GET", blob.clone()),
        ("PUT", blob.clone()),
        ("POST", "/v1/skills".to_owned()),
    ] {
        let answer = call(method, &path, b"x");
        assert_eq!((answer.status, answer.code()), (429, "too-many-streams".into()), "{path}");
    }
    // So is a body that takes its time.
    let mut slow = TcpStream::connect(&server.server.address).unwrap();
    let request = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {one}\r\nContent-Length: 100\r\n\r\n{{"
    );
    slow.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 429");
    // What holds nothing is answered, and so is another tenant.
    assert_eq!(call("GET", "/v1/runs", b"").status, 200);
    drop(held);
    let began = Instant::now();
    while call("GET", &blob, b"").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "the stream stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.call("POST", &format!("/v1/runs/{id}/cancel"), &Value::Null);
    server.token.clone_from(&two);
    server.put_blob(b"y");
}

#[test]
fn streams_of_all_tenants_leave_connections_to_other_requests() {
    let place = Place::new();
    let ((one, one_digest), (two, two_digest)) = (new_token(), new_token());
    let quotas = "quotas: { streams: 4 }";
    let file = tenants_file(&place, &[("one", &one_digest, quotas), ("two", &two_digest, quotas)]);
    let args = ["--tenants", file.to_str().unwrap(), "--connections", "8"];
    let mut server = ApiServer::new(&place, &args);
    let ids = [&one, &two].map(|token| {
        server.token.clone_from(token);
        let id = server.submit(&json!({ "skill": "scribe", "target": { "script": "wait.sh" } }));
        server.until(&id, "running");
        id
    });
    let follow = |token: &str, id: &str| {
        let mut stream = TcpStream::connect(&server.server.address).unwrap();
        let request = format!(
            "GET /v1/runs/{id}/logs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        (stream, &answer == b"HTTP/1.1 200")
    };
    let mut held = Vec::new();
    for (token, id, streams) in [(&one, &ids[0], 4), (&two, &ids[1], 2)] {
        for number in 0..streams {
            let (stream, is_open) = follow(token, id);
            assert!(is_open, "{number} of {id}");
            held.push(stream);
        }
    }
    // Six of eight: the second tenant is within its own quota.
    let refused = server.get(&format!("/v1/runs/{}/logs", ids[1]));
    assert_eq!((refused.status, refused.code()), (429, "too-many-streams".into()));
    // What is answered at once finds a connection.
    for token in [&one, &two] {
        assert_eq!(server.call_as(token, "GET", "/v1/runs", &[], b"").status, 200);
    }
    server.submit(&note("x"));
    // A place that one tenant leaves is for any.
    drop(held.remove(0));
    let began = Instant::now();
    while !follow(&two, &ids[1]).1 {
        assert!(began.elapsed() < Duration::from_secs(20), "the stream stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn written_files_requests_and_output_count_as_stored() {
    let place = Place::new();
    // A file of two to the power of its argument.
    place.write(
        "writer/scripts/fill.sh",
        "#!/bin/bash\nx=x; for ((i = 0; i < $1; i++)); do x=$x$x; done\necho \"$x\" > /workspace/full\n",
    );
    let (server, _) = two_tenants(&place, ["quotas: { storage: 512KiB }", ""]);
    let fill = |power: usize| {
        let args = [power.to_string()];
        let run = json!({ "skill": "writer", "target": { "script": "fill.sh" }, "args": args });
        server.result(&server.submit(&run))
    };
    let result = fill(16);
    assert_eq!(result["changes"][0]["path"], "full", "{result}");
    let result = fill(19);
    assert_eq!((&result["run"]["status"], &result["changes"]), (&json!("failed"), &json!([])));
    let status = result["outcome"]["status"].to_string();
    assert!(status.contains("quota of stored bytes"), "{status}");
    // The request counts, and so does what it prints.
    let mut large = note("x");
    large["stdin"] = json!("x".repeat(250 << 10));
    server.result(&server.submit(&large));
    let refused = server.call("POST", "/v1/runs", &note("x"));
    assert_eq!((refused.status, refused.code()), (507, "storage-quota".into()));
}

#[test]
fn what_one_tenant_has_uploaded_and_run_makes_no_run_of_another_faster() {
    let place = Place::new();
    let ((one, one_digest), (two, two_digest)) = (new_token(), new_token());
    let trusted = "trust-uploads: true";
    let file =
        tenants_file(&place, &[("one", &one_digest, trusted), ("two", &two_digest, trusted)]);
    let cache = place.user.work().join("cache");
    let args = ["--listen", "127.0.0.1:0", "--tenants", file.to_str().unwrap()];
    let server = Server::of(place.server("serve", &args).env("XDG_CACHE_HOME", &cache));
    let mut server = ApiServer { token: one, server };
    let run = |server: &ApiServer| {
        let text = "---\nname: same\ndescription: An upload of the tests.\nmetadata:\n  component: calculator.wasm\n---\nCall it.\n";
        let files = json!({
            "SKILL.md": { "digest": server.put_blob(text.as_bytes()) },
            "calculator.wasm": { "digest": server.put_blob(&crate::mcp::CALCULATOR) },
        });
        let stored = server.call("POST", "/v1/skills", &json!({ "name": "same", "files": files }));
        let tool = json!({ "name": "calculate", "input": { "expression": "6*7" } });
        let run = json!({ "skill": stored.json()["digest"], "target": { "tool": tool } });
        let result = server.result(&server.submit(&run));
        assert_eq!(result["run"]["status"], "succeeded", "{result}");
    };
    // The compiled components and the copies of skills.
    let code = || {
        let names = |folder: &std::path::Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let cache = cache.join("skillhost/components");
        let compiled = names(&cache).iter().filter(|name| name.ends_with(".own.cwasm")).count();
        (compiled, names(&cache.join("skills")).len())
    };
    run(&server);
    assert_eq!(code(), (1, 1));
    run(&server);
    assert_eq!(code(), (1, 1), "for the tenant itself, nothing is compiled again");
    server.token = two;
    run(&server);
    assert_eq!(code(), (2, 2));
}

#[test]
fn an_approval_holds_for_the_next_submission_of_the_same_run() {
    let place = Place::new();
    let (server, _) = two_tenants(&place, ["", ""]);
    let stored = upload_skill(&server, "theirs", "Bash").json();
    let run = |arg: &str| {
        let run =
            json!({ "skill": stored["digest"], "target": { "script": "go.sh" }, "args": [arg] });
        server.result(&server.submit(&run))
    };
    let number = |result: &Value| {
        assert_eq!(result["run"]["outcome"], "denied", "{result}");
        let fix = result["outcome"]["status"]["fix"].as_str().unwrap();
        assert!(fix.ends_with("submit it again, with a new key"), "{fix}");
        let rest = fix.split_once("skillhost approve ").unwrap().1;
        rest.split('`').next().unwrap().to_owned()
    };
    let first = number(&run("a"));
    assert_eq!(number(&run("a")), first, "it is asked for once");
    let approve = |more: &[&str]| {
        let approved = place.user.skillhost(&[&["approve"][..], more].concat());
        assert!(approved.status.success(), "{approved:?}");
    };
    approve(&[&*first]);
    let other = number(&run("b"));
    assert_eq!(run("a")["outcome"]["stdout"], "uploaded\nwritten\n");
    number(&run("a"));
    // What is approved is the content of the workspace too, and which files are executable.
    let with_file = |executable: bool, target: &str| {
        let digest = server.put_blob(b"echo x\n");
        let mode = if executable { 0o755 } else { 0o644 };
        let entries = json!({
            "tool": { "kind": "file", "digest": digest, "mode": mode },
            "link": { "kind": "link", "target": target },
        });
        let tree = server.put_blob(json!({ "entries": entries }).to_string().as_bytes());
        let script = json!({ "script": "go.sh" });
        let run = json!({ "skill": stored["digest"], "target": script, "tree": tree });
        server.result(&server.submit(&run))
    };
    approve(&[&*number(&with_file(false, "tool"))]);
    number(&with_file(true, "tool"));
    number(&with_file(false, "other"));
    assert_eq!(with_file(false, "tool")["outcome"]["stdout"], "uploaded\nwritten\n");
    approve(&[&*other, "--session"]);
    for arg in ["b", "c"] {
        assert_eq!(run(arg)["outcome"]["stdout"], "uploaded\nwritten\n", "{arg}");
    }
}

#[test]
fn a_tenant_that_is_removed_loses_its_streams_and_a_locked_one_is_tried_again() {
    let place = Place::new();
    let (server, [one, _]) = two_tenants(&place, ["", ""]);
    let id = server.submit(&json!({ "skill": "scribe", "target": { "script": "wait.sh" } }));
    server.until(&id, "running");
    let (_, sha256) = new_token();
    let follow = std::thread::spawn({
        let (address, path) = (server.server.address.clone(), format!("/v1/runs/{id}/wait"));
        move || {
            let mut stream = TcpStream::connect(address).unwrap();
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {one}\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    tenants_file(&place, &[("two", &sha256, "")]);
    let answer = follow.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // Its folder is locked by another process, and free later.
    let folder = place.user.home().join(".local/state/skillhost/tenants/three");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let lock = std::fs::File::open(&folder).unwrap();
    lock.lock().unwrap();
    let (three, sha256) = new_token();
    tenants_file(&place, &[("three", &sha256, "")]);
    let list = || server.call_as(&three, "GET", "/v1/runs", &[], b"").status;
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(list(), 401);
    drop(lock);
    let began = Instant::now();
    while list() != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "the state is not tried again");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_removed_token_is_refused_although_the_state_of_a_new_tenant_cannot_be_opened() {
    let place = Place::new();
    let (server, [removed, _]) = two_tenants(&place, ["", ""]);
    let list = |token: &str| server.call_as(token, "GET", "/v1/runs", &[], b"").status;
    let becomes = |token: &str, status: u16| {
        let began = Instant::now();
        while list(token) != status {
            assert!(began.elapsed() < Duration::from_secs(20), "the file is not read again");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    assert_eq!(list(&removed), 200);
    let in_the_way = place.user.home().join(".local/state/skillhost/tenants/three");
    std::fs::write(&in_the_way, "not a folder").unwrap();
    let ((one, one_digest), (three, three_digest)) = (new_token(), new_token());
    tenants_file(&place, &[("one", &one_digest, ""), ("three", &three_digest, "")]);
    becomes(&one, 200);
    assert_eq!((list(&removed), list(&three)), (401, 401));
    // Several attempts, of which the first is reported.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!((list(&one), list(&three)), (200, 401));
    std::fs::remove_file(&in_the_way).unwrap();
    becomes(&three, 200);
    assert_eq!((list(&one), list(&removed)), (200, 401));
    let stderr = server.server.stderr_after_the_end();
    assert_eq!(stderr.matches("left out a new tenant").count(), 1, "{stderr}");
}

#[test]
fn uploaded_skills_are_granted_what_the_policy_of_the_tenant_grants() {
    let place = Place::new();
    let policy = place.user.work().join("narrow.yaml");
    std::fs::write(
        &policy,
        "default: { allow: [Read, Bash] }\nskills:\n  mine: { allow: [Write] }\n",
    )
    .unwrap();
    let narrow = "policy: narrow.yaml\ntrust-uploads: true";
    let (mut server, [_, two]) = two_tenants(&place, [narrow, ""]);
    let run = |server: &ApiServer, skill: &Value| {
        server.result(&server.submit(&json!({ "skill": skill, "target": { "script": "go.sh" } })))
    };
    // A policy section for its name grants an upload nothing, because the uploader chooses the name.
    let stored = upload_skill(&server, "mine", "Read Write Bash WebFetch");
    assert_eq!(stored.status, 201, "{}", stored.text());
    let result = run(&server, &stored.json()["digest"]);
    assert_eq!(result["outcome"]["stdout"], "uploaded\n", "{result}");
    assert_eq!((&result["changes"], &result["run"]["status"]), (&json!([]), &json!("failed")));
    assert_eq!(run(&server, &json!("mine"))["outcome"]["stdout"], "uploaded\n");
    let pinned = format!("mine@{}", digest(b"other"));
    assert_eq!(server.call("POST", "/v1/runs", &json!({ "skill": pinned })).code(), "no-skill");
    // An upload does not take the place of the operator's skill.
    assert_eq!(upload_skill(&server, "scribe", "Bash").status, 201);
    assert_eq!(server.result(&server.submit(&note("own")))["outcome"]["stdout"], "note: own\n");
    // Without trust, an upload waits for the operator, whom no client can be.
    server.token.clone_from(&two);
    let stored = upload_skill(&server, "theirs", "Bash").json();
    let result = run(&server, &stored["digest"]);
    assert_eq!(result["run"]["outcome"], "denied", "{result}");
    let fix = result["outcome"]["status"]["fix"].as_str().unwrap();
    assert!(fix.contains("skillhost approve "), "{fix}");
    assert_eq!(result["outcome"]["stdout"], "");
}

#[test]
fn an_archive_of_one_skill_is_an_upload_and_a_hostile_one_is_refused() {
    let place = Place::new();
    let (server, [one, _]) = two_tenants(&place, ["trust-uploads: true", ""]);
    let archive = place.user.work().join("skill.tar.gz");
    let packed = place.user.skillhost(&[
        "pack",
        place.skills().join("scribe").to_str().unwrap(),
        "--output",
        archive.to_str().unwrap(),
    ]);
    assert!(packed.status.success(), "{packed:?}");
    let send = |kind: &str, bytes: &[u8]| {
        server.call_as(&one, "POST", "/v1/skills", &[("Content-Type", kind)], bytes)
    };
    let bytes = std::fs::read(&archive).unwrap();
    let stored = send("application/gzip", &bytes);
    assert_eq!(stored.status, 201, "{}", stored.text());
    let skill = stored.json()["digest"].clone();
    let run = json!({ "skill": skill, "target": { "script": "note.sh" }, "args": ["packed"] });
    assert_eq!(server.result(&server.submit(&run))["outcome"]["stdout"], "note: packed\n");
    assert_eq!(send("text/plain", &bytes).code(), "unsupported-media-type");
    let cut = send("application/gzip", &bytes[..bytes.len() / 2]);
    assert_eq!(cut.code(), "skill-invalid");
    assert_eq!(send("application/zip", b"no archive").code(), "skill-invalid");
    let root = place.user.root().canonicalize().unwrap();
    assert!(!cut.text().contains(root.to_str().unwrap()), "{}", cut.text());
    for (path, status) in [("../x", 400), ("/x", 400), ("a/./b", 400)] {
        let files = json!({ path: { "digest": digest(b"x") } });
        let answer = server.call("POST", "/v1/skills", &json!({ "name": "a", "files": files }));
        assert_eq!(answer.status, status, "{path}");
    }
}

#[test]
fn deleting_a_tenant_deletes_all_of_it_and_nothing_of_others() {
    let place = Place::new();
    let (server, [_, _]) = two_tenants(&place, ["", ""]);
    let id = server.submit(&note("x"));
    server.result(&id);
    let folder = place.user.home().join(".local/state/skillhost/tenants");
    let delete = || place.user.skillhost(&["tenants", "delete", "one"]);
    let refused = delete();
    assert_eq!(refused.status.code(), Some(74), "{refused:?}");
    assert!(folder.join("one/runs.db").is_file(), "a server uses it");
    drop(server);
    let deleted = delete();
    assert!(deleted.status.success(), "{deleted:?}");
    assert!(!folder.join("one").exists() && folder.join("two/runs.db").is_file());
    assert_eq!(delete().status.code(), Some(64));
    for name in ["..", "a/b", "", "/"] {
        let refused = place.user.skillhost(&["tenants", "delete", name]);
        assert_eq!(refused.status.code(), Some(64), "{name}");
    }
}
