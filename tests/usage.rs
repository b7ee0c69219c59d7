//! `skillhost stats` as a user sees it. `mcp/usage.rs` tests what it counts of agents.

use crate::cli::{User, text};

fn ok(user: &User, args: &[&str]) -> String {
    let run = user.skillhost(&[&["stats"], args].concat());
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    text(&run.stdout)
}

#[test]
fn empty_statistics_create_no_file() {
    let user = User::new();
    assert!(ok(&user, &[]).starts_with("no skill was used since 2"));
    assert_eq!(ok(&user, &["--wipe"]), "nothing to delete\n");
    assert_eq!(
        ok(&user, &["--suggest-default"]),
        "no suggestions: they need 10 sessions, and there are 0\n"
    );
    let empty: serde_json::Value = serde_json::from_str(&ok(&user, &["--json"])).unwrap();
    assert_eq!((&empty["sessions"], &empty["skills"]), (&0.into(), &serde_json::json!([])));
    assert!(!user.home().join(".local").exists());
}

#[test]
fn command_line_runs_come_from_the_audit_log() {
    let user = User::new();
    for guest in ["hello", "hello", "hello", "code3", "trap", "other"] {
        user.skillhost(&["run", &format!("./{guest}")]);
    }
    std::os::unix::fs::symlink("hello", user.work().join("link")).unwrap();
    user.skillhost(&["run", "./hello", "--workspace", "link"]);
    let state = user.home().join(".local/state/skillhost");
    assert!(!state.join("usage.db").exists(), "a run opens no file of usage");
    let shown = ok(&user, &[]);
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..6], ["skill", "sessions", "found", "activated", "runs", "ok"], "{shown}");
    assert_eq!(rows[1], ["hello", "0", "0", "0", "3", "100%", "1", "-", "0"], "{shown}");
    assert_eq!(rows[2], ["code3", "0", "0", "0", "1", "0%", "0", "-", "0"], "{shown}");
    assert!(!shown.contains("other"), "a skill without a component did not run: {shown}");
    assert!(shown.contains("\n0 sessions since 2"), "{shown}");
    // The chart: three are three times as wide as one.
    let bar = |skill: &str| {
        shown.lines().rev().find(|line| line.starts_with(skill)).unwrap().matches('█').count()
    };
    assert_eq!(bar("hello"), 3 * bar("trap"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    let one = ok(&user, &["code3"]);
    assert!(!one.contains("runs\ncode3"), "{one}");
    assert!(one.contains("all, including the command line") && !one.contains("hello"), "{one}");
    assert!(ok(&user, &["nobody"]).starts_with("nobody was not used since 2"));
    // Another log has other runs.
    user.skillhost(&["run", "./hello", "--audit", "other.jsonl"]);
    let other = ok(&user, &["--audit", "other.jsonl"]);
    assert!(other.contains("hello") && !other.contains("trap"), "{other}");
}

#[test]
fn unreadable_statistics_are_reported_and_block_no_run() {
    let user = User::new();
    let state = user.home().join(".local/state/skillhost");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("usage.db"), "this is not a database of sessions").unwrap();
    let run = user.skillhost(&["stats"]);
    assert!(run.status.code() == Some(74) && text(&run.stderr).contains("usage.db"), "{run:?}");
    assert!(user.skillhost(&["run", "./hello"]).status.success());
}
