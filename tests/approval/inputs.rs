//! An approval for one run is bound to its session, arguments and stdin, which the question shows.

use serde_json::{Value, json};
use skillhost_ledger::approval::{
    ApprovalRequest, RunDecision, RunInput, SkillPart, StdinInput, Term,
};
use skillhost_policy::grant;

use super::{Place, allowed, writing};
use crate::mcp::{self, Agent, OLD, answer_text};

fn decide(place: &Place, session: &str, input: RunInput<'_>) -> RunDecision {
    let (skill, policy) = (place.skill(), writing().policy);
    let digest = skill.digest().unwrap();
    let capabilities = grant(&skill.policy_manifest(), &policy).capabilities;
    let ask = ApprovalRequest {
        skill: &skill,
        digest: &digest,
        part: &SkillPart::Skill,
        capabilities: &capabilities,
        needs_approval: false,
        trusted: true,
        session_folder: None,
        session,
        input,
    };
    place.approvals().decide(&policy, &ask).unwrap()
}

#[test]
fn a_run_approval_is_bound_to_session_and_input() {
    let place = Place::new("");
    let (draft, send) = (["--draft".to_owned()], ["--send".to_owned()]);
    let approved =
        RunInput { args: &draft, stdin: StdinInput::Whole(b"hello"), ..RunInput::default() };
    let RunDecision::NeedsApproval(id, question) = decide(&place, "one", approved) else {
        panic!("no approval is requested")
    };
    for text in [&question.operator, &question.client] {
        assert!(text.contains("\narguments: \"--draft\"\nstdin: hello\n"), "{text}");
    }
    place.approvals().approve(id, Term::Once, "ada").unwrap();
    for (session, input) in [
        ("two", approved),
        ("one", RunInput { args: &send, ..approved }),
        ("one", RunInput { args: &[], ..approved }),
        ("one", RunInput { stdin: StdinInput::Whole(b"goodbye"), ..approved }),
        ("one", RunInput { stdin: StdinInput::Unread, ..approved }),
        ("one", RunInput { text: Some("rm -r /workspace"), ..approved }),
        ("one", RunInput { files: &[("a", "b")], ..approved }),
    ] {
        assert!(
            matches!(decide(&place, session, input), RunDecision::NeedsApproval(other, _) if other != id),
            "{session}: {input:?}"
        );
    }
    assert_eq!(decide(&place, "one", approved), allowed());
    assert!(matches!(decide(&place, "one", approved), RunDecision::NeedsApproval(..)), "once");
}

#[test]
fn approving_the_current_run_leaves_nothing_behind() {
    let place = Place::new("");
    let (skill, policy) = (place.skill(), writing().policy);
    let digest = skill.digest().unwrap();
    let capabilities = grant(&skill.policy_manifest(), &policy).capabilities;
    let ask = ApprovalRequest {
        skill: &skill,
        digest: &digest,
        part: &SkillPart::Skill,
        capabilities: &capabilities,
        needs_approval: false,
        trusted: true,
        session_folder: None,
        session: "one",
        input: RunInput { stdin: StdinInput::Unread, ..RunInput::default() },
    };
    let RunDecision::NeedsApproval(id, question) = place.approvals().decide(&policy, &ask).unwrap()
    else {
        panic!("no approval is requested")
    };
    assert!(
        question.operator.contains("stdin: a stream that has not been read"),
        "{}",
        question.operator
    );
    assert_eq!(place.approvals().approve_current(&policy, &ask, id, "ada").unwrap(), allowed());
    assert!(matches!(
        place.approvals().decide(&policy, &ask).unwrap(),
        RunDecision::NeedsApproval(..)
    ));
    assert!(
        place.approvals().approve_current(&policy, &ask, id, "ada").is_err(),
        "the request is already answered"
    );
}

#[test]
fn an_approved_call_is_the_call_that_was_shown() {
    let place = mcp::Place::new();
    let workspace = place.user.work().join("shared");
    std::fs::create_dir(&workspace).unwrap();
    let agent = || {
        let mut agent = Agent::new(
            &mut place.server("mcp", &["--workspace", workspace.to_str().unwrap()]),
            OLD,
            &json!({}),
        );
        agent.call("activate_skill", json!({ "name": "writer" }));
        agent
    };
    let run = |agent: &mut Agent, args: Value, stdin: &str| {
        agent.call(
            "run_skill",
            json!({ "name": "writer", "program": "write.sh", "args": args, "stdin": stdin }),
        )
    };
    let (mut one, mut two) = (agent(), agent());
    let asked = run(&mut one, json!(["a"]), "shown\n");
    let id = answer_text(&asked).rsplit("skillhost approve ").next().unwrap().trim().to_owned();
    let pending = String::from_utf8(place.user.skillhost(&["pending"]).stdout).unwrap();
    assert!(
        pending.contains("arguments: \"a\"") && pending.contains("stdin: shown\\n"),
        "{pending}"
    );
    assert!(place.user.skillhost(&["approve", &id, "--once"]).status.success());
    for (is_other, args, stdin) in [
        (true, json!(["a"]), "shown\n"),
        (false, json!(["b"]), "shown\n"),
        (false, json!(["a"]), "other\n"),
    ] {
        let other = run(if is_other { &mut two } else { &mut one }, args, stdin);
        assert!(
            other["isError"] == true && answer_text(&other).contains("needs approval"),
            "{other}"
        );
    }
    let ran = run(&mut one, json!(["a"]), "shown\n");
    assert_eq!(ran["isError"], false, "{ran}");
    assert_eq!(std::fs::read_to_string(workspace.join("sub/out.txt")).unwrap(), "shown\n");
}
