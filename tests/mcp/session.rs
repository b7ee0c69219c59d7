//! An agent's session: find, activate, read, run and call tools, be refused; and the notifications
//! in between.

use std::path::Path;

use serde_json::{Value, json};

use super::{Agent, NEW, OLD, Place, TRUSTED, answer_text, becomes};
use crate::cli::{repository, text};

const DISCOVERY: [&str; 3] = ["discover_skills", "activate_skill", "read_skill_file"];

/// A policy that auto-approves writes to the operator's folder.
fn trusting(place: &Place) -> String {
    let policy = place.user.work().join("trusting.yaml");
    std::fs::write(
        &policy,
        format!("{TRUSTED}default:\n  allow: [Read, Write, Bash]\n  approval: auto-approved\n"),
    )
    .unwrap();
    policy.to_str().unwrap().to_owned()
}

#[test]
fn a_session_works_in_both_revisions() {
    let place = Place::new();
    for revision in [OLD, NEW] {
        let mut agent = place.agent(revision, &[]);
        assert_eq!(agent.tools(), DISCOVERY);
        let found =
            answer_text(&agent.call("discover_skills", json!({ "query": "units and dates" })));
        assert!(found.starts_with("calculator: Calculates exactly"), "{found}");
        let found = answer_text(&agent.call("discover_skills", json!({ "category": "office" })));
        assert!(found.starts_with("scribe: ") && found.contains("1 of 4 installed"), "{found}");

        let activated = answer_text(&agent.call("activate_skill", json!({ "name": "scribe" })));
        assert!(
            activated.contains("Read `references/guide.md`")
                && activated.contains("scripts/note.sh"),
            "{activated}"
        );
        let file = agent.call(
            "read_skill_file",
            json!({ "name": "scribe", "path": "references/guide.md", "range": "2-3" }),
        );
        assert_eq!(answer_text(&file), "two\nthree\n");

        let run =
            agent.call("run_skill", json!({ "name": "scribe", "program": "scripts/note.sh", "args": ["a", "b c"], "stdin": "typed\n" }));
        let output = &run["structuredContent"];
        assert_eq!((&run["isError"], &output["exit_code"]), (&json!(false), &json!(0)), "{run}");
        assert_eq!(output["stdout"], "note: a b c\ntyped\n");
        assert_eq!(output["stderr"], "told\n");
        assert!(output["usage"]["wall_ms"].as_f64().unwrap() > 0.0);

        agent.call("activate_skill", json!({ "name": "calculator" }));
        assert_eq!(
            agent.tools(),
            [&DISCOVERY[..], &["run_skill", "deactivate_skill", "calculator.calculate"]].concat()
        );
        let sum = agent.call("calculator.calculate", json!({ "expression": "0.1 + 0.2" }));
        assert_eq!(sum["structuredContent"]["result"], "0.3", "{sum}");

        let refused =
            agent.call("run_skill", json!({ "name": "scribe", "program": "scripts/write.sh" }));
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(answer_text(&refused).contains("[denied: write /workspace/out.txt: "), "{refused}");
        assert!(
            refused["structuredContent"]["denials"][0]["what"]
                .as_str()
                .unwrap()
                .contains("/workspace/out.txt")
        );
        agent.close();

        let records = place.user.records();
        // A component without a section with its tools was asked for them first.
        let runs = records.iter().filter(|record| record["program"]["name"] != "list-tools");
        let last: Vec<_> = runs
            .rev()
            .take(3)
            .map(|r| (&r["skill"]["name"], r["denials"].as_array().unwrap().len()))
            .collect();
        assert_eq!(last, [(&json!("scribe"), 1), (&json!("calculator"), 0), (&json!("scribe"), 0)]);
    }
}

