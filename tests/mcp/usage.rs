//! Usage statistics of agents' sessions, with the real server: every step is counted, no text is
//! stored, and nothing if disabled.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::http::Server;
use super::{Agent, NEW, OLD, Place, TRUSTED, answer_text, becomes, request};

/// The usage file.
fn file(place: &Place) -> PathBuf {
    place.user.home().join(".local/state/skillhost/usage.db")
}

fn stats(place: &Place, args: &[&str]) -> Value {
    let run = place.user.skillhost(&[&["stats", "--json"], args].concat());
    assert!(run.status.success(), "{run:?}");
    serde_json::from_slice(&run.stdout).unwrap()
}

/// Returns what `stats` prints about a skill.
fn of<'v>(stats: &'v Value, skill: &str) -> &'v Value {
    let skills = stats["skills"].as_array().unwrap();
    skills
        .iter()
        .find(|one| one["skill"] == skill)
        .unwrap_or_else(|| panic!("no {skill} in {stats:#}"))
}

/// Writes a policy file with this text.
fn policy(place: &Place, text: &str) -> String {
    let path = place.user.work().join("usage-policy.yaml");
    std::fs::write(&path, format!("{TRUSTED}{text}")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Counts tokens, one for every 3 bytes.
fn tokens(bytes: i64) -> i64 {
    bytes / 3
}

#[test]
fn a_session_is_counted_in_both_revisions() {
    for revision in [OLD, NEW] {
        let place = Place::new();
        let mut agent = place.agent(revision, &[]);
        for _ in 0..2 {
            let found = answer_text(&agent.call("discover_skills", json!({ "query": "scribe" })));
            assert!(found.starts_with("scribe: "), "{found}");
        }
        agent.call("activate_skill", json!({ "name": "scribe" }));
        agent.call("read_skill_file", json!({ "name": "scribe", "path": "logo.png" }));
        agent.ok("resources/read", json!({ "uri": "skill://scribe/references/guide.md" }));
        agent.call("run_skill", json!({ "name": "scribe", "program": "note.sh" }));
        let denied = agent.call("run_skill", json!({ "name": "scribe", "program": "write.sh" }));
        assert_eq!(denied["structuredContent"]["denials"].as_array().unwrap().len(), 1, "{denied}");
        agent.ok("prompts/get", json!({ "name": "calculator" }));
        agent.call("activate_skill", json!({ "name": "calculator" }));
        agent.call("calculator.calculate", json!({ "expression": "1 + 1" }));
        // A name that is not a skill does not count.
        agent.call("activate_skill", json!({ "name": "nothing-of-that-name" }));
        agent.close();

        let counted = stats(&place, &[]);
        assert_eq!(counted["sessions"], 1);
        let scribe = of(&counted, "scribe");
        for (figure, value) in [
            ("sessions", json!(1)),
            ("discovered", json!(2)),
            ("activated", json!(1)),
            ("read", json!(2)),
            ("runs", json!(2)),
            ("succeeded", json!(1)),
            ("success_rate", json!(0.5)),
            ("denials", json!(1)),
        ] {
            assert_eq!(scribe[figure], value, "{figure}: {scribe:#}");
        }
        assert!(scribe["first_use_ms"].is_u64(), "{scribe:#}");
        let calculator = of(&counted, "calculator");
        assert_eq!(
            (&calculator["activated"], &calculator["runs"], &calculator["success_rate"]),
            (&json!(2), &json!(1), &json!(1.0))
        );
        assert!(calculator["first_use_ms"].is_null(), "no search named it: {calculator:#}");
        assert_eq!(counted["activations"], json!({ "always": 0, "deferred": 3 }));
        // The session has the same figures, since nothing else ran.
        let session = &counted["by_session"][0];
        assert_eq!(
            (&session["alone"], counted["by_session"].as_array().unwrap().len()),
            (&json!(false), 1)
        );
        let of_session = session["skills"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["skill"] == "scribe")
            .unwrap();
        for figure in ["discovered", "runs", "succeeded", "denials", "first_use_ms", "tokens_saved"]
        {
            assert_eq!(of_session[figure], scribe[figure], "{figure}");
        }
        assert_eq!(std::fs::metadata(file(&place)).unwrap().permissions().mode() & 0o777, 0o600);
        let schema =
            serde_json::from_slice(&place.user.skillhost(&["schema", "stats"]).stdout).unwrap();
        let problems: Vec<String> = jsonschema::validator_for(&schema)
            .unwrap()
            .iter_errors(&counted)
            .map(|e| e.to_string())
            .collect();
        assert!(problems.is_empty(), "{problems:?}\n{counted:#}");

        // A run on the command line is in the audit log, and counts for the skill but for no
        // session.
        let run = place.server("run", &["scribe", "scripts/note.sh"]).output().unwrap();
        assert!(run.status.success(), "{run:?}");
        let later = stats(&place, &["scribe"]);
        assert_eq!(
            (&of(&later, "scribe")["runs"], &later["skills"].as_array().unwrap().len()),
            (&json!(3), &1)
        );
        assert_eq!(later["by_session"][0]["skills"], json!([of_session]));
        assert!(stats(&place, &["--since", "2100-01-01"])["skills"].as_array().unwrap().is_empty());
    }
}

#[test]
fn savings_are_the_size_of_definitions_not_sent() {
    let place = Place::new();
    for number in 0..50 {
        place.skill(&format!("more-{number}"), "", "Nothing runs here.");
    }
    place.skill(
        "hidden",
        "allowed-tools: WebFetch(domain:example.com)",
        "Network, so it is disabled.",
    );
    let mut agent = place.agent(OLD, &[]);
    agent.tools();
    let found = answer_text(&agent.call("discover_skills", json!({ "query": "scribe" })));
    let activated = answer_text(&agent.call("activate_skill", json!({ "name": "scribe" })));
    agent.call("activate_skill", json!({ "name": "calculator" }));
    let listed = agent.ok("tools/list", json!({}));
    let calculator = answer_text(&agent.call("activate_skill", json!({ "name": "calculator" })));
    agent.close();

    // A tool with each skill's name and, for skills with programs, the parameters of `run_skill`
    // except the name. Typed tools are sent in any case.
    let tools = listed["tools"].as_array().unwrap();
    let mut parameters =
        tools.iter().find(|tool| tool["name"] == "run_skill").unwrap()["inputSchema"].clone();
    parameters.as_object_mut().unwrap().remove("required");
    parameters["properties"].as_object_mut().unwrap().remove("name");
    let list = place.user.skillhost(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let definition = |skill: &Value| {
        let nothing = json!({ "type": "object" });
        let schema =
            if skill["runtimes"] == json!(["instructions"]) { &nothing } else { &parameters };
        json!({ "name": skill["name"], "description": skill["description"], "inputSchema": schema })
            .to_string()
            .len() as i64
    };
    let enabled: Vec<&Value> = list["skills"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|skill| skill["enabled"] == true)
        .collect();
    assert_eq!(enabled.len(), 54);
    let whole: i64 = enabled.iter().map(|skill| definition(skill)).sum();
    let own = tools.iter().filter(|tool| !tool["name"].as_str().unwrap().contains('.'));
    let listed: i64 = own.map(|tool| tool.to_string().len() as i64).sum();
    let sent = (found.len() + activated.len() + 2 * calculator.len()) as i64;
    let counted = stats(&place, &[]);
    assert_eq!(
        counted["by_session"][0]["tokens_saved"],
        tokens(whole - listed - sent),
        "{counted:#}"
    );
    assert_eq!(counted["tokens_saved"], counted["by_session"][0]["tokens_saved"]);
    let one = enabled.iter().find(|skill| skill["name"] == "calculator").unwrap();
    assert_eq!(
        of(&counted, "calculator")["tokens_saved"],
        tokens(definition(one) - 2 * calculator.len() as i64)
    );
}

#[test]
fn statistics_contain_no_text() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("discover_skills", json!({ "query": "scribe zebrafish", "category": "office" }));
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let files = json!({ "quokka.txt": "wombat" });
    let run = json!({ "name": "scribe", "program": "note.sh", "args": ["axolotl"], "stdin": "narwhal", "files": files });
    let ran = agent.call("run_skill", run);
    assert!(ran["structuredContent"]["stdout"].as_str().unwrap().contains("axolotl"), "{ran}");
    agent.call("run_skill", json!({ "name": "scribe", "program": "bash", "args": ["-c", "echo capybara; cat /workspace/pangolin"] }));
    agent.call("read_skill_file", json!({ "name": "scribe", "path": "references/guide.md" }));
    agent.call("activate_skill", json!({ "name": "ocelot" }));
    agent.close();
    let kept = std::fs::read(file(&place)).unwrap();
    let holds = |word: &str| {
        kept.windows(word.len()).any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()))
    };
    assert!(holds("scribe"), "the file contains skill names");
    let home = place.user.home().display().to_string();
    let words = [
        "zebrafish",
        "office",
        "quokka",
        "wombat",
        "axolotl",
        "narwhal",
        "capybara",
        "pangolin",
        "guide",
        "note.sh",
        "ocelot",
        &home,
    ];
    for word in words {
        assert!(!holds(word), "{word} is in the file");
    }
    let files: Vec<_> = std::fs::read_dir(file(&place).parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(!files.iter().any(|name| name.to_string_lossy().starts_with("usage.db-")), "{files:?}");
}

#[test]
fn disabled_or_unused_statistics_create_no_file() {
    let place = Place::new();
    let off = policy(&place, "usage: false\npreload: suggested\n");
    let mut agent = place.agent(OLD, &["--policy", &off]);
    agent.call("discover_skills", json!({ "query": "scribe" }));
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.call("run_skill", json!({ "name": "scribe", "program": "note.sh" }));
    agent.close();
    assert!(!file(&place).exists());
    let run = place.user.skillhost(&["stats", "--policy", &off]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("usage: false"), "{run:?}");
    let counted = stats(&place, &[]);
    assert_eq!(
        (&counted["sessions"], &of(&counted, "scribe")["discovered"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(of(&counted, "scribe")["runs"], 1, "the audit log has it");
    // Nor by commands that run nothing, nor by a run on the command line.
    let mut agent = place.agent(OLD, &[]);
    agent.tools();
    agent.ok("skills/list", json!({}));
    agent.close();
    place.server("run", &["scribe", "scripts/note.sh"]).output().unwrap();
    place.user.skillhost(&["stats", "--suggest-default"]);
    place.user.skillhost(&["stats", "--wipe"]);
    assert!(!file(&place).exists());
    // The first request creates it.
    let mut agent = place.agent(OLD, &[]);
    agent.call("discover_skills", json!({ "query": "scribe" }));
    agent.close();
    assert!(file(&place).exists());
}

#[test]
fn counts_survive_any_end_of_the_server() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("discover_skills", json!({ "query": "scribe" }));
    // The last call is answered, and the server stopped at once.
    agent.call("activate_skill", json!({ "name": "scribe" }));
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&agent.child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    agent.child.wait().unwrap();
    assert_eq!(of(&stats(&place, &[]), "scribe")["activated"], 1);
}

#[test]
fn wiped_statistics_are_not_restored() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("discover_skills", json!({ "query": "scribe" }));
    agent.call("activate_skill", json!({ "name": "scribe" }));
    becomes("the statistics are written", || {
        file(&place).exists()
            && stats(&place, &[])["skills"]
                .as_array()
                .unwrap()
                .iter()
                .any(|one| one["activated"] == 1)
    });
    let run = place.user.skillhost(&["stats", "--wipe", "--json"]);
    let wiped: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(wiped["sessions"], 1, "{run:?}");
    let kept = std::fs::read(file(&place)).unwrap();
    assert!(!kept.windows(6).any(|bytes| bytes == b"scribe"));
    agent.call("activate_skill", json!({ "name": "loud" }));
    agent.close();
    let counted = stats(&place, &[]);
    assert_eq!(
        (&counted["sessions"], counted["skills"].as_array().unwrap().len()),
        (&json!(1), 1),
        "{counted:#}"
    );
    assert_eq!(of(&counted, "loud")["activated"], 1);
    let run = place.user.skillhost(&["stats", "--wipe"]);
    assert!(
        String::from_utf8_lossy(&run.stdout)
            .starts_with("deleted the counts of 1 session and 1 skill"),
        "{run:?}"
    );
}

#[test]
fn requests_without_a_session_are_counted_apart() {
    let place = Place::new();
    let server = Server::new(&place, &[]);
    for (tool, arguments) in [
        ("discover_skills", json!({ "query": "scribe" })),
        ("activate_skill", json!({ "name": "scribe" })),
    ] {
        let params = json!({ "name": tool, "arguments": arguments });
        let headers =
            [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        let answer = server.post(&request(NEW, 1, "tools/call", params), &headers);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let alone = || stats(&place, &[]);
    becomes("the statistics are written", || {
        alone()["skills"].as_array().unwrap().iter().any(|one| one["activated"] == 1)
    });
    let counted = alone();
    assert_eq!((&counted["sessions"], &counted["tokens_saved"]), (&json!(0), &json!(0)));
    assert_eq!(counted["by_session"][0]["alone"], true);
    let scribe = of(&counted, "scribe");
    assert_eq!(
        (&scribe["sessions"], &scribe["discovered"], &scribe["first_use_ms"]),
        (&json!(0), &json!(1), &Value::Null)
    );
}

#[test]
fn preloaded_skills_are_active_and_granted_nothing() {
    let place = Place::new();
    place.skill(
        "online",
        "allowed-tools: WebFetch(domain:example.com)",
        "Network, so it is disabled.",
    );
    let elsewhere = place.user.work().join("elsewhere/foreign");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(
        elsewhere.join("SKILL.md"),
        "---\nname: foreign\ndescription: Not the user's own.\n---\nNo.\n",
    )
    .unwrap();
    let elsewhere = elsewhere.parent().unwrap().to_str().unwrap().to_owned();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    let text = "preload: [calculator, writer, online, loud, foreign, gone]\nskills: { loud: { approval: blocked } }\ndefault: { allow: [Read, Write, Bash, 'WebFetch(domain:example.com)'] }\n";
    let policy = policy(&place, text);
    let args =
        ["--policy", &policy, "--skills", &elsewhere, "--workspace", workspace.to_str().unwrap()];
    for revision in [OLD, NEW] {
        let mut agent = place.agent(revision, &args);
        assert_eq!(
            agent.tools(),
            [
                "discover_skills",
                "activate_skill",
                "read_skill_file",
                "run_skill",
                "deactivate_skill",
                "calculator.calculate"
            ]
        );
        let listed = agent.ok("tools/list", json!({}));
        let run = listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == "run_skill")
            .unwrap();
        assert!(
            run["description"].as_str().unwrap().contains("Already active: calculator, writer;"),
            "{run}"
        );
        let sum = agent.call("calculator.calculate", json!({ "expression": "1 + 1" }));
        assert_eq!(sum["structuredContent"]["result"], "2", "{sum}");
        // It needs approval as before.
        let asked = agent
            .call("run_skill", json!({ "name": "writer", "program": "write.sh", "stdin": "x" }));
        assert!(
            asked["isError"] == true && answer_text(&asked).contains("writer needs approval"),
            "{asked}"
        );
        for name in ["online", "loud", "foreign"] {
            assert_eq!(agent.call("run_skill", json!({ "name": name }))["isError"], true, "{name}");
        }
        agent.close();
    }
    assert!(!workspace.join("sub").exists());
    // A client that has not listed the tools has them too; without the key no client does.
    let mut agent = place.agent(OLD, &args);
    assert_eq!(
        agent.call("calculator.calculate", json!({ "expression": "2 + 2" }))["structuredContent"]["result"],
        "4"
    );
    agent.call("activate_skill", json!({ "name": "calculator" }));
    agent.call("activate_skill", json!({ "name": "scribe" }));
    agent.close();
    let counted = stats(&place, &[]);
    assert_eq!(counted["activations"], json!({ "always": 1, "deferred": 1 }), "{counted:#}");
    assert_eq!(of(&counted, "calculator")["activated_always"], 1);
    assert_eq!(place.agent(OLD, &[]).tools().len(), 3);
}

#[test]
fn often_used_skills_are_suggested_and_preloaded() {
    let place = Place::new();
    let policy = policy(&place, "preload: suggested\n");
    let suggested = || {
        let run = place.user.skillhost(&["stats", "--suggest-default", "--json"]);
        serde_json::from_slice::<Value>(&run.stdout).unwrap()
    };
    let session = |activate: bool| {
        let mut agent: Agent = place.agent(OLD, &["--policy", &policy]);
        let tools = agent.tools();
        agent.call("discover_skills", json!({ "query": "scribe" }));
        if activate {
            agent.call("activate_skill", json!({ "name": "calculator" }));
        }
        agent.close();
        tools
    };
    for number in 0..9 {
        assert_eq!(session(number < 3).len(), 3);
    }
    assert_eq!(suggested()["skills"], json!([]), "3 of 9 sessions are too few");
    session(false);
    let names = suggested();
    assert_eq!(
        names["skills"],
        json!([{ "skill": "calculator", "sessions": 3, "share": 0.3 }]),
        "{names}"
    );
    assert_eq!((&names["sessions"], &names["preload"]), (&json!(10), &json!("nothing")));
    let run = place.user.skillhost(&["stats", "--suggest-default", "--policy", &policy]);
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(
        out.contains("calculator")
            && out.contains("30%")
            && err.contains("the policy preloads them"),
        "{run:?}"
    );
    assert_eq!(
        session(false),
        [
            "discover_skills",
            "activate_skill",
            "read_skill_file",
            "run_skill",
            "deactivate_skill",
            "calculator.calculate"
        ]
    );
    // It was preloaded but not used, which does not count, and 3 of 11 are too few.
    assert_eq!(session(false).len(), 3);
}
