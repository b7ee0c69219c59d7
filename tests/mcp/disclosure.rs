//! What agents see of skills and typed tools: from the start, once they ask, or never.

use serde_json::{Value, json};
use skillhost_sandbox::{Tool, with_listing};

use super::http::Server;
use super::{Agent, NEW, OLD, Place, TRUSTED, answer_text, request};
use crate::cli::text as text_of;
use crate::hostile_tools::toolbox;

const DISCOVERY: [&str; 3] = ["discover_skills", "activate_skill", "read_skill_file"];
const ACTIVE: [&str; 2] = ["run_skill", "deactivate_skill"];

/// A place with a skill `box`, whose component has the typed tools `one` and `two`.
fn place() -> Place {
    let place = Place::new();
    let tool = |name: &str| Tool {
        name: name.into(),
        description: "Returns its input.".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
    };
    let component = toolbox(&[("one", "true", None), ("two", "true", None)]);
    place.skill("box", "metadata:\n  component: box.wasm", "Call the tools.");
    place.write("box/box.wasm", with_listing(&component, &[tool("one"), tool("two")]).unwrap());
    place
}

/// A policy file with this text, as an argument.
fn policy(place: &Place, text: &str) -> [String; 2] {
    let path = place.user.work().join("disclosure.yaml");
    std::fs::write(&path, format!("{TRUSTED}{text}")).unwrap();
    ["--policy".to_owned(), path.to_str().unwrap().to_owned()]
}

/// A client of a server with this policy.
fn agent(place: &Place, revision: &'static str, text: &str) -> Agent {
    let policy = policy(place, text);
    place.agent(revision, &policy.each_ref().map(String::as_str))
}

/// Returns the tools of a session, apart from those of every session.
fn own_tools(agent: &mut Agent) -> Vec<String> {
    let tools = agent.tools();
    assert_eq!(tools[..3], DISCOVERY);
    tools[3..].to_vec()
}

const ALLOWED: &str = "default: { allow: [Read, Write, Bash] }\n";

#[test]
fn an_always_disclosed_skill_is_active_from_the_start() {
    let place = place();
    let text = format!("{ALLOWED}skills: {{ box: {{ disclosure: always }} }}\n");
    let long = format!("The box, {}.", "which has many words, ".repeat(20));
    place.write(
        "box/SKILL.md",
        format!("---\nname: box\ndescription: >-\n  {long}\n  \u{202e}\nmetadata:\n  component: box.wasm\n---\nCall.\n"),
    );
    for revision in [OLD, NEW] {
        let mut agent = agent(&place, revision, &text);
        let welcome = if revision == OLD {
            agent.welcome.clone()
        } else {
            agent.ok("server/discover", json!({}))
        };
        let instructions = welcome["instructions"].as_str().unwrap();
        let summary = instructions.split_once("\nActive from the start:\n- box: ").unwrap().1;
        assert!(summary.starts_with("The box, which has many words"), "{instructions}");
        assert!((90..=120).contains(&summary.chars().count()), "{instructions}");
        assert_eq!(own_tools(&mut agent), [&ACTIVE[..], &["box.one", "box.two"]].concat());
        let found = answer_text(&agent.call("discover_skills", json!({ "query": "box" })));
        assert!(found.contains("[always, id ") && !found.contains("[deferred"), "{found}");
        let called = agent.call("box.one", json!({ "text": "said" }));
        assert!(answer_text(&called).contains("said"), "{called}");
    }
    let quiet = agent(&place, OLD, ALLOWED).welcome["instructions"].as_str().unwrap().to_owned();
    assert!(!quiet.contains("Active"), "{quiet}");
}

#[test]
fn a_skill_from_elsewhere_is_not_active_from_the_start() {
    let place = place();
    let elsewhere = place.user.work().join("elsewhere/foreign");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(
        elsewhere.join("SKILL.md"),
        "---\nname: foreign\ndescription: Not the user's own.\n---\nNo.\n",
    )
    .unwrap();
    let text = "default: { allow: [Read], disclosure: always }\nskills: { scribe: { approval: blocked } }\n";
    let [flag, policy] = policy(&place, text);
    let folder = elsewhere.parent().unwrap().to_str().unwrap().to_owned();
    let mut agent = place.agent(OLD, &[&flag, &policy, "--skills", &folder]);
    let instructions = agent.welcome["instructions"].as_str().unwrap().to_owned();
    for (name, starts) in
        [("box", true), ("writer", true), ("loud", true), ("foreign", false), ("scribe", false)]
    {
        assert_eq!(instructions.contains(&format!("\n- {name}: ")), starts, "{instructions}");
        let run = agent.call("run_skill", json!({ "name": name, "program": "none.sh" }));
        assert_eq!(answer_text(&run).contains("is not activated"), name == "foreign", "{run}");
    }
    let found = answer_text(&agent.call("discover_skills", json!({ "query": "foreign" })));
    assert!(found.contains("Not the user's own. [deferred, id "), "{found}");
}