#[test]
fn records_name_the_session_and_the_client() {
    let place = Place::new();
    let run = |agent: &mut Agent| {
        agent.call("activate_skill", json!({ "name": "calculator" }));
        agent.call("run_skill", json!({ "name": "calculator", "args": ["1 + 1"] }));
    };
    let (mut one, mut other) = (place.agent(OLD, &[]), place.agent(OLD, &[]));
    run(&mut one);
    run(&mut other);
    run(&mut one);
    one.close();
    other.close();
    let sessions: Vec<Value> =
        place.user.records().iter().map(|record| record["session"].clone()).collect();
    assert!(sessions.iter().all(|session| session["client"] == "test"), "{sessions:?}");
    let first = sessions[0]["id"].as_str().unwrap();
    let others = sessions.iter().filter(|session| session["id"] != first).count();
    assert!(others > 0 && others < sessions.len(), "{sessions:?}");
    let list = |session: &str| {
        let listed = place.user.skillhost(&["audit", "list", "--json", "--session", session]);
        text(&listed.stdout).lines().count()
    };
    assert_eq!((list(first), list("test")), (sessions.len() - others, sessions.len()));
    assert_eq!(list("agent"), 0);
}

#[test]
fn activation_affects_only_its_session() {
    let place = Place::new();
    let (mut one, mut other) = (place.agent(OLD, &[]), place.agent(OLD, &[]));
    one.call("activate_skill", json!({ "name": "calculator" }));
    one.notification("notifications/tools/list_changed");
    assert_eq!(one.tools().len(), 6);
    assert_eq!(other.tools(), DISCOVERY);
    assert_eq!(
        other.fails(
            "tools/call",
            json!({ "name": "calculator.calculate", "arguments": { "expression": "1" } })
        ),
        -32602
    );
    let refused = other.call("run_skill", json!({ "name": "calculator", "args": ["1 + 1"] }));
    assert!(
        refused["isError"] == true && answer_text(&refused).contains("call activate_skill first"),
        "{refused}"
    );
    assert_eq!(
        other.fails("tools/call", json!({ "name": "no_such_tool", "arguments": {} })),
        -32602
    );
}

#[test]
fn a_deactivated_skill_is_gone_from_its_session_only() {
    let place = Place::new();
    let (mut one, mut other) = (place.agent(OLD, &[]), place.agent(OLD, &[]));
    let calculate =
        json!({ "name": "calculator.calculate", "arguments": { "expression": "1 + 1" } });
    for agent in [&mut one, &mut other] {
        agent.call("activate_skill", json!({ "name": "calculator" }));
        agent.call("activate_skill", json!({ "name": "scribe" }));
    }
    one.notifications.clear();
    let answer = one.call("deactivate_skill", json!({ "name": "calculator" }));
    assert!(answer_text(&answer).contains("no longer active"), "{answer}");
    one.notification("notifications/tools/list_changed");
    assert_eq!(one.tools(), [&DISCOVERY[..], &["run_skill", "deactivate_skill"]].concat());
    assert_eq!(one.fails("tools/call", calculate.clone()), -32602);
    let run = one.call("run_skill", json!({ "name": "calculator", "args": ["1"] }));
    assert!(run["isError"] == true && answer_text(&run).contains("is not activated"), "{run}");
    // Neither another skill nor another session is affected.
    let run = one.call("run_skill", json!({ "name": "scribe", "program": "note.sh" }));
    assert_eq!(run["isError"], false, "{run}");
    assert_eq!(other.ok("tools/call", calculate.clone())["structuredContent"]["result"], "2");
    assert!(
        other
            .notifications
            .iter()
            .filter(|told| told["method"] == "notifications/tools/list_changed")
            .count()
            == 2
    );
    // The last one takes the tools for active skills with it.
    one.call("deactivate_skill", json!({ "name": "scribe" }));
    assert_eq!(one.tools(), DISCOVERY);
    for name in ["scribe", "nothing-of-that-name"] {
        let again = one.call("deactivate_skill", json!({ "name": name }));
        assert!(
            again["isError"] == true
                && answer_text(&again) == format!("the skill `{name}` is not active"),
            "{again}"
        );
    }
    one.call("activate_skill", json!({ "name": "calculator" }));
    assert_eq!(one.ok("tools/call", calculate)["structuredContent"]["result"], "2");
}

#[test]
fn a_skill_that_is_active_from_the_start_can_be_deactivated() {
    let place = Place::new();
    let policy = place.user.work().join("preload.yaml");
    std::fs::write(&policy, format!("{TRUSTED}preload: [calculator]\n")).unwrap();
    let mut agent = place.agent(OLD, &["--policy", policy.to_str().unwrap()]);
    assert!(agent.tools().contains(&"calculator.calculate".to_owned()));
    agent.call("deactivate_skill", json!({ "name": "calculator" }));
    assert_eq!(agent.tools(), DISCOVERY);
    assert_eq!(agent.tools(), DISCOVERY, "it stays so");
}

