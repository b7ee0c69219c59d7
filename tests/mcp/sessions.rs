//! Tools for sessions: an agent works in places that last for a task, if the operator permits it.

use serde_json::{Value, json};

use super::http::Server;
use super::{NEW, OLD, Place, answer_text, becomes};

const START: [&str; 5] =
    ["discover_skills", "activate_skill", "read_skill_file", "run_skill", "deactivate_skill"];
const ALL: [&str; 10] = [
    "create_session",
    "run_in_session",
    "read_session_file",
    "write_session_file",
    "list_session_files",
    "diff_session",
    "fork_session",
    "snapshot_session",
    "restore_session",
    "end_session",
];
const ON: &[&str] = &["--session-tools"];

fn created(answer: &Value) -> String {
    let id = answer["structuredContent"]["session"].as_str();
    id.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn an_agent_works_in_a_session_from_its_beginning_to_its_end() {
    let place = Place::new();
    for revision in [OLD, NEW] {
        let mut agent = place.agent(revision, ON);
        assert_eq!(agent.tools(), START[..3], "as without them");
        agent.call("activate_skill", json!({ "name": "writer" }));
        assert_eq!(agent.tools(), [&START[..], &ALL[..1]].concat());
        let files = json!({ "in.txt": "one\n" });
        let made = agent.call("create_session", json!({ "skills": ["writer"], "files": files }));
        let id = created(&made);
        assert_eq!(agent.tools(), [&START[..], &ALL[..]].concat());
        if revision == OLD {
            agent.notification("notifications/tools/list_changed");
        }
        let mut run = |more: Value| {
            let mut input = more;
            input["session"] = json!(id);
            agent.call("run_in_session", input)
        };
        let ran =
            run(json!({ "command": "cat in.txt; echo two > out.txt; echo told >&2; exit 4" }));
        let output = &ran["structuredContent"];
        assert_eq!((&ran["isError"], &output["exit_code"]), (&json!(true), &json!(4)), "{ran}");
        assert_eq!((&output["stdout"], &output["stderr"]), (&json!("one\n"), &json!("told\n")));
        assert!(answer_text(&ran).contains("exited with code 4"));
        let ran = run(json!({ "args": ["cat"], "stdin": "$(typed)" }));
        assert_eq!((&ran["isError"], answer_text(&ran)), (&json!(false), "$(typed)".into()));
        let mut file = |tool: &str, more: Value| {
            let mut input = more;
            input["session"] = json!(id);
            answer_text(&agent.call(tool, input))
        };
        assert_eq!(file("read_session_file", json!({ "path": "out.txt" })), "two\n");
        let written = file("write_session_file", json!({ "path": "a/b.txt", "content": "bee\n" }));
        assert_eq!(written, "wrote 4 bytes");
        let all = file("list_session_files", json!({ "recursive": true }));
        assert_eq!(all, "a/\na/b.txt  4 bytes\nin.txt  4 bytes\nout.txt  4 bytes");
        let diff = file("diff_session", json!({ "accept": true }));
        assert!(diff.contains("+bee") && diff.contains("+two"), "{diff}");
        assert_eq!(file("diff_session", json!({})), "no changes");
        assert_eq!(file("end_session", json!({})), "ended");
        let gone = file("read_session_file", json!({ "path": "out.txt" }));
        assert!(gone.contains("no such session"), "{gone}");
        assert_eq!(agent.tools(), [&START[..], &ALL[..1]].concat());
        agent.close();
    }
    // Each program is in the audit log of the operator.
    let records = place.user.records();
    assert!(records.iter().any(|record| record.to_string().contains("agents over MCP")));
    let left = std::fs::read_dir(place.user.home().join(".local/state/skillhost")).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name == "tenants"), "{names:?}");
}