#[test]
fn at_most_50_skills_are_active_from_the_start() {
    let place = Place::new();
    for number in 0..60 {
        place.skill(&format!("many-{number:02}"), "", "Nothing runs here.");
    }
    let text = "default: { allow: [Read], disclosure: always }\npreload: [writer]\n";
    let agent = agent(&place, OLD, text);
    let instructions = agent.welcome["instructions"].as_str().unwrap();
    assert_eq!(instructions.matches("\n- ").count(), 50, "{instructions}");
    assert!(instructions.contains(":\n- writer: "), "named skills come first: {instructions}");
    assert!(tokens(instructions) < 3_000, "{instructions}");
}

/// Counts tokens, one for every 3 bytes.
fn tokens(text: &str) -> usize {
    text.len().div_ceil(3)
}

/// Calls everything that takes the name of a skill, and returns the answers without that name.
fn answers(agent: &mut Agent, name: &str) -> Vec<String> {
    let uri = format!("skill://{name}/SKILL.md");
    let called = |tool: &str, arguments: Value| {
        ("tools/call", json!({ "name": tool, "arguments": arguments }))
    };
    let completion = |argument: Value, context: Value| {
        let reference = json!({ "type": "ref/resource", "uri": "skill://{name}/{+path}" });
        let params = json!({ "ref": reference, "argument": argument, "context": context });
        ("completion/complete", params)
    };
    let calls = [
        called("activate_skill", json!({ "name": name })),
        called("read_skill_file", json!({ "name": name, "path": "SKILL.md" })),
        called("run_skill", json!({ "name": name })),
        called("run_skill", json!({ "name": name, "program": "one" })),
        called(&format!("{name}.one"), json!({})),
        called("deactivate_skill", json!({ "name": name })),
        ("resources/read", json!({ "uri": uri })),
        ("resources/directory/read", json!({ "uri": format!("skill://{name}") })),
        ("skills/get", json!({ "uri": uri })),
        ("prompts/get", json!({ "name": name })),
        completion(json!({ "name": "name", "value": name }), json!({})),
        completion(
            json!({ "name": "path", "value": "" }),
            json!({ "arguments": { "name": name } }),
        ),
    ];
    let mut ask = |(method, params): (&str, Value)| {
        let answer = agent.request(method, params);
        let answer = answer.get("error").unwrap_or(&answer["result"]).clone();
        answer.to_string().replace(name, "NAME")
    };
    calls.into_iter().map(&mut ask).collect()
}

#[test]
fn a_hidden_skill_is_answered_like_an_unknown_one() {
    let place = place();
    // A name that is not like that of another skill.
    place.skill("quokka", "metadata:\n  category: office", "Nothing runs here.");
    std::fs::rename(place.skills().join("box/box.wasm"), place.skills().join("quokka/box.wasm"))
        .unwrap();
    place.skill("quokka", "metadata:\n  component: box.wasm\n  category: office", "Call.");
    let hidden = format!("{ALLOWED}skills: {{ quokka: {{ disclosure: hidden }} }}\n");
    for revision in [OLD, NEW] {
        let mut agent = agent(&place, revision, &hidden);
        // So that `run_skill` exists.
        agent.call("activate_skill", json!({ "name": "scribe" }));
        assert_eq!(answers(&mut agent, "quokka"), answers(&mut agent, "zzyzx7"));
        let mut lists = Vec::new();
        for arguments in [
            json!({ "query": "quokka" }),
            json!({ "category": "office" }),
            json!({ "category": "all" }),
            json!({ "category": "active" }),
        ] {
            lists.push(answer_text(&agent.call("discover_skills", arguments)));
        }
        assert!(lists[1].contains("1 of 5 installed"), "it does not count: {}", lists[1]);
        for method in ["tools/list", "resources/list", "prompts/list", "skills/list"] {
            lists.push(agent.ok(method, json!({})).to_string());
        }
        assert!(!lists.concat().contains("quokka"), "{lists:?}");
    }
    // Everything answers differently if it is not hidden.
    let mut agent = agent(&place, OLD, ALLOWED);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let (shown, unknown) = (answers(&mut agent, "quokka"), answers(&mut agent, "zzyzx7"));
    for (shown, unknown) in shown.iter().zip(&unknown) {
        assert_ne!(shown, unknown);
    }
}