#[test]
fn categories_list_all_skills_or_the_active_ones() {
    let place = Place::new();
    for number in 0..110 {
        place.skill(&format!("more-{number:03}"), "", "Nothing runs here.");
    }
    let (mut one, mut other) = (place.agent(OLD, &[]), place.agent(OLD, &[]));
    let find = |agent: &mut Agent, category: &str, query: &str| {
        let found = agent.call("discover_skills", json!({ "category": category, "query": query }));
        let text = answer_text(&found);
        let names: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once(": The ")?.0.to_owned())).collect();
        (names, text)
    };
    one.call("activate_skill", json!({ "name": "writer" }));
    one.call("activate_skill", json!({ "name": "scribe" }));
    assert_eq!(find(&mut one, "active", "").0, ["scribe", "writer"]);
    assert_eq!(find(&mut one, "active", "writer").0, ["writer"]);
    assert_eq!(find(&mut other, "active", ""), (vec![], "No such skill is active.".to_owned()));
    let (all, text) = find(&mut one, "all", "");
    assert!(all.len() == 99 && text.contains("100 of 114 installed"), "one is different: {text}");
    assert!(text.len() < 20_000, "{}", text.len());
    assert_eq!(find(&mut one, "all", "scribe").0, ["scribe"]);
    one.call("deactivate_skill", json!({ "name": "writer" }));
    assert_eq!(find(&mut one, "active", "").0, ["scribe"]);
}

#[test]
fn a_match_has_an_id_that_changes_with_its_instructions() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    // Nothing is found while the file is being written.
    let found = |agent: &mut Agent| {
        let text = answer_text(&agent.call("discover_skills", json!({ "query": "scribe" })));
        let (_, id) = text.lines().next()?.split_once(" [deferred, id ")?;
        Some(id.strip_suffix(']').unwrap().to_owned())
    };
    let list = place.user.skillhost(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let known = list["skills"].as_array().unwrap().iter().find(|one| one["name"] == "scribe");
    let digest = known.unwrap()["digest"].as_str().unwrap().to_owned();
    let id = found(&mut agent).unwrap();
    assert_eq!(format!("sha256:{id}"), digest[..7 + 12]);
    place.skill("scribe", "", "Other instructions.");
    becomes("the catalogue knows the change", || found(&mut agent).is_some_and(|new| new != id));
}

#[test]
fn a_listener_is_notified_of_changed_tools() {
    let place = Place::new();
    let mut agent = place.agent(NEW, &[]);
    agent.ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    agent.notification("notifications/subscriptions/acknowledged");
    agent.call("activate_skill", json!({ "name": "calculator" }));
    agent.notification("notifications/tools/list_changed");
}

#[test]
fn files_are_sent_in_and_read_as_resources() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "writer" }));
    let files = json!({ "in.txt": "put\n", "deep/er.txt": "x" });
    let run = agent.call(
        "run_skill",
        json!({ "name": "writer", "program": "write.sh", "stdin": "kept\n", "files": files }),
    );
    let output = &run["structuredContent"];
    assert_eq!(output["stdout"], "put\n", "{run}");
    let written = output["files"].as_array().unwrap();
    assert_eq!(
        (written.len(), &written[0]["path"], &written[0]["size"]),
        (1, &json!("/workspace/sub/out.txt"), &json!(5)),
        "{run}"
    );
    let read = agent.ok("resources/read", json!({ "uri": written[0]["uri"] }));
    assert_eq!(read["contents"][0]["text"], "kept\n");
    let link = run["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|block| block["type"] == "resource_link")
        .unwrap();
    assert_eq!(link["uri"], written[0]["uri"]);
    for bad in ["../x", "/etc/passwd", "a/../../b"] {
        let run = agent.call(
            "run_skill",
            json!({ "name": "writer", "program": "write.sh", "files": { bad: "x" } }),
        );
        assert!(run["isError"] == true && answer_text(&run).contains("to /workspace: "), "{run}");
    }
    agent.close();
    assert_eq!(
        place.user.scratch(),
        Vec::<std::path::PathBuf>::new(),
        "the session's folder is gone"
    );
}

