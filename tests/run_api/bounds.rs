//! What a client may send, and what happens to the rest.

use serde_json::{Map, Value, json};
use skillhost_skill::runtime::digest;

use super::ApiServer;
use crate::mcp::Place;

#[test]
fn requests_are_bounded_before_they_are_parsed() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let large = "x".repeat(9 << 20);
    let body = json!({ "skill": "scribe", "stdin": large });
    assert_eq!(server.call("POST", "/v1/runs", &body).code(), "body-too-large");
    // Any JSON is an input of a tool, as far as its type is concerned.
    let tool = |input: &str| {
        format!(
            r#"{{"skill": "calculator", "target": {{"tool": {{"name": "calculate", "input": {input}}}}}}}"#
        )
    };
    let nested = |depth: usize| tool(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let submit =
        |text: &str| server.call_as(&server.token, "POST", "/v1/runs", &[], text.as_bytes());
    assert_eq!(submit(&nested(100)).status, 202);
    assert_eq!(submit(&tool(&format!("[{}0]", "0,".repeat(500_000)))).status, 202);
    let wide = tool(&format!("[{}0]", "0,".repeat(600_000)));
    assert_eq!(submit(&wide).code(), "invalid-request");
    let deep = nested(100_000);
    for wrong in
        ["", "{", "[]", "{}", "{\"skill\": 1}", "{\"skill\": \"a\", \"policy\": \"b\"}", &deep]
    {
        let answer = submit(wrong);
        assert_eq!(answer.code(), "invalid-request", "{}", &wrong[..wrong.len().min(40)]);
    }
    let many: Map<String, Value> =
        (0..5_001).map(|number| (number.to_string(), json!({ "content": "" }))).collect();
    for wrong in [
        json!({ "skill": "scribe", "files": many }),
        json!({ "skill": "scribe", "files": { "../x": { "content": "" } } }),
        json!({ "skill": "scribe", "files": { "/etc/x": { "content": "" } } }),
        json!({ "skill": "scribe", "files": { "a/../b": { "content": "" } } }),
        json!({ "skill": "scribe", "files": { "x": {} } }),
        json!({ "skill": "scribe", "files": { "x": { "content": "", "digest": digest(b"") } } }),
        json!({ "skill": "scribe", "files": { "x": { "digest": "sha256:../../runs.db" } } }),
        json!({ "skill": "scribe", "args": vec!["x"; 1_001] }),
        json!({ "skill": "scribe", "args": ["x".repeat(200 << 10)] }),
        json!({ "skill": "scribe", "args": ["a\u{0}b"] }),
        json!({ "skill": "scribe", "limits": { "speed": 1 } }),
    ] {
        let answer = server.call("POST", "/v1/runs", &wrong);
        assert_eq!(answer.code(), "invalid-request", "{:.80}", wrong.to_string());
    }
    // A head of any length ends the connection, and the server serves on.
    let long = "x".repeat(1 << 20);
    let answer = server.server.get("/v1/runs", &[("X-Long", &long)]);
    assert!(answer.status >= 400, "{}", answer.status);
    assert_eq!(server.get("/v1/runs").status, 200);
}

#[test]
fn a_blob_is_verified_while_it_arrives_and_bounded() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let put = |name: &str, bytes: &[u8]| {
        server.call_as(&server.token, "PUT", &format!("/v1/blobs/{name}"), &[], bytes)
    };
    let name = digest(b"right");
    let wrong = put(&name, b"wrong");
    assert_eq!((wrong.status, wrong.code()), (422, "digest-mismatch".into()));
    assert_eq!(server.get(&format!("/v1/blobs/{name}")).status, 404, "nothing was stored");
    for invalid in ["sha256:x", "md5:0", "..", &name.to_uppercase()] {
        assert_eq!(put(invalid, b"").code(), "invalid-request", "{invalid}");
    }
    assert_eq!(put(&name, b"right").status, 200);
    assert_eq!(put(&name, b"right").status, 200, "the same again");
    assert_eq!(server.get(&format!("/v1/blobs/{name}")).text(), "right");
    let head = server.call_as(&server.token, "HEAD", &format!("/v1/blobs/{name}"), &[], b"");
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    let declared = [("Content-Length", "67108865")];
    let large = server.call_as(&server.token, "PUT", &format!("/v1/blobs/{name}"), &declared, b"");
    assert_eq!(large.code(), "body-too-large");
    let blobs = place.user.home().join(".local/state/skillhost/tenants/default/blobs");
    assert_eq!(std::fs::read_dir(blobs).unwrap().count(), 1, "no unfinished upload is left");
}

#[test]
fn the_files_of_a_run_are_bounded_as_they_are_written() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let blob = server.put_blob(&vec![7; 16 << 20]);
    // One blob counts as often as it is named.
    let run = |count: usize| {
        let files: Map<String, Value> =
            (0..count).map(|number| (number.to_string(), json!({ "digest": blob }))).collect();
        json!({ "skill": "scribe", "target": { "command": "ls /workspace | wc -l" }, "files": files })
    };
    let refused = server.call("POST", "/v1/runs", &run(65));
    assert_eq!(refused.code(), "invalid-request");
    assert!(refused.text().contains("1073741824 bytes in total"), "{}", refused.text());
    assert_eq!(server.result(&server.submit(&run(2)))["outcome"]["stdout"], "2\n");
}

#[test]
fn paths_and_methods_that_do_not_exist_are_problems() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    for path in ["/v1/", "/v1/nothing", "/v1/runs/x", "/v1/runs/../blobs", "/v1/tenants"] {
        assert_eq!(server.get(path).code(), "not-found", "{path}");
        // A client without a token does not learn which paths exist.
        assert_eq!(server.call_as("", "GET", path, &[], b"").code(), "unauthorized", "{path}");
    }
    let answer = server.call("DELETE", "/v1/runs", &Value::Null);
    assert_eq!((answer.status, answer.code()), (405, "method-not-allowed".into()));
    assert_eq!(answer.header("allow"), Some("get, post"));
    let answer = server.call_as("", "POST", "/v1/runs", &[], b"{}");
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("bearer")));
    let id = "0123456789abcdef0123456789abcdef";
    assert_eq!(server.get(&format!("/v1/runs/{id}")).code(), "not-found");
}

#[test]
fn answers_name_no_path_of_the_host() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    place.write("broken/SKILL.md", "---\nname: broken\ndescription: [\n---\n");
    let mut texts = Vec::new();
    for run in [
        json!({ "skill": "broken" }),
        json!({ "skill": "scribe", "target": { "script": "write.sh" } }),
        json!({ "skill": "scribe", "target": { "script": "missing.sh" } }),
        json!({ "skill": "loud", "target": { "command": "cat /etc/passwd /root/x" } }),
    ] {
        let answer = server.call("POST", "/v1/runs", &run);
        texts.push(answer.text());
        if answer.status == 202 {
            let id = answer.json()["id"].as_str().unwrap().to_owned();
            texts.push(server.result(&id).to_string());
        }
    }
    let root = place.user.root().canonicalize().unwrap();
    for text in texts {
        assert!(!text.contains(root.to_str().unwrap()), "{text}");
    }
}
