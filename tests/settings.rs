//! Settings that skills declare: checked, set for every workspace or for one, passed as variables.

use std::path::Path;

use serde_json::Value;

use crate::cli::{User, text};

const SKILL: &str = "---
name: reporter
description: Prints its settings. Use to test.
metadata:
  settings: |
    base-url: string = https://a.example
    retries: integer = 3
    token: secret
---
";

fn user() -> User {
    let user = User::new();
    add_skill(&user.work());
    user
}

fn add_skill(to: &Path) {
    let folder = to.join(".agents/skills/reporter");
    std::fs::create_dir_all(folder.join("scripts")).unwrap();
    std::fs::write(folder.join("SKILL.md"), SKILL).unwrap();
    std::fs::write(
        folder.join("scripts/show.sh"),
        "echo \"$SKILL_SETTING_BASE_URL $SKILL_SETTING_RETRIES ${SKILL_SETTING_TOKEN-unset}\"\n",
    )
    .unwrap();
}

fn set(user: &User, args: &[&str]) -> (Option<i32>, String) {
    let output = user.skillhost(&[&["settings", "set", "reporter"], args].concat());
    (output.status.code(), text(&output.stderr))
}

/// What the skill's script prints with this workspace.
fn printed(user: &User, workspace: &str) -> String {
    let mut run = user.command(env!("CARGO_BIN_EXE_skillhost"));
    run.env("API_TOKEN", "t0p-secret");
    let output = run
        .args(["run", "./.agents/skills/reporter", "scripts/show.sh", "--workspace", workspace])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// The skill lies in a project, so its values belong to its folder, however it is named.
fn set_for_folder(user: &User, args: &[&str]) {
    let skill = "./.agents/skills/reporter";
    let output = user.skillhost(&[&["settings", "set", skill], args].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn programs_get_defaults_and_values_as_variables() {
    let user = user();
    std::fs::create_dir(user.work().join("elsewhere")).unwrap();
    assert_eq!(printed(&user, "."), "https://a.example 3 unset");
    set_for_folder(&user, &["retries", "5"]);
    set_for_folder(&user, &["base-url", "https://b.example", "--workspace", "elsewhere"]);
    set_for_folder(&user, &["token", "env:API_TOKEN"]);
    assert_eq!(printed(&user, "."), "https://a.example 5 t0p-secret");
    assert_eq!(printed(&user, "elsewhere"), "https://b.example 5 t0p-secret");
    let unset = user.skillhost(&["settings", "unset", "./.agents/skills/reporter", "retries"]);
    assert!(unset.status.success(), "{}", text(&unset.stderr));
    assert_eq!(printed(&user, "."), "https://a.example 3 t0p-secret");
}

#[test]
fn values_are_checked_before_they_are_stored() {
    let user = user();
    for (args, message) in [
        (["retries", "many"], "`retries` takes a whole number, not `many`"),
        (["retrys", "1"], "reporter has no setting `retrys`"),
        (["token", "t0p"], "`token` is a secret, which is not stored"),
        (["token", "file:secret.txt"], "`token` is a secret, which is not stored"),
    ] {
        let (code, stderr) = set(&user, &args);
        assert!(code == Some(64) && stderr.contains(message), "{args:?}: {stderr}");
    }
    assert_eq!(text(&user.skillhost(&["settings"]).stdout), "No settings are set.\n");
}

#[test]
fn missing_secret_is_not_passed_and_explained() {
    let user = user();
    set_for_folder(&user, &["token", "env:NOBODY_SETS_THIS"]);
    assert_eq!(printed(&user, "."), "https://a.example 3 unset");
    let explained = user.skillhost(&["run", "./.agents/skills/reporter", "--explain", "--json"]);
    let explained: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let shown = explained.to_string();
    assert!(shown.contains("the host has no variable `NOBODY_SETS_THIS`"), "{shown}");

    // Of a file that is too long, no part is passed.
    let long = user.home().join("long");
    std::fs::write(&long, format!("{}\n\nmore", "x".repeat(4096))).unwrap();
    set_for_folder(&user, &["token", &format!("file:{}", long.display())]);
    assert_eq!(printed(&user, "."), "https://a.example 3 unset");
    std::fs::write(&long, "t0p-secret-of-a-file\n").unwrap();
    assert_eq!(printed(&user, "."), "https://a.example 3 t0p-secret-of-a-file");
}

#[test]
fn skill_of_a_project_does_not_get_the_values_of_an_installed_skill() {
    let user = user();
    add_skill(&user.home());
    // In a folder without skills, the name means the installed one.
    let desk = user.home().join("desk");
    std::fs::create_dir(&desk).unwrap();
    let at_desk = |args: &[&str]| {
        let mut command = user.command(env!("CARGO_BIN_EXE_skillhost"));
        command.env("SKILLHOST_OPERATOR_TOKEN", user.operator_token());
        let output = command.current_dir(&desk).args(args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    at_desk(&["settings", "set", "reporter", "retries", "5"]);
    let shown: Value =
        serde_json::from_str(&at_desk(&["settings", "show", "reporter", "--json"])).unwrap();
    assert_eq!(shown[1]["values"][0]["value"], "5");
    let shown = user.skillhost(&["settings", "show", "reporter", "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown[1]["values"], serde_json::json!([]));
    assert_eq!(printed(&user, "."), "https://a.example 3 unset");
}

#[test]
fn settings_are_listed_with_their_places() {
    let user = user();
    assert_eq!(set(&user, &["retries", "5"]).0, Some(0));
    assert_eq!(set(&user, &["retries", "7", "--workspace", "."]).0, Some(0));
    let listed = text(&user.skillhost(&["settings"]).stdout);
    assert!(listed.contains("reporter retries = 5 (by "), "{listed}");
    assert!(listed.contains(&format!("retries = 7 in {} (by", user.work().display())), "{listed}");
    let shown = text(&user.skillhost(&["settings", "show", "reporter"]).stdout);
    assert!(shown.contains("env:NAME or file:PATH") && shown.contains("https://a.example"));
}

#[test]
fn run_warns_of_a_secret_that_is_not_passed() {
    let user = user();
    let skill = "./.agents/skills/reporter";
    let run = |user: &User| {
        let output = user.skillhost(&["run", skill, "scripts/show.sh"]);
        text(&output.stderr)
    };
    let stderr = run(&user);
    assert!(stderr.contains("the secret `token` is omitted: it is not set"), "{stderr}");
    assert!(stderr.contains("reporter token env:NAME"), "{stderr}");

    let output = user.skillhost(&["settings", "set", skill, "token", "file:/nowhere/token"]);
    assert!(output.status.success());
    let stderr = text(&output.stderr);
    assert!(stderr.contains("warning: /nowhere/token does not exist"), "{stderr}");
    let stderr = run(&user);
    assert!(stderr.contains("the secret `token` is omitted: /nowhere/token"), "{stderr}");
}