#[test]
fn the_operators_workspace_is_used_as_granted() {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    for (mode, is_there, is_error) in
        [("", true, false), (":overlay", false, false), (":ro", false, true)]
    {
        let workspace = format!("{}{mode}", workspace.display());
        let mut agent =
            place.agent(OLD, &["--workspace", &workspace, "--policy", &trusting(&place)]);
        let workspace = place.user.work().join("shared");
        agent.call("activate_skill", json!({ "name": "writer" }));
        let run = agent.call(
            "run_skill",
            json!({ "name": "writer", "program": "write.sh", "stdin": "kept\n" }),
        );
        assert_eq!(workspace.join("sub/out.txt").exists(), is_there, "{mode}: {run}");
        assert_eq!(
            run["structuredContent"]["denials"].as_array().unwrap().is_empty(),
            !is_error,
            "{mode}: {run}"
        );
        assert_eq!(run["structuredContent"]["changes"].is_array(), mode == ":overlay", "{run}");
        assert_eq!(
            run["structuredContent"]["diff"].as_str().is_some_and(|diff| diff.contains("+kept")),
            mode == ":overlay",
            "{run}"
        );
        let files = run["structuredContent"]["files"].as_array().unwrap();
        assert_eq!(files.is_empty(), !is_there, "staged files are not readable: {run}");
        let put = agent.call(
            "run_skill",
            json!({ "name": "writer", "program": "write.sh", "files": { "x": "x" } }),
        );
        assert!(put["isError"] == true && !workspace.join("x").exists(), "{put}");
        drop(std::fs::remove_dir_all(workspace.join("sub")));
    }
}

#[test]
fn a_run_reports_progress_and_is_cancelled() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let params = json!({
        "name": "run_skill",
        "arguments": { "name": "scribe", "program": "wait.sh" },
        "_meta": { "progressToken": "p" },
    });
    let id = agent.ask("tools/call", params);
    let first = agent.notification("notifications/progress");
    let running = std::time::Instant::now();
    let second = agent.notification("notifications/progress");
    assert_eq!(first["params"]["progressToken"], "p");
    assert_eq!(first["params"]["total"], 60.0, "the limit of its time, in seconds");
    assert!(
        first["params"]["progress"].as_f64() < second["params"]["progress"].as_f64(),
        "{first} {second}"
    );
    let at_least = running.elapsed().as_secs_f64() * 1e3;
    agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    becomes("the run is recorded as interrupted", || {
        place.user.records().last().is_some_and(|record| record["status"]["kind"] == "interrupted")
    });
    let wall = place.user.records().last().unwrap()["usage"]["wall_ms"].as_f64().unwrap();
    assert!(wall >= at_least, "it ran for {at_least} ms at least, and is recorded with {wall}");
    // It still serves, and sends nothing about the cancelled run.
    assert_eq!(agent.tools().len(), 5);
}

