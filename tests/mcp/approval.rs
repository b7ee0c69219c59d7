//! Where a person has to say so: the client's user is asked, or the operator; nobody else's word counts.

use serde_json::{Value, json};

use super::{Agent, NEW, OLD, Place, request, said};

/// A call that writes the operator's folder, which asks.
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

fn agent(place: &Place, workspace: &std::path::Path, revision: &'static str, capabilities: &Value) -> Agent {
    let mut agent = Agent::new(&mut place.server("mcp", &["--workspace", workspace.to_str().unwrap()]), revision, capabilities);
    agent.call("activate_skill", json!({ "name": "writer" }));
    agent
}

#[test]
fn a_client_that_cannot_ask_is_told_what_the_operator_would_type() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, OLD, &json!({}));
    for _ in 0..2 {
        let asked = agent.ok("tools/call", call());
        assert!(asked["isError"] == true && said(&asked).contains("writer needs approval"), "{asked}");
        let command = said(&asked).lines().last().unwrap().split("skillhost ").nth(1).unwrap().to_owned();
        assert!(!said(&asked).contains(workspace.to_str().unwrap()), "{asked}");
        assert!(!written.exists());
        let pending = String::from_utf8(place.user.skillhost(&["pending"]).stdout).unwrap();
        assert!(pending.contains("writer"), "{pending}");
        let approved = place.user.skillhost(&[&command.split(' ').collect::<Vec<_>>()[..], &["--once"]].concat());
        assert!(approved.status.success(), "{approved:?}");
        let run = agent.ok("tools/call", call());
        assert_eq!((&run["isError"], std::fs::read_to_string(&written).unwrap().as_str()), (&json!(false), "written\n"), "{run}");
        std::fs::remove_file(&written).unwrap();
    }
}

#[test]
fn a_user_is_asked_by_the_client_and_the_answer_counts_as_long_as_it_says() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, OLD, &json!({ "elicitation": {} }));
    // What is answered, or nothing where nobody is to be asked; and whether it runs.
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
                let message = agent.hear();
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
    // Another session asks anew.
    let other = self::agent(&place, &workspace, OLD, &json!({})).ok("tools/call", call());
    assert!(other["isError"] == true && said(&other).contains("needs approval"), "{other}");
    // What did not run is recorded as well.
    let log = String::from_utf8(place.user.skillhost(&["audit", "list", "--json"]).stdout).unwrap();
    let of = |word: &str| log.lines().filter(|line| line.contains("\"kind\":\"denied\"") && line.contains(word)).count();
    assert_eq!((of("the user did not allow it"), of("it needs approval")), (3, 1), "{log}");
}

#[test]
fn an_answer_that_nobody_asked_for_is_none() {
    let (place, workspace) = place();
    let written = workspace.join("sub/out.txt");
    let mut agent = agent(&place, &workspace, NEW, &json!({}));
    // A client of this revision says with each request what it can.
    let mut ask = |more: Value| {
        let mut message = request(NEW, 0, "tools/call", call());
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        for (key, value) in more.as_object().unwrap() {
            message["params"][key] = value.clone();
        }
        agent.ok_as_written(message["params"].clone())
    };
    let yes = json!({ "approval": { "action": "accept", "content": { "allow": "once" } } });
    let first = ask(json!({}));
    assert_eq!(first["resultType"], "input_required", "{first}");
    assert!(first["inputRequests"]["approval"]["params"]["message"].as_str().unwrap().contains("writer"), "{first}");
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
    // It was for one run, and the state for one answer.
    let replayed = ask(answered);
    assert!(replayed["resultType"] == "input_required" && !written.exists(), "{replayed}");
}

#[test]
fn a_skill_from_outside_and_one_with_network_do_not_run_by_themselves() {
    let place = Place::new();
    place.skill("net", "allowed-tools: WebFetch Bash", "Fetches.");
    place.write("net/scripts/go.sh", "#!/bin/bash\necho went\n");
    let outside = place.user.root().join("outside/stranger");
    std::fs::create_dir_all(outside.join("scripts")).unwrap();
    std::fs::write(outside.join("SKILL.md"), "---\nname: stranger\ndescription: From outside. Use to test.\nallowed-tools: Bash\n---\n")
        .unwrap();
    std::fs::write(outside.join("scripts/go.sh"), "#!/bin/bash\necho went\n").unwrap();
    let mut agent = place.agent(OLD, &["--skills", outside.parent().unwrap().to_str().unwrap(), "--allow", "WebFetch(domain:example.com)"]);
    let found = said(&agent.call("discover_skills", json!({})));
    assert!(!found.contains("net: ") && found.contains("stranger: "), "{found}");
    assert_eq!(agent.call("activate_skill", json!({ "name": "net" }))["isError"], true);
    agent.call("activate_skill", json!({ "name": "stranger" }));
    let run = agent.call("run_skill", json!({ "name": "stranger", "program": "go.sh" }));
    assert!(run["isError"] == true && said(&run).contains("needs approval"), "{run}");
}

#[test]
fn staged_writes_wait_for_the_operator() {
    let (place, workspace) = place();
    let policy = place.user.work().join("staging.yaml");
    std::fs::write(&policy, "default:\n  allow: [Read, Write, Bash]\n  approval: auto-approved\n  stage: true\n").unwrap();
    let written = workspace.join("sub/out.txt");
    let mut agent = place.agent(OLD, &["--workspace", workspace.to_str().unwrap(), "--policy", policy.to_str().unwrap()]);
    agent.call("activate_skill", json!({ "name": "writer" }));
    let run = agent.ok("tools/call", call());
    assert_eq!((&run["isError"], written.exists()), (&json!(false), false), "{run}");
    assert!(run["structuredContent"]["diff"].as_str().unwrap().contains("+written"), "{run}");
    let command = said(&run).lines().last().unwrap().split("skillhost ").nth(1).unwrap().trim_end_matches(']').to_owned();
    let approved = place.user.skillhost(&command.split(' ').collect::<Vec<_>>());
    assert!(approved.status.success(), "{approved:?}");
    assert_eq!(std::fs::read_to_string(&written).unwrap(), "written\n");
}
