//! Instructions name a skill's scripts by their path in the skill. With a workspace, the shell runs
//! in another folder and finds them all the same.

use crate::cli::{User, repository, script_skill, text};

#[test]
fn shell_finds_scripts_of_the_skill_from_a_workspace() {
    let user = User::new();
    script_skill(
        &user.work().join("greeting"),
        &[
            ("hello.sh", "#!/bin/bash\necho \"hello $1 in $PWD\"\n"),
            ("call.sh", "bash scripts/hello.sh Sub\n"),
        ],
    );
    let workspace = user.work().join("space");
    std::fs::create_dir(&workspace).unwrap();
    let run = |target: &[&str]| {
        let mut run = user.command(env!("CARGO_BIN_EXE_skillhost"));
        run.args(["run", "./greeting", "--workspace", "space", "--programs"]);
        let output = run.arg(repository("target/components")).args(target).output().unwrap();
        (text(&output.stdout), output.status.code())
    };
    let command = |line: &str| run(&["--command", line]);
    for line in [
        "bash scripts/hello.sh Bob",
        "sh ./scripts/hello.sh Bob",
        "env bash scripts/hello.sh Bob",
        "bash -c 'bash scripts/hello.sh Bob'",
        "scripts/hello.sh Bob",
    ] {
        assert_eq!(command(line), ("hello Bob in /workspace\n".into(), Some(0)), "{line}");
    }
    assert_eq!(run(&["call.sh"]), ("hello Sub in /workspace\n".into(), Some(0)));
    // Files of the workspace come first, and a path that leads elsewhere finds nothing.
    std::fs::create_dir(workspace.join("scripts")).unwrap();
    std::fs::write(workspace.join("scripts/hello.sh"), "echo own\n").unwrap();
    assert_eq!(command("bash scripts/hello.sh"), ("own\n".into(), Some(0)));
    for missing in ["bash none.sh", "bash ../skill/SKILL.md/x", "bash ../tmp/none.sh"] {
        assert_eq!(command(missing), (String::new(), Some(127)), "{missing}");
    }
}