#[test]
fn a_disconnected_client_leaves_no_run() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let arguments = json!({ "name": "scribe", "program": "wait.sh" });
    agent.ask(
        "tools/call",
        json!({ "name": "run_skill", "arguments": arguments, "_meta": { "progressToken": 1 } }),
    );
    agent.notification("notifications/progress");
    agent.close();
    assert_eq!(place.user.records().last().unwrap()["status"]["kind"], "interrupted");
    assert_eq!(place.user.scratch(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_client_gets_log_messages_from_its_level() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.ok("logging/setLevel", json!({ "level": "warning" }));
    agent.call("run_skill", json!({ "name": "scribe", "program": "note.sh" }));
    agent.call("run_skill", json!({ "name": "scribe", "program": "write.sh" }));
    let notifications = agent.notification("notifications/message");
    assert_eq!(
        (&notifications["params"]["level"], &notifications["params"]["data"]["denials"]),
        (&json!("warning"), &json!(1)),
        "{notifications}"
    );
    assert!(agent.notifications.iter().all(|message| message["method"] != "notifications/message"));
}

#[test]
fn a_request_sets_its_own_log_level() {
    let place = Place::new();
    let mut agent = place.agent(NEW, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let mut run = |program: &str, meta: serde_json::Value| {
        let arguments = json!({ "name": "scribe", "program": program });
        agent.ok(
            "tools/call",
            json!({ "name": "run_skill", "arguments": arguments, "_meta": meta }),
        );
        let notifications = agent
            .notifications
            .drain(..)
            .filter(|message| message["method"] == "notifications/message");
        notifications.map(|message| message["params"]["level"].clone()).collect::<Vec<_>>()
    };
    let level = |level: &str| json!({ "io.modelcontextprotocol/logLevel": level });
    assert_eq!(
        run("write.sh", json!({})),
        Vec::<serde_json::Value>::new(),
        "no notification arrives"
    );
    assert_eq!(run("note.sh", level("info")), ["info"]);
    assert_eq!(run("note.sh", level("warning")), Vec::<serde_json::Value>::new());
    assert_eq!(run("write.sh", level("warning")), ["warning"]);
}

#[test]
fn a_client_root_only_narrows_the_workspace() {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir_all(workspace.join("part")).unwrap();
    let outside = place.user.root().join("outside");
    std::fs::create_dir(&outside).unwrap();
    // Its hooks are recognisable as a repository's only from the folder above.
    let hooks = workspace.join("bare.git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    std::fs::write(workspace.join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for (root, expected) in [
        (workspace.join("part"), workspace.join("part/sub/out.txt")),
        (outside.clone(), workspace.join("sub/out.txt")),
        (hooks.clone(), workspace.join("sub/out.txt")),
    ] {
        let run = run_writer(&place, &trusting(&place), &workspace, &root);
        assert_eq!(run["result"]["isError"], false, "{run}");
        assert!(expected.is_file(), "{}", expected.display());
        drop(std::fs::remove_dir_all(workspace.join("sub")));
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(&hooks).unwrap().count(), 0);
}

#[test]
fn a_served_skill_cannot_create_a_source_of_skills() {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    place.skill("planter", "allowed-tools: Read Write Bash", "Run `scripts/plant.sh`.");
    place.write(
        "planter/scripts/plant.sh",
        "#!/bin/bash\nmkdir -p /workspace/team/evil\necho x > /workspace/beside\n",
    );
    let policy = place.user.work().join("team.yaml");
    let folders = TRUSTED.replace(
        "skill-folders: [",
        &format!("skill-folders: [{}, ", workspace.join("team").display()),
    );
    assert_ne!(folders, TRUSTED);
    std::fs::write(
        &policy,
        format!("{folders}default: {{ approval: auto-approved, allow: [Read, Write, Bash] }}\n"),
    )
    .unwrap();
    let mut agent = place.agent(
        OLD,
        &["--workspace", workspace.to_str().unwrap(), "--policy", policy.to_str().unwrap()],
    );
    agent.call("activate_skill", json!({ "name": "planter" }));
    let run = agent.call("run_skill", json!({ "name": "planter", "program": "plant.sh" }));
    assert_eq!(
        (workspace.join("team").exists(), workspace.join("beside").exists()),
        (false, true),
        "{run}"
    );
}

#[test]
fn rules_mean_the_same_host_paths_below_a_client_root() {
    let place = Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir_all(workspace.join("part/deep")).unwrap();
    for (root, rules, writes) in [
        ("part", "allow: [Read, Bash, Write(part/sub/**)]", true),
        ("part", "allow: [Read, Bash, Write(sub/**)]", false),
        ("part", "allow: [Read, Bash, Write]\n  deny: [Write(sub/**)]", true),
        ("part", "allow: [Read, Bash, Write]\n  deny: [Write(part/sub/**)]", false),
        // A rule that matches only the root, or only a folder above it, denies everything below.
        ("part", "allow: [Read, Bash, Write]\n  deny: ['Read(p?rt)']", false),
        ("part/deep", "allow: [Read, Bash, Write]\n  deny: ['Read(p?rt)']", false),
        ("part/deep", "allow: [Read, Bash, Write]\n  deny: ['Read(d?ep)']", true),
    ] {
        let written = workspace.join(root).join("sub/out.txt");
        let policy = place.user.work().join("rules.yaml");
        std::fs::write(
            &policy,
            format!("{TRUSTED}default:\n  {rules}\n  approval: auto-approved\n"),
        )
        .unwrap();
        let run = run_writer(&place, policy.to_str().unwrap(), &workspace, &workspace.join(root));
        assert_eq!(written.is_file(), writes, "{root}: {rules}: {run}");
        assert!(!workspace.join("sub").exists(), "{root}: {rules}");
        drop(std::fs::remove_dir_all(workspace.join(root).join("sub")));
    }
}

/// Returns the result of `write.sh`, which writes `sub/out.txt` in its workspace, for a client with
/// one root.
fn run_writer(place: &Place, policy: &str, workspace: &Path, root: &Path) -> serde_json::Value {
    let mut command =
        place.server("mcp", &["--workspace", workspace.to_str().unwrap(), "--policy", policy]);
    let mut agent = Agent::new(&mut command, OLD, &json!({ "roots": {} }));
    agent.call("activate_skill", json!({ "name": "writer" }));
    let id =
        agent.ask("tools/call", json!({ "name": "run_skill", "arguments": { "name": "writer", "program": "write.sh", "stdin": "x" } }));
    let asked = loop {
        let message = agent.next_message();
        if message["method"] == "roots/list" {
            break message["id"].clone();
        }
    };
    agent.say(&json!({ "jsonrpc": "2.0", "id": asked, "result": { "roots": [{ "uri": format!("file://{}", root.display()) }] } }));
    agent.answer(id)
}

#[test]
fn clients_are_notified_of_changed_files() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "calculator" }));
    for path in ["scripts/note.sh", "references/guide.md", "SKILL.md"] {
        agent.ok("resources/subscribe", json!({ "uri": format!("skill://scribe/{path}") }));
    }
    agent.ok("resources/unsubscribe", json!({ "uri": "skill://scribe/references/guide.md" }));
    let skill = |agent: &mut Agent| {
        agent.ok("skills/get", json!({ "uri": "skill://scribe/SKILL.md" }))["skill"].clone()
    };
    let before = skill(&mut agent);
    agent.notifications.clear();
    // Both, and between them one without a subscription.
    place.write("scribe/references/guide.md", "other\n");
    place.write("scribe/scripts/note.sh", "#!/bin/bash\necho other\n");
    let updated = agent.notification("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "skill://scribe/scripts/note.sh");
    assert!(
        agent
            .notifications
            .iter()
            .any(|message| message["method"] == "notifications/resources/list_changed"),
        "a list has digests"
    );
    // The manifest has the new digests.
    assert_ne!(skill(&mut agent), before);
    assert!(
        agent
            .notifications
            .iter()
            .all(|message| message["method"] != "notifications/tools/list_changed"),
        "no tool is another"
    );
    // Another component has other tools.
    let tools = agent.tools();
    std::fs::copy(
        repository("skills/data-convert/data-convert.wasm"),
        place.skills().join("calculator/calculator.wasm"),
    )
    .unwrap();
    agent.notification("notifications/tools/list_changed");
    assert_ne!(agent.tools(), tools);
    let mut uris =
        agent.notifications.iter().filter_map(|message| message["params"]["uri"].as_str());
    assert!(
        uris.all(|uri| uri == "skill://scribe/scripts/note.sh"),
        "no other resource has a subscription: {:?}",
        agent.notifications
    );
}

