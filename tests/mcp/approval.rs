//! Approvals over MCP: the operator is asked, or the client's user if the policy says so, and no
//! other answer counts.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Agent, NEW, OLD, Place, TRUSTED, answer_text, request};

/// A call that writes to the operator's folder, which needs approval.
fn call() -> Value {
    json!({ "name": "run_skill", "arguments": { "name": "writer", "program": "write.sh", "stdin": "written\n" } })
}

/// A place whose operator names a workspace.
fn place() -> (Place, std::path::PathBuf) {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    (place, workspace)
}

fn agent(place: &Place, workspace: &Path, revision: &'static str, capabilities: &Value) -> Agent {
    let args = ["--workspace", workspace.to_str().unwrap(), "--policy", &place.asking_clients()];
    let mut agent = Agent::new(&mut place.server("mcp", &args), revision, capabilities);
    agent.call("activate_skill", json!({ "name": "writer" }));
    agent
}

#[test]
fn a_client_gets_the_operators_approve_command() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, OLD, &json!({}));
    for _ in 0..2 {
        let asked = agent.ok("tools/call", call());
        assert!(
            asked["isError"] == true && answer_text(&asked).contains("writer needs approval"),
            "{asked}"
        );
        let command = answer_text(&asked)
            .lines()
            .last()
            .unwrap()
            .split("skillhost ")
            .nth(1)
            .unwrap()
            .to_owned();
        assert!(!answer_text(&asked).contains(workspace.to_str().unwrap()), "{asked}");
        assert!(!written.exists());
        let pending = String::from_utf8(place.user.skillhost(&["pending"]).stdout).unwrap();
        assert!(pending.contains("writer"), "{pending}");
        let approved = place
            .user
            .skillhost(&[&command.split(' ').collect::<Vec<_>>()[..], &["--once"]].concat());
        assert!(approved.status.success(), "{approved:?}");
        let run = agent.ok("tools/call", call());
        assert_eq!(
            (&run["isError"], std::fs::read_to_string(&written).unwrap().as_str()),
            (&json!(false), "written\n"),
            "{run}"
        );
        std::fs::remove_file(&written).unwrap();
    }
}

#[test]
fn a_clients_user_approves_for_the_chosen_term() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, OLD, &json!({ "elicitation": {} }));
    // The answer, or nothing if no one is asked, and whether the run starts.
    for (answer, runs) in [
        (Some(json!({ "action": "decline" })), false),
        (Some(json!({ "action": "accept", "content": { "allow": "no" } })), false),
        (Some(json!({ "action": "accept", "content": { "allow": "always" } })), false),
        (Some(json!({ "action": "accept", "content": { "allow": "once" } })), true),
        (Some(json!({ "action": "accept", "content": { "allow": "session" } })), true),
        (None, true),
    ] {
        let id = agent.ask("tools/call", call());
        if let Some(answer) = &answer {
            let asked = loop {
                let message = agent.next_message();
                if message["method"] == "elicitation/create" {
                    break message;
                }
            };
            assert!(asked["params"]["message"].as_str().unwrap().contains("writer"), "{asked}");
            agent.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }));
        }
        let run = agent.answer(id)["result"].clone();
        assert_eq!((&run["isError"], written.exists()), (&json!(!runs), runs), "{answer:?}: {run}");
        drop(std::fs::remove_file(&written));
    }
    // Another session asks again.
    let other = self::agent(&place, &workspace, OLD, &json!({})).ok("tools/call", call());
    assert!(other["isError"] == true && answer_text(&other).contains("needs approval"), "{other}");
    // The refused run is recorded as well.
    let log = String::from_utf8(place.user.skillhost(&["audit", "list", "--json"]).stdout).unwrap();
    let of = |word: &str| {
        log.lines()
            .filter(|line| line.contains("\"kind\":\"denied\"") && line.contains(word))
            .count()
    };
    assert_eq!((of("the user did not allow it"), of("it needs approval")), (3, 1), "{log}");
}

#[test]
fn a_skill_that_changes_while_asking_is_not_run() {
    let (place, workspace) = place();
    let mut agent = agent(&place, &workspace, OLD, &json!({ "elicitation": {} }));
    let id = agent.ask("tools/call", call());
    let asked = loop {
        let message = agent.next_message();
        if message["method"] == "elicitation/create" {
            break message["id"].clone();
        }
    };
    place.write("writer/scripts/write.sh", "#!/bin/bash\necho other\n");
    agent.say(&json!({ "jsonrpc": "2.0", "id": asked, "result": { "action": "accept", "content": { "allow": "once" } } }));
    let run = agent.answer(id)["result"].clone();
    assert!(
        run["isError"] == true
            && answer_text(&run).contains("writer changed while it awaited approval"),
        "{run}"
    );
    assert!(!workspace.join("sub").exists(), "neither the old nor the new one ran");
}

