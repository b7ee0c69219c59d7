//! How activation finds a skill's typed tools, and what it runs for that.

use serde_json::json;
use skillhost_sandbox::{Tool, with_listing};

use super::{Agent, OLD, Place, TRUSTED, answer_text};
use crate::hostile_tools::toolbox;

const MANIFEST: &str = "---\nname: box\ndescription: The box of the tests. Use to test box.\nmetadata:\n  component: box.wasm\n---\n\n# box\n";

/// A place with a skill `box` with this component.
fn place(component: &[u8]) -> Place {
    let place = Place::new();
    place.write("box/SKILL.md", MANIFEST);
    place.write("box/box.wasm", component);
    place
}

/// A client of a server whose operator auto-approves skills, or has to approve `box`.
fn agent(place: &Place, level: &str) -> Agent {
    let policy = place.user.work().join("policy.yaml");
    let text = format!(
        "{TRUSTED}default: {{ allow: [Read], approval: auto-approved }}\nskills: {{ box: {{ approval: {level} }} }}\n"
    );
    std::fs::write(&policy, text).unwrap();
    place.agent(OLD, &["--policy", policy.to_str().unwrap()])
}

/// Returns the number of runs in the audit log.
fn records(place: &Place) -> usize {
    place.user.records().len()
}

#[test]
fn activation_reads_the_section_and_runs_nothing() {
    let tool = Tool {
        name: "t".into(),
        description: "Says.".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
    };
    let place = place(&with_listing(&toolbox(&[("unlisted", "true", None)]), &[tool]).unwrap());
    let mut agent = agent(&place, "auto-approved");
    let text = answer_text(&agent.call("activate_skill", json!({ "name": "box" })));
    assert!(text.contains("Tools: box.t\n"), "{text}");
    assert!(agent.tools().contains(&"box.t".to_owned()));
    assert_eq!(records(&place), 0);
}

#[test]
fn without_a_section_tools_are_listed_by_a_recorded_run() {
    let place = place(&toolbox(&[("t", "true", None)]));
    let mut agent = agent(&place, "auto-approved");
    let text = answer_text(&agent.call("activate_skill", json!({ "name": "box" })));
    assert!(text.contains("Tools: box.t\n"), "{text}");
    let record = &place.user.records()[0];
    assert_eq!(
        (&record["status"]["kind"], &record["program"]["name"]),
        (&"exited".into(), &"list-tools".into()),
        "{record}"
    );
    let limits = &record["capabilities"]["limits"];
    assert_eq!(
        (&limits["processes"], &limits["memory"]),
        (&0.into(), &67_108_864.into()),
        "less than a run: {record}"
    );
    agent.call("activate_skill", json!({ "name": "box" }));
    assert_eq!(records(&place), 1, "the component lists its tools once");
}

#[test]
fn a_component_that_may_not_run_is_not_listed() {
    let place = place(&toolbox(&[("t", "true", None)]));
    let mut agent = agent(&place, "enabled");
    let text = answer_text(&agent.call("activate_skill", json!({ "name": "box" })));
    assert!(text.contains("skillhost approve ") && !text.contains("box.t"), "{text}");
    assert_eq!(records(&place), 0);
}

#[test]
fn a_long_tool_result_is_a_resource() {
    let place = place(&toolbox(&[("t", "true", None)]));
    let mut agent = agent(&place, "auto-approved");
    agent.call("activate_skill", json!({ "name": "box" }));
    let short = agent.call("box.t", json!({ "text": "x".repeat(200 << 10) }));
    assert!(short["isError"] != true && answer_text(&short).len() > 200 << 10);
    let long = agent.call("box.t", json!({ "text": "x".repeat(300 << 10) }));
    assert!(
        long["isError"] == true && long.to_string().len() < 64 << 10,
        "{}",
        long.to_string().len()
    );
    let link =
        long["content"].as_array().unwrap().iter().find(|part| part["type"] == "resource_link");
    let uri = link.unwrap()["uri"].clone();
    let all = agent.ok("resources/read", json!({ "uri": uri }));
    assert!(all["contents"][0]["text"].as_str().unwrap().len() > 300 << 10);
}