#[test]
fn a_listener_is_notified_of_its_files() {
    let place = Place::new();
    let mut agent = place.agent(NEW, &[]);
    let filter = json!({ "resourceSubscriptions": ["skill://scribe/scripts/note.sh"], "resourcesListChanged": true });
    agent.ask("subscriptions/listen", json!({ "notifications": filter }));
    agent.notification("notifications/subscriptions/acknowledged");
    place.write("scribe/references/guide.md", "other\n");
    agent.notification("notifications/resources/list_changed");
    place.write("scribe/scripts/note.sh", "#!/bin/bash\necho other\n");
    assert_eq!(
        agent.notification("notifications/resources/updated")["params"]["uri"],
        "skill://scribe/scripts/note.sh"
    );
}

#[test]
fn clients_are_notified_of_changed_skills() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.ok("resources/subscribe", json!({ "uri": "skill://scribe/SKILL.md" }));
    agent.notifications.clear();
    place.skill("scribe", "", "Other instructions.");
    agent.notification("notifications/resources/list_changed");
    let updated = agent.notification("notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "skill://scribe/SKILL.md");
    place.skill("late", "", "Came later.");
    agent.notification("notifications/resources/list_changed");
    assert!(
        answer_text(&agent.call("activate_skill", json!({ "name": "late" })))
            .contains("Came later.")
    );
}