#[test]
fn a_client_does_not_approve_its_own_runs() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let operator = place.user.work().join("operator.yaml");
    std::fs::write(&operator, "default:\n  allow: [Read, Write, Bash]\nclients: { stdio: { ask: operator }, http: { ask: client } }\n")
        .unwrap();
    for policy in [vec![], vec!["--policy", operator.to_str().unwrap()]] {
        let args = [&["--workspace", workspace.to_str().unwrap()], &policy[..]].concat();
        let mut agent =
            Agent::new(&mut place.server("mcp", &args), OLD, &json!({ "elicitation": {} }));
        agent.call("activate_skill", json!({ "name": "writer" }));
        let run = agent.ok("tools/call", call());
        assert!(
            run["isError"] == true
                && answer_text(&run).contains("The operator can approve it: skillhost approve"),
            "{run}"
        );
        assert!(
            agent.requests.is_empty() && !written.exists(),
            "the client is not asked: {:?}",
            agent.requests
        );
        // Since revision 2026-07-28, a question is a result.
        let mut agent = Agent::new(&mut place.server("mcp", &args), NEW, &json!({}));
        agent.call("activate_skill", json!({ "name": "writer" }));
        let mut message = request(NEW, 0, "tools/call", call());
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {} });
        message["params"]["inputResponses"] =
            json!({ "approval": { "action": "accept", "content": { "allow": "once" } } });
        let run = agent.ok_as_written(message["params"].clone());
        assert!(
            run["isError"] == true && run["requestState"].is_null() && !written.exists(),
            "{run}"
        );
    }
}

#[test]
fn unsolicited_answers_are_ignored() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, NEW, &json!({}));
    // A client of this revision sends its capabilities with each request.
    let mut ask = |more: Value| {
        let mut message = request(NEW, 0, "tools/call", call());
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": {} });
        for (key, value) in more.as_object().unwrap() {
            message["params"][key] = value.clone();
        }
        agent.ok_as_written(message["params"].clone())
    };
    let yes = json!({ "approval": { "action": "accept", "content": { "allow": "once" } } });
    let first = ask(json!({}));
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert!(
        first["inputRequests"]["approval"]["params"]["message"]
            .as_str()
            .unwrap()
            .contains("writer"),
        "{first}"
    );
    for forged in [
        json!({ "inputResponses": yes }),
        json!({ "inputResponses": yes, "requestState": "" }),
        json!({ "inputResponses": yes, "requestState": "00000000000000000000000000000000" }),
        json!({ "requestState": first["requestState"] }),
    ] {
        let again = ask(forged);
        assert!(again["resultType"] == "input_required" && !written.exists(), "{again}");
    }
    let answered = json!({ "inputResponses": yes, "requestState": first["requestState"] });
    let run = ask(answered.clone());
    assert_eq!((&run["isError"], written.exists()), (&json!(false), true), "{run}");
    std::fs::remove_file(&written).unwrap();
    // The approval was for one run, and the state for one answer.
    let replayed = ask(answered);
    assert!(replayed["resultType"] == "input_required" && !written.exists(), "{replayed}");
}

#[test]
fn untrusted_and_network_skills_need_approval() {
    let place = Place::new();
    place.skill("net", "allowed-tools: WebFetch Bash", "Fetches.");
    place.write("net/scripts/go.sh", "#!/bin/bash\necho went\n");
    let outside = place.user.root().join("outside/stranger");
    std::fs::create_dir_all(outside.join("scripts")).unwrap();
    std::fs::write(
        outside.join("SKILL.md"),
        "---\nname: stranger\ndescription: From outside. Use to test.\nallowed-tools: Bash\n---\n",
    )
    .unwrap();
    std::fs::write(outside.join("scripts/go.sh"), "#!/bin/bash\necho went\n").unwrap();
    let mut agent = place.agent(
        OLD,
        &[
            "--skills",
            outside.parent().unwrap().to_str().unwrap(),
            "--allow",
            "WebFetch(domain:example.com)",
        ],
    );
    let found = answer_text(&agent.call("discover_skills", json!({})));
    assert!(!found.contains("net: ") && found.contains("stranger: "), "{found}");
    assert_eq!(agent.call("activate_skill", json!({ "name": "net" }))["isError"], true);
    agent.call("activate_skill", json!({ "name": "stranger" }));
    let run = agent.call("run_skill", json!({ "name": "stranger", "program": "go.sh" }));
    assert!(run["isError"] == true && answer_text(&run).contains("needs approval"), "{run}");
}