#[test]
fn an_agent_denies_its_session_what_a_task_does_not_need() {
    let place = Place::new();
    let mut agent = place.agent(NEW, ON);
    agent.call("activate_skill", json!({ "name": "writer" }));
    let create = |deny: Value| json!({ "skills": ["writer"], "files": { "a": "x" }, "deny": deny });
    let id = created(&agent.call("create_session", create(json!(["Write"]))));
    let command = "cat a; touch b || echo denied";
    let ran = agent.call("run_in_session", json!({ "session": id, "command": command }));
    assert_eq!(ran["structuredContent"]["stdout"], "xdenied\n", "{ran}");
    let write = json!({ "session": id, "path": "a", "content": "y" });
    assert_eq!(agent.call("write_session_file", write)["isError"], true);
    let refused = agent.call("create_session", create(json!(["Write("])));
    assert!(answer_text(&refused).contains("policy.deny[0]"), "{refused}");
}

#[test]
fn an_agent_tries_something_in_a_fork_and_goes_back_to_a_snapshot() {
    let place = Place::new();
    let mut agent = place.agent(NEW, ON);
    agent.call("activate_skill", json!({ "name": "writer" }));
    let files = json!({ "notes": "first\n" });
    let made = agent.call("create_session", json!({ "skills": ["writer"], "files": files }));
    let id = created(&made);
    let mut call = |tool: &str, session: &str, more: Value| {
        let mut input = more;
        input["session"] = json!(session);
        agent.call(tool, input)
    };
    let notes = json!({ "path": "notes" });
    let taken = call("snapshot_session", &id, json!({}));
    assert_eq!(taken["structuredContent"]["files"], 1, "{taken}");
    let snapshot = taken["structuredContent"]["snapshot"].clone();
    call("run_in_session", &id, json!({ "command": "echo second >> notes; touch other" }));
    let fork = created(&call("fork_session", &id, json!({})));
    assert_ne!(fork, id);
    call("run_in_session", &fork, json!({ "command": "echo third >> notes" }));
    let read = |answer: &Value| answer_text(answer);
    assert_eq!(read(&call("read_session_file", &fork, notes.clone())), "first\nsecond\nthird\n");
    assert_eq!(read(&call("read_session_file", &id, notes.clone())), "first\nsecond\n");
    let both = call("diff_session", &fork, json!({ "accept": true, "drop": true }));
    assert_eq!(both["isError"], true, "{both}");
    let dropped = read(&call("diff_session", &fork, json!({ "drop": true })));
    assert!(dropped.contains("+third"), "{dropped}");
    assert_eq!(read(&call("read_session_file", &fork, notes.clone())), "first\n");
    assert_eq!(read(&call("restore_session", &id, json!({ "snapshot": snapshot }))), "restored");
    assert_eq!(read(&call("list_session_files", &id, json!({}))), "notes  6 bytes");
    let digest = format!("sha256:{}", "0".repeat(64));
    for unknown in ["", "notes", &digest] {
        let refused = call("restore_session", &id, json!({ "snapshot": unknown }));
        assert_eq!(refused["isError"], true, "{refused}");
    }
    assert_eq!(read(&call("end_session", &fork, json!({}))), "ended");
    assert_eq!(read(&call("read_session_file", &id, notes)), "first\n");
    agent.close();
}

#[test]
fn without_the_flag_the_tools_do_not_exist() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "writer" }));
    assert_eq!(agent.tools(), START);
    for tool in ALL {
        agent.fails("tools/call", json!({ "name": tool, "arguments": { "skills": ["writer"] } }));
    }
    agent.close();
    // Nor for a request that has no session of the protocol.
    let server = Server::new(&place, ON);
    let call = json!({ "name": "create_session", "arguments": { "skills": ["writer"] } });
    let answer = server.post(
        &super::request(NEW, 1, "tools/call", call),
        &[
            ("MCP-Protocol-Version", NEW),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "create_session"),
        ],
    );
    assert!(answer.body.contains("no tool `create_session`"), "{}", answer.body);
}

