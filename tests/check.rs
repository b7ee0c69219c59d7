//! `check`: places of errors in scripts, tools of other clients, and settings.

use std::path::PathBuf;

use crate::cli::{User, text};

/// Adds a skill `checked` with these lines of frontmatter.
fn add_skill(user: &User, frontmatter: &str) -> PathBuf {
    let folder = user.work().join("checked");
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    let head = "---\nname: checked\ndescription: Is checked. Use to test.\n";
    std::fs::write(folder.join("SKILL.md"), format!("{head}{frontmatter}---\n")).unwrap();
    folder
}

#[test]
fn check_names_the_line_and_column_of_a_syntax_error_as_fields() {
    let user = User::new();
    let scripts = add_skill(&user, "").join("scripts");
    std::fs::write(scripts.join("sum.py"), "import os\ndef total(:\n    pass\n").unwrap();
    std::fs::write(scripts.join("open.sh"), "if true; then\n  echo open\n").unwrap();
    std::fs::write(scripts.join("fine.sh"), "bash scripts/open.sh\n").unwrap();
    let check = |args: &[&str]| {
        let output = user.skillhost(&[&["check", "./checked"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };

    let shown = check(&[]);
    assert!(
        shown.contains(" --> ./checked/scripts/sum.py:2:11\n  |\n2 | def total(:\n"),
        "{shown}"
    );
    assert!(shown.contains("2 |   echo open\n  |   ^^^^^^^^^\n"), "{shown}");
    assert!(shown.contains("Compatibility: not supported"), "{shown}");
    assert!(!shown.contains("fully supported"), "{shown}");

    let github = check(&["--format", "github"]);
    let line = "::error file=checked/scripts/sum.py,line=2,col=11,title=script-syntax::";
    assert!(github.contains(line), "{github}");

    let sarif: serde_json::Value = serde_json::from_str(&check(&["--format", "sarif"])).unwrap();
    let place = &sarif["runs"][0]["results"][1]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "checked/scripts/sum.py");
    assert_eq!(place["region"]["startLine"], 2);

    let json: serde_json::Value = serde_json::from_str(&check(&["--json"])).unwrap();
    let finding = &json["skills"][0]["diagnostics"][1];
    assert_eq!(finding["file"], "./checked/scripts/sum.py");
    assert_eq!((&finding["span"]["line"], &finding["span"]["column"]), (&2.into(), &11.into()));
}

#[test]
fn names_of_other_clients_are_granted_only_with_an_approval() {
    let user = User::new();
    add_skill(&user, "allowed-tools: bash read_file\n");
    let check = user.skillhost(&["check", "./checked"]);
    let explain = user.skillhost(&["run", "./checked", "--explain"]);
    for shown in [text(&check.stdout), text(&explain.stdout)] {
        let words: Vec<&str> = shown.split(|c: char| c.is_whitespace() || c == '┆').collect();
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let words = words.join(" ");
        assert!(words.contains("allowed, if the run is approved"), "{shown}");
        assert!(words.contains("any"), "{shown}");
        assert!(!words.contains("cannot be enforced"), "{shown}");
    }
    let json = user.skillhost(&["check", "./checked", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let decision = &json["skills"][0]["grant"]["decisions"][0];
    assert_eq!((&decision["entry"], &decision["verdict"]), (&"bash".into(), &"approval".into()));
    let meaning = decision["meaning"].as_str().unwrap();
    assert!(meaning.contains("`bash` is GitHub Copilot's name for `Bash`"), "{meaning}");
}

#[test]
fn check_lists_the_variables_of_settings() {
    let user = User::new();
    let settings = "metadata:\n  settings: |\n    retries: integer = 3\n    token: secret\n";
    add_skill(&user, settings);
    let check = user.skillhost(&["check", "./checked", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    let grant = &json["skills"][0]["grant"];
    assert!(grant["capabilities"].to_string().contains("SKILL_SETTING_RETRIES"), "{grant}");
    let decisions = grant["decisions"].as_array().unwrap();
    let decision = decisions.iter().find(|one| one["entry"] == "setting token").unwrap();
    assert!(decision["fix"].as_str().unwrap().ends_with(" token env:NAME"), "{decision}");
}

#[test]
fn program_that_the_sandbox_lacks_is_marked() {
    let user = User::new();
    add_skill(&user, "allowed-tools: Bash(perl:*) Bash(jq:*) Bash(node:*) Bash(npx:*)\n");
    let check = user.skillhost(&["check", "./checked", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    let meaning = |at: usize| {
        json["skills"][0]["grant"]["decisions"][at]["meaning"].as_str().unwrap().to_owned()
    };
    assert!(meaning(0).ends_with("; `perl` is not available in the sandbox"), "{}", meaning(0));
    for at in 1..4 {
        assert!(!meaning(at).contains("not available"), "{}", meaning(at));
    }
}