#[test]
fn changes_of_a_hidden_skill_are_not_announced() {
    let place = Place::new();
    let text = format!("{ALLOWED}skills: {{ loud: {{ disclosure: hidden }} }}\n");
    let mut agent = agent(&place, OLD, &text);
    for name in ["loud", "scribe"] {
        agent.ok("resources/subscribe", json!({ "uri": format!("skill://{name}/SKILL.md") }));
    }
    agent.notifications.clear();
    place.skill("loud", "", "Other instructions.");
    place.skill("scribe", "", "Other instructions.");
    agent.notification("notifications/resources/list_changed");
    let updated = agent.notification("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "skill://scribe/SKILL.md");
    std::fs::remove_dir_all(place.skills().join("loud")).unwrap();
    place.skill("scribe", "", "And others.");
    let updated = agent.notification("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "skill://scribe/SKILL.md");
}

#[test]
fn the_command_line_runs_hidden_skills() {
    let place = Place::new();
    let text = "default: { allow: [Read, Bash], disclosure: hidden }\n";
    let [flag, policy] = policy(&place, text);
    let run = place
        .server("run", &[&flag, &policy, "scribe", "scripts/note.sh", "--", "x"])
        .output()
        .unwrap();
    assert_eq!(text_of(&run.stdout), "note: x\n", "{run:?}");
    let list = place.user.skillhost(&["list", &flag, &policy]);
    assert!(text_of(&list.stdout).contains("scribe"), "{list:?}");
    // Its block for agents has none.
    let prompt = place.user.skillhost(&["prompt", &flag, &policy]);
    assert_eq!(text_of(&prompt.stdout), "<available_skills>\n</available_skills>\n");
    let prompt = place.user.skillhost(&["prompt"]);
    assert!(text_of(&prompt.stdout).contains("<name>scribe</name>"), "{prompt:?}");
}

#[test]
fn a_hidden_tool_does_not_exist_for_agents() {
    let place = place();
    let text = format!("{ALLOWED}skills: {{ 'b*': {{ tools: {{ two: hidden }} }} }}\n");
    for revision in [OLD, NEW] {
        let mut agent = agent(&place, revision, &text);
        let activated = answer_text(&agent.call("activate_skill", json!({ "name": "box" })));
        assert!(activated.contains("Tools: box.one\n"), "{activated}");
        assert_eq!(own_tools(&mut agent), [&ACTIVE[..], &["box.one"]].concat());
        let call = |tool: &str| json!({ "name": format!("box.{tool}"), "arguments": {} });
        agent.ok("tools/call", call("one"));
        let unknown = agent.request("tools/call", call("none"))["error"].to_string();
        let hidden = agent.request("tools/call", call("two"))["error"].to_string();
        assert_eq!(hidden.replace("two", "none"), unknown);
        let run = agent.call("run_skill", json!({ "name": "box", "program": "two" }));
        assert_eq!(run["isError"], true, "{run}");
        if revision == NEW {
            // Without a subscription, nobody is told about changes.
            continue;
        }
        // It stays hidden when the component is read again.
        agent.notifications.clear();
        place.write("box/notes.md", "new");
        agent.notification("notifications/resources/list_changed");
        assert_eq!(own_tools(&mut agent), [&ACTIVE[..], &["box.one"]].concat());
    }
}

#[test]
fn tools_of_a_skill_are_disclosed_one_by_one() {
    let place = place();
    let one = [&ACTIVE[..], &["box.one"]].concat();
    let both = [&ACTIVE[..], &["box.one", "box.two"]].concat();
    for (text, at_start) in [
        ("skills: { box: { disclosure: always, tools: { two: deferred } } }\n", &one),
        ("skills: { box: { tools: { one: always } } }\n", &one),
        ("skills: { box: { tools: { two: deferred } } }\npreload: [box]\n", &one),
    ] {
        let mut agent = agent(&place, OLD, text);
        assert_eq!(own_tools(&mut agent), *at_start, "{text}");
        let two = json!({ "name": "box.two", "arguments": {} });
        assert_eq!(agent.fails("tools/call", two.clone()), -32602, "{text}");
        agent.call("activate_skill", json!({ "name": "box" }));
        assert_eq!(own_tools(&mut agent), both, "{text}");
        agent.ok("tools/call", two);
    }
}

#[test]
fn a_request_without_a_session_cannot_call_what_is_hidden() {
    let place = place();
    let text = "skills: { box: { tools: { two: hidden } }, calculator: { disclosure: hidden } }\n";
    let [flag, policy] = policy(&place, text);
    let server = Server::new(&place, &[&flag, &policy]);
    let call = |name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let headers =
            [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", name)];
        server.post(&request(NEW, 1, "tools/call", params), &headers).body
    };
    let activated = call("activate_skill", json!({ "name": "box" }));
    assert!(activated.contains("box.one") && !activated.contains("box.two"), "{activated}");
    let refused = |name: &str| call(name, json!({ "expression": "1" })).contains("-32602");
    assert!(!refused("box.one"));
    assert!(refused("box.two") && refused("calculator.calculate"));
}
