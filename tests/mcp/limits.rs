//! The size of answers, in tokens and bytes.

use std::fmt::Write as _;

use serde_json::json;

use super::{NEW, OLD, Place, answer_text};

/// Counts tokens, one for every 3 bytes. Tokenizers in use need about 4 bytes per token for English
/// and JSON, and no fewer than this.
fn tokens(text: &str) -> usize {
    text.len().div_ceil(3)
}

#[test]
fn a_session_starts_with_at_most_400_tokens_of_tools() {
    let place = Place::new();
    for number in 0..10_000 {
        let name = format!("skill-{number:05}");
        let mut text =
            format!("---\nname: {name}\ndescription: Does the work of number {number}, ");
        write!(text, "which is of use when someone asks for it.\n---\n\nInstructions.\n").unwrap();
        place.write(&format!("group-{}/{name}/SKILL.md", number / 100), text);
    }
    for revision in [OLD, NEW] {
        let mut agent = place.agent(revision, &[]);
        let result = agent.ok("tools/list", json!({}));
        let definitions = result["tools"].to_string();
        let count = tokens(&definitions);
        assert!(count <= 400, "{count} tokens: {definitions}");
        let found = answer_text(&agent.call("discover_skills", json!({ "query": "number 77" })));
        assert!(found.contains("of 10004 installed skills") && tokens(&found) <= 1_000, "{found}");
    }
}

#[test]
fn long_output_is_cut_and_complete_as_a_resource() {
    let place = Place::new();
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "loud" }));
    let run = agent
        .call("run_skill", json!({ "name": "loud", "program": "shout.sh", "args": ["20000"] }));
    let output = &run["structuredContent"];
    let shown = output["stdout"].as_str().unwrap();
    assert!(shown.len() <= 16 << 10 && shown.starts_with("line 0 of many\n"), "{}", shown.len());
    assert!(run.to_string().len() < 48 << 10, "the answer is short");
    let all = agent.ok("resources/read", json!({ "uri": output["stdout_uri"] }));
    let text = all["contents"][0]["text"].as_str().unwrap();
    assert_eq!(text.len() as u64, output["stdout_bytes"].as_u64().unwrap());
    assert!(text.ends_with("line 19999 of many\n"));
    // Another session does not know the id, and an invented one does not exist.
    assert_eq!(
        agent.fails(
            "resources/read",
            json!({ "uri": "run://00000000000000000000000000000000/stdout" })
        ),
        -32002
    );
}

#[test]
fn streams_are_kept_up_to_16_mib() {
    let place = Place::new();
    place
        .write("loud/scripts/flood.sh", "#!/bin/bash\nhead -c 17000000 /dev/zero | tr '\\0' x\nhead -c 20000 /dev/zero | tr '\\0' y >&2\n");
    let mut agent = place.agent(OLD, &[]);
    agent.call("activate_skill", json!({ "name": "loud" }));
    let run = agent.call("run_skill", json!({ "name": "loud", "program": "flood.sh" }));
    let output = &run["structuredContent"];
    for (stream, bytes, kept) in [("stdout", 17_000_000, 16 << 20), ("stderr", 20_000, 20_000)] {
        assert_eq!(
            (output[stream].as_str().unwrap().len(), &output[format!("{stream}_bytes")]),
            (16 << 10, &json!(bytes)),
            "{stream}"
        );
        let all = agent.ok("resources/read", json!({ "uri": output[format!("{stream}_uri")] }));
        assert_eq!(all["contents"][0]["text"].as_str().unwrap().len(), kept, "{stream}");
    }
}

#[test]
fn long_instructions_are_cut_and_name_the_rest() {
    let place = Place::new();
    let body: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
    place.skill("long", "", &body);
    let mut agent = place.agent(OLD, &[]);
    let text = answer_text(&agent.call("activate_skill", json!({ "name": "long" })));
    assert!(
        text.len() < 66 << 10
            && text.contains("The instructions continue")
            && text.contains("skill://long/SKILL.md"),
        "{}",
        text.len()
    );
    let rest =
        answer_text(&agent.call(
            "read_skill_file",
            json!({ "name": "long", "path": "SKILL.md", "range": "20000-" }),
        ));
    assert!(rest.contains("line 20000\n"), "{rest}");
}

