//! `skillhost test --native`: runs outside the sandbox only what the operator approved.

use super::{case, report, tally, test, text};
use crate::cli::{User, script_skill};

#[test]
fn native_run_needs_an_approval_and_is_announced() {
    let user = User::new();
    let skill = tally(&user);
    let marker = user.root().join("ran");
    script_skill(
        &skill,
        &[(
            "mark.sh",
            &format!("if [[ ! -d /skill ]]; then touch {}; fi\necho same\n", marker.display()),
        )],
    );
    case(&skill, "mark", "script: mark.sh\nexpect: { stdout: same }\n");
    let refused = test(&user, &["./tally", "--native"]);
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    assert!(!marker.exists(), "nothing ran natively");
    let shown = text(&refused.stderr);
    assert!(
        shown.starts_with(
            "warning: --native runs scripts outside the sandbox, with all your permissions\n"
        ),
        "{shown}"
    );
    // A run in the sandbox needs no approval and gives none.
    assert_eq!(test(&user, &["./tally"]).status.code(), Some(0));
    assert_eq!(test(&user, &["./tally", "--native"]).status.code(), Some(77));
    assert!(!marker.exists());
}

#[test]
fn approved_native_run_is_compared_with_the_one_in_the_sandbox() {
    let user = User::new();
    let skill = user.work().join("both");
    script_skill(
        &skill,
        &[(
            "both.sh",
            "set -eu\ncat\necho \"$1\" > out.txt\ncat \"$2\"\nif [[ -d /skill ]]; then echo in; else echo out; fi\n",
        )],
    );
    let md = std::fs::read_to_string(skill.join("SKILL.md")).unwrap();
    std::fs::write(skill.join("SKILL.md"), md.replace(" WebFetch", "")).unwrap();
    std::fs::write(skill.join("data.txt"), "data\n").unwrap();
    case(
        &skill,
        "both",
        "script: both.sh\nargs: [x, /skill/data.txt]\nstdin: \"input\\n\"\nexpect:\n  stdout: \"input\\ndata\\nin\\n\"\n  files: { out.txt: x }\n",
    );
    assert_eq!(test(&user, &["./both", "--native"]).status.code(), Some(77));
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    let (code, found) = report(&user, &["./both", "--native"]);
    assert_eq!(code, Some(1), "{found:#}");
    let case = &found["skills"][0]["cases"][0];
    assert_eq!(case["differences"], serde_json::json!([]), "{found:#}");
    assert_eq!(
        case["native"],
        serde_json::json!([{ "what": "stdout", "expected": "input\ndata\nin\n", "found": "input\ndata\nout\n" }])
    );
    // The approval is for these files.
    std::fs::write(skill.join("scripts/both.sh"), "echo other\n").unwrap();
    assert_eq!(test(&user, &["./both", "--native"]).status.code(), Some(77));
}
