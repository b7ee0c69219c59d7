//! Misspelt permission keys in SKILL.md, and how `run` and `check` treat them.

use super::{User, text};

/// A script that lists the workspace, in a skill with this line in its frontmatter.
fn user(line: &str) -> User {
    let user = User::new();
    let skill = user.work().join("lister");
    std::fs::create_dir_all(&skill).unwrap();
    let head = format!("---\nname: lister\ndescription: Lists files. Use to list.\n{line}\n---\n");
    std::fs::write(skill.join("SKILL.md"), head).unwrap();
    std::fs::write(skill.join("list.sh"), "ls /workspace\n").unwrap();
    user
}

#[test]
fn run_and_check_report_misspelled_permission_keys() {
    let user = user("alowed-tools: Read(docs/**)");
    let programs = user.stand_ins();
    let flags = ["--workspace", "data", "--programs", programs.to_str().unwrap()];
    for arguments in [["run", "./lister"], ["check", "./lister"]] {
        let flags = if arguments[0] == "run" { &flags[..] } else { &flags[..2] };
        let output = user.skillhost(&[&arguments[..], flags].concat());
        let output_text = text(&output.stdout) + &text(&output.stderr);
        assert!(
            output_text.contains("permission-key") && output_text.contains("lister/SKILL.md:4:1"),
            "{output_text}"
        );
        assert!(
            output_text.contains("allowed-tools: Read(docs/**)"),
            "the correct line is shown: {output_text}"
        );
        assert_eq!(
            output.status.code(),
            Some(if arguments[0] == "run" { 0 } else { 1 }),
            "{output_text}"
        );
    }
    let record = &user.records()[0];
    assert_eq!(record["capabilities"]["mounts"], serde_json::json!([]), "{record}");
}

#[test]
fn fields_of_other_clients_cost_no_permission() {
    let user = user("tools: Read(docs/**)");
    let programs = user.stand_ins();
    let output = user.skillhost(&[
        "run",
        "./lister",
        "--workspace",
        "data",
        "--programs",
        programs.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains("permission-key"), "{}", text(&output.stderr));
    assert_eq!(user.records()[0]["capabilities"]["mounts"][0]["guest"], "/workspace");
}