#[test]
fn a_session_has_the_permissions_of_activated_skills() {
    let place = Place::new();
    let mut agent = place.agent(OLD, ON);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let create = |skills: Value| json!({ "skills": skills });
    for (skills, why) in [
        (json!(["writer"]), "is not activated"),
        (json!(["scribe", "writer"]), "is not activated"),
        (json!(["nothing"]), "nothing"),
        (json!([]), "1 to 32"),
    ] {
        let refused = agent.call("create_session", create(skills));
        assert!(refused["isError"] == true && answer_text(&refused).contains(why), "{refused}");
    }
    let id = created(&agent.call("create_session", create(json!(["scribe"]))));
    let ran = agent.call("run_in_session", json!({ "session": id, "command": "echo x > new" }));
    assert!(
        ran["isError"] == true && answer_text(&ran).contains("[denied: write /workspace/new"),
        "{ran}"
    );
    let write = json!({ "session": id, "path": "new", "content": "x" });
    let refused = agent.call("write_session_file", write);
    assert!(refused["isError"] == true, "{refused}");
    let other = json!({ "session": id, "skill": "writer", "command": "true" });
    let refused = agent.call("run_in_session", other);
    assert!(refused["isError"] == true && answer_text(&refused).contains("skill"), "{refused}");
    for path in ["/etc/passwd", "../../x", "/skill/SKILL.md"] {
        let read = agent.call("read_session_file", json!({ "session": id, "path": path }));
        assert_eq!(read["isError"], true, "{path}: {read}");
    }
    agent.close();
}

#[test]
fn agents_reach_their_own_sessions_only() {
    let place = Place::new();
    let server = Server::new(&place, ON);
    let (one, two) = (server.session(), server.session());
    let call = |who: &str, tool: &str, arguments: Value| {
        server.ask(who, "tools/call", json!({ "name": tool, "arguments": arguments }))
    };
    for who in [&one, &two] {
        call(who, "activate_skill", json!({ "name": "writer" }));
    }
    let new = || json!({ "skills": ["writer"], "files": { "secret": "mine" } });
    let id = created(&call(&one, "create_session", new()));
    let own = created(&call(&two, "create_session", new()));
    for (tool, more) in [
        ("run_in_session", json!({ "command": "cat secret" })),
        ("read_session_file", json!({ "path": "secret" })),
        ("write_session_file", json!({ "path": "secret", "content": "x" })),
        ("list_session_files", json!({})),
        ("diff_session", json!({ "accept": true })),
        ("end_session", json!({})),
    ] {
        let mut input = more;
        input["session"] = json!(id);
        let refused = call(&two, tool, input);
        assert!(
            refused["isError"] == true && answer_text(&refused).contains("no such session"),
            "{tool}: {refused}"
        );
    }
    let read = json!({ "session": id, "path": "secret" });
    assert_eq!(answer_text(&call(&one, "read_session_file", read)), "mine");
    // The run API has other sessions.
    let listed = server.get("/v1/sessions", &[]);
    assert_eq!(listed.body, "{\"sessions\":[]}");
    assert_eq!(server.get(&format!("/v1/sessions/{own}"), &[]).status, 404);
    // An agent that leaves loses its sessions.
    let scratch = |id: &str| {
        let root = place.user.work();
        let mut find = std::process::Command::new("find");
        let found =
            find.arg(root.parent().unwrap()).args(["-path", &format!("*/live/{id}")]).output();
        !found.unwrap().stdout.is_empty()
    };
    assert!(scratch(&id), "where sessions are is known");
    let mut stream = std::net::TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "DELETE /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nMcp-Session-Id: {one}\r\nConnection: close\r\n\r\n",
        server.address, server.token
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    becomes("the files of an agent that left stay", || !scratch(&id));
    assert!(scratch(&own));
    server.stop();
    becomes("the files of a server that stopped stay", || !scratch(&own));
}