/// A server whose policy stages writes, and does not ask before runs.
fn staging(place: &Place, workspace: &Path) -> Command {
    let policy = place.user.work().join("staging.yaml");
    let asks = "clients: { stdio: { ask: client }, http: { ask: client } }";
    let text = format!(
        "{TRUSTED}default:\n  allow: [Read, Write, Bash]\n  approval: auto-approved\n  stage: true\n{asks}\n"
    );
    std::fs::write(&policy, text).unwrap();
    place.server(
        "mcp",
        &["--workspace", workspace.to_str().unwrap(), "--policy", policy.to_str().unwrap()],
    )
}

/// A call that writes this many lines.
fn write(lines: usize) -> Value {
    let text: String = (0..lines).map(|line| format!("written {line}\n")).collect();
    json!({ "name": "run_skill", "arguments": { "name": "writer", "program": "write.sh", "stdin": text } })
}

fn pending(place: &Place) -> Vec<Value> {
    let listed = place.user.skillhost(&["pending", "--json"]).stdout;
    serde_json::from_slice::<Value>(&listed).unwrap().as_array().unwrap().clone()
}

#[test]
fn staged_writes_await_the_operator() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = Agent::new(&mut staging(&place, &workspace), OLD, &json!({}));
    agent.call("activate_skill", json!({ "name": "writer" }));
    let run = agent.ok("tools/call", call());
    assert_eq!((&run["isError"], written.exists()), (&json!(false), false), "{run}");
    assert!(run["structuredContent"]["diff"].as_str().unwrap().contains("+written"), "{run}");
    let command = answer_text(&run)
        .lines()
        .last()
        .unwrap()
        .split("skillhost ")
        .nth(1)
        .unwrap()
        .trim_end_matches(']')
        .to_owned();
    let approved = place.user.skillhost(&command.split(' ').collect::<Vec<_>>());
    assert!(approved.status.success(), "{approved:?}");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "written\n");
    let permissions =
        String::from_utf8(place.user.skillhost(&["permissions", "--json"]).stdout).unwrap();
    assert!(
        permissions.contains("change /workspace/sub/out.txt"),
        "the approval records its user: {permissions}"
    );
}

/// Answers for a staged run as the operator; returns whether that succeeded.
fn approve(place: &Place, id: &Value) -> bool {
    place.user.skillhost(&["approve", &id.to_string()]).status.success()
}

#[test]
fn clients_never_approve_staged_writes() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    for (revision, asked) in [(OLD, json!({ "elicitation": {} })), (NEW, json!({}))] {
        let mut agent = Agent::new(&mut staging(&place, &workspace), revision, &asked);
        agent.call("activate_skill", json!({ "name": "writer" }));
        let mut message = request(revision, 0, "tools/call", call());
        if revision == NEW {
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "elicitation": {} });
            message["params"]["inputResponses"] =
                json!({ "writes": { "action": "accept", "content": { "write": "yes" } } });
        }
        let run = agent.ok_as_written(message["params"].clone());
        assert_eq!((&run["isError"], written.exists()), (&json!(false), false), "{run}");
        assert!(
            answer_text(&run).contains("the operator can apply them: skillhost approve")
                && run["requestState"].is_null(),
            "{run}"
        );
        assert!(agent.requests.is_empty(), "the client is not asked: {:?}", agent.requests);
    }
    assert_eq!(pending(&place).len(), 2);
}

#[test]
fn a_file_changed_since_the_run_is_not_overwritten() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = Agent::new(&mut staging(&place, &workspace), OLD, &json!({}));
    agent.call("activate_skill", json!({ "name": "writer" }));
    agent.ok("tools/call", call());
    std::fs::create_dir(workspace.join("sub")).unwrap();
    std::fs::write(&written, "mine\n").unwrap();
    let waits = pending(&place);
    assert!(!approve(&place, &waits[0]["id"]));
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "mine\n");
    assert_eq!(pending(&place).len(), 1, "the operator may still write it, or not");
}

#[test]
fn a_long_diff_is_cut_and_complete_as_a_resource() {
    let (place, workspace) = place();
    let mut agent = Agent::new(&mut staging(&place, &workspace), OLD, &json!({}));
    agent.call("activate_skill", json!({ "name": "writer" }));
    let run = agent.ok("tools/call", write(5_000));
    assert!(answer_text(&run).len() < 40_000, "{} bytes", answer_text(&run).len());
    let uri = run["structuredContent"]["diff_uri"].as_str().unwrap();
    assert!(answer_text(&run).contains(uri), "{run}");
    let diff = agent.ok("resources/read", json!({ "uri": uri }));
    assert!(diff["contents"][0]["text"].as_str().unwrap().ends_with("+written 4999\n"));
    let waits = pending(&place);
    assert!(
        waits[0]["diff"].as_str().unwrap().ends_with("+written 4999\n"),
        "the operator sees the complete diff"
    );
    assert!(approve(&place, &waits[0]["id"]));
    assert_eq!(
        std::fs::read_to_string(workspace.join("sub/out.txt")).unwrap().lines().count(),
        5_000
    );
}
