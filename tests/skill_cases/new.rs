//! `skillhost new`: the skill checks, passes its tests and runs without edits, by the commands that
//! `new` prints.

use super::text;
use crate::cli::{User, repository};

#[test]
fn new_script_skill_checks_passes_its_tests_and_runs() {
    let user = User::new();
    let languages = [
        ("python", "words-py"),
        ("javascript", "words-js"),
        ("typescript", "words-ts"),
        ("bash", "true"),
    ];
    for (lang, name) in languages {
        let created = user.skillhost(&["new", name, "--lang", lang]);
        let shown = text(&created.stdout);
        assert!(created.status.success(), "{created:?}");
        let (head, commands) = shown.split_once("\n\n").unwrap();
        assert_eq!(head, format!("created ./{name}"));
        let commands: Vec<&str> = commands.lines().map(str::trim).collect();
        let verbs: Vec<&str> = commands
            .iter()
            .filter_map(|line| line.split("skillhost ").nth(1)?.split(' ').next())
            .collect();
        assert_eq!(verbs, ["check", "test", "run"]);
        for command in commands {
            let mut shell = user.command("bash");
            shell.env("SKILLHOST_PROGRAMS", repository("target/components"));
            let output = shell.args(["-c", command]).output().unwrap();
            assert!(output.status.success(), "{command}: {output:?}");
            let expected = match command.split("skillhost ").nth(1).unwrap() {
                run if run.starts_with("run") => "1 lines, 6 words, 19 characters\n",
                test if test.starts_with("test") => "\n2 cases: 2 passed, 0 failed\n",
                _ => "Compatibility: fully supported",
            };
            assert!(text(&output.stdout).contains(expected), "{command}: {output:?}");
            assert!(!text(&output.stdout).contains("warning"), "{command}: {output:?}");
        }
        // Tests are not part of the skill: agents do not see them, and a new case changes nothing.
        assert!(user.work().join(name).join("tests/file/case.yaml").is_file());
        let again = user.skillhost(&["new", name, "--lang", lang]);
        assert_eq!(again.status.code(), Some(65), "{again:?}");
    }
    let wrong = user.skillhost(&["new", "Words", "--lang", "python"]);
    assert_eq!(wrong.status.code(), Some(64), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("try `words`"), "{wrong:?}");
}