#[test]
fn a_long_file_is_cut_and_readable_by_lines() {
    let place = Place::new();
    let text: String = (1..=20_000).map(|line| format!("line {line}\n")).collect();
    place.write("scribe/references/long.md", text);
    let mut agent = place.agent(OLD, &[]);
    let read = |agent: &mut super::Agent, range: Option<&str>| {
        agent.call(
            "read_skill_file",
            json!({ "name": "scribe", "path": "references/long.md", "range": range }),
        )
    };
    let cut = read(&mut agent, None);
    assert!(
        answer_text(&cut).contains("has 20000 lines") && answer_text(&cut).len() < 66 << 10,
        "{}",
        answer_text(&cut).len()
    );
    assert_eq!(answer_text(&read(&mut agent, Some("19999-20000"))), "line 19999\nline 20000\n");
    let wrong = read(&mut agent, Some("x"));
    assert!(wrong["isError"] == true && answer_text(&wrong).contains("FIRST-LAST"), "{wrong}");
    let image = agent.call("read_skill_file", json!({ "name": "scribe", "path": "logo.png" }));
    assert!(
        answer_text(&image).contains("is not text")
            && image["content"][1]["uri"] == "skill://scribe/logo.png",
        "{image}"
    );
}

#[test]
fn guest_errors_are_answers_not_protocol_errors() {
    let place = Place::new();
    for guest in ["trap", "code3", "spin"] {
        crate::cli::skill_of(guest, &place.skills().join(guest));
    }
    let mut agent = place.agent(OLD, &["--timeout", "2s"]);
    for (guest, expected) in [
        ("trap", "it trapped: "),
        ("code3", "it exited with code 3"),
        ("spin", "the limit `timeout` of 2s was hit"),
    ] {
        agent.call("activate_skill", json!({ "name": guest }));
        let run = agent.call("run_skill", json!({ "name": guest }));
        assert!(run["isError"] == true && answer_text(&run).contains(expected), "{guest}: {run}");
    }
    for (tool, arguments, expected) in [
        ("activate_skill", json!({ "name": "calculater" }), "did you mean `calculator`?"),
        ("activate_skill", json!({}), "missing field `name`"),
        ("run_skill", json!({ "name": "spin", "args": 7 }), "invalid arguments"),
        (
            "read_skill_file",
            json!({ "name": "scribe", "path": "../writer/SKILL.md" }),
            "is not a file of the skill",
        ),
    ] {
        let answer = agent.call(tool, arguments);
        assert!(
            answer["isError"] == true && answer_text(&answer).contains(expected),
            "{tool}: {answer}"
        );
    }
    agent.call("activate_skill", json!({ "name": "scribe" }));
    let missing =
        agent.call("run_skill", json!({ "name": "scribe", "program": "scripts/nite.sh" }));
    assert!(answer_text(&missing).contains("did you mean `scripts/note.sh`?"), "{missing}");
    let shell = agent.call("run_skill", json!({ "name": "scribe", "program": "bash", "args": ["-c", "echo $((6 * 7)) $1", "x", "y"] }));
    assert_eq!(shell["structuredContent"]["stdout"], "42 y\n", "{shell}");
    let command = agent.call("run_skill", json!({ "name": "scribe", "program": "wc", "args": ["-l", "references/guide.md"], "stdin": "" }));
    assert!(command["structuredContent"]["exit_code"].is_number(), "{command}");
    assert_eq!(agent.fails("no/such/method", json!({})), -32601);
    assert_eq!(agent.fails("tools/call", json!({ "arguments": {} })), -32602);
    agent.close();
}
