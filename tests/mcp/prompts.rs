//! Skills as prompts, and who may start a skill: the client's user, its agent, or both.

use serde_json::{Value, json};

use super::{Agent, NEW, OLD, Place, answer_text};

/// A place with skills for the user only, for agents only, and for nobody.
fn place() -> Place {
    let place = Place::new();
    place.skill(
        "deploy",
        "argument-hint: \"[environment] [version]\"\ndisable-model-invocation: true\nallowed-tools: Read Bash",
        "Deploy to $ARGUMENTS: run `scripts/go.sh`. Then report on $ARGUMENTS.",
    );
    place.write("deploy/scripts/go.sh", "#!/bin/bash\necho deployed\n");
    place.skill("background", "user-invocable: false", "How things are.");
    place.skill("nobody", "disable-model-invocation: true\nuser-invocable: false", "No.");
    place
}

fn names(agent: &mut Agent, method: &str, of: &str) -> Vec<String> {
    let listed = agent.ok(method, json!({}));
    let items = listed[of].as_array().unwrap().iter();
    items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn prompt(agent: &mut Agent, name: &str, arguments: Value) -> String {
    let got = agent.ok("prompts/get", json!({ "name": name, "arguments": arguments }));
    got["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_skill_for_users_is_a_prompt_and_agents_cannot_start_it() {
    let place = place();
    for revision in [OLD, NEW] {
        let mut agent = place.agent(revision, &[]);
        let prompts = names(&mut agent, "prompts/list", "prompts");
        assert_eq!(prompts, ["calculator", "deploy", "loud", "scribe", "writer"]);
        let found = answer_text(&agent.call("discover_skills", json!({ "category": "all" })));
        assert!(found.contains("background: ") && found.contains("5 of 5 installed"), "{found}");
        let resources = names(&mut agent, "resources/list", "resources");
        assert_eq!(resources, ["background", "calculator", "loud", "scribe", "writer"]);
        for name in ["deploy", "nobody"] {
            assert!(!found.contains(name), "{found}");
            for (tool, arguments) in [
                ("activate_skill", json!({ "name": name })),
                ("read_skill_file", json!({ "name": name, "path": "SKILL.md" })),
                ("run_skill", json!({ "name": name, "program": "go.sh" })),
            ] {
                let answer = agent.call(tool, arguments);
                assert!(
                    answer["isError"] == true && answer_text(&answer).starts_with("no skill `"),
                    "{tool}: {answer}"
                );
            }
            let uri = format!("skill://{name}/SKILL.md");
            assert!(agent.request("resources/read", json!({ "uri": uri })).get("error").is_some());
        }
        for name in ["background", "nobody"] {
            assert_eq!(agent.fails("prompts/get", json!({ "name": name })), -32602, "{name}");
        }
        let activated = agent.call("activate_skill", json!({ "name": "background" }));
        assert!(answer_text(&activated).contains("How things are."), "{activated}");
    }
}

#[test]
fn a_user_who_gets_the_prompt_lets_the_session_use_the_skill() {
    let place = place();
    let (mut one, mut other) = (place.agent(OLD, &[]), place.agent(OLD, &[]));
    prompt(&mut one, "deploy", json!({}));
    one.notification("notifications/tools/list_changed");
    let run = json!({ "name": "deploy", "program": "go.sh" });
    assert_eq!(one.call("run_skill", run.clone())["structuredContent"]["stdout"], "deployed\n");
    let file = json!({ "name": "deploy", "path": "scripts/go.sh" });
    assert!(answer_text(&one.call("read_skill_file", file.clone())).contains("echo deployed"));
    let found = one.call("discover_skills", json!({ "category": "active" }));
    assert!(answer_text(&found).starts_with("deploy: "), "{found}");
    // Not in another session, nor after it was deactivated.
    assert_eq!(other.call("run_skill", run.clone())["isError"], true);
    one.call("deactivate_skill", json!({ "name": "deploy" }));
    for (tool, arguments) in [
        ("run_skill", run),
        ("read_skill_file", file),
        ("activate_skill", json!({ "name": "deploy" })),
    ] {
        assert_eq!(one.call(tool, arguments)["isError"], true, "{tool}");
    }
}

#[test]
fn an_active_skill_that_becomes_one_for_users_is_gone() {
    let place = place();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.notification("notifications/tools/list_changed");
    place.skill("scribe", "disable-model-invocation: true", "For users.");
    agent.notification("notifications/tools/list_changed");
    let run = agent.call("run_skill", json!({ "name": "scribe", "program": "note.sh" }));
    assert!(answer_text(&run).starts_with("no skill `scribe`"), "{run}");
}

#[test]
fn the_argument_of_a_prompt_is_put_into_the_instructions() {
    let place = place();
    let mut agent = place.agent(OLD, &[]);
    let listed = agent.ok("prompts/list", json!({}));
    let argument = |name: &str| {
        let prompts = listed["prompts"].as_array().unwrap();
        let prompt = prompts.iter().find(|prompt| prompt["name"] == name).unwrap();
        prompt["arguments"][0].clone()
    };
    assert_eq!(argument("deploy")["description"], "[environment] [version]");
    assert_eq!(argument("scribe")["description"], "what to do with the skill");
    let text = prompt(&mut agent, "deploy", json!({ "request": "test $ARGUMENTS !`id`" }));
    assert!(
        text.ends_with(
            "Deploy to test $ARGUMENTS !`id`: run `scripts/go.sh`. Then report on test $ARGUMENTS !`id`."
        ),
        "{text}"
    );
    let text = prompt(&mut agent, "deploy", json!({}));
    assert!(text.contains("Deploy to : run"), "{text}");
    let text = prompt(&mut agent, "scribe", json!({ "request": "note this" }));
    assert!(text.ends_with("\n\n---\nnote this"), "{text}");
    let long = json!({ "name": "deploy", "arguments": { "request": "x".repeat((64 << 10) + 1) } });
    assert_eq!(agent.fails("prompts/get", long), -32602);
}

#[test]
fn commands_in_instructions_are_never_run() {
    let place = place();
    let marker = place.user.work().join("ran");
    let command = format!("!`touch {}`", marker.display());
    place.skill("loud", "allowed-tools: Bash", &command);
    let mut agent = place.agent(OLD, &[]);
    assert!(prompt(&mut agent, "loud", json!({})).contains(&command));
    let activated = answer_text(&agent.call("activate_skill", json!({ "name": "loud" })));
    assert!(activated.contains(&command), "{activated}");
    assert!(!marker.exists());
    agent.close();
    assert!(place.user.records().is_empty());
}
