//! Approvals and records refer to the real folder, whatever name it was given by.

use std::path::Path;
use std::process::Output;

use crate::cli::{User, skill_of};

/// A user with a skill of their own that writes, and a project.
fn user(projects: &[&str]) -> User {
    let user = User::new();
    skill_of("writer", &user.home().join(".agents/skills/reporter"));
    for project in projects {
        std::fs::create_dir(user.work().join(project)).unwrap();
    }
    user
}

fn run_in(user: &User, folder: &Path) -> Output {
    user.command(env!("CARGO_BIN_EXE_skillhost"))
        .current_dir(folder)
        .args(["run", "reporter", "--workspace", "."])
        .output()
        .unwrap()
}

fn approve_always(user: &User, folder: &Path) {
    let asked = run_in(user, folder);
    assert_eq!(asked.status.code(), Some(77), "{asked:?}");
    let pending = String::from_utf8(user.skillhost(&["pending"]).stdout).unwrap();
    let real = folder.canonicalize().unwrap();
    assert!(
        pending.contains(&format!("folder /workspace (read-write) = {} (device ", real.display())),
        "{pending}"
    );
    let id = pending.split(' ').next().unwrap().to_owned();
    assert!(user.skillhost(&["approve", &id, "--always"]).status.success());
    assert!(run_in(user, folder).status.success());
}

#[test]
fn an_approval_for_one_project_covers_no_other() {
    let user = user(&["project-one", "project-two"]);
    let [one, two] = ["project-one", "project-two"].map(|project| user.work().join(project));
    approve_always(&user, &one);
    let other = run_in(&user, &two);
    assert_eq!(
        other.status.code(),
        Some(77),
        "the words are the same, the folder is not: {other:?}"
    );
    assert!(std::fs::read_dir(&two).unwrap().next().is_none());
    assert!(run_in(&user, &one).status.success());
}

#[test]
fn a_replaced_folder_needs_a_new_approval() {
    let user = user(&["project-one"]);
    let one = user.work().join("project-one");
    approve_always(&user, &one);
    // Kept, so that the new one has another inode.
    std::fs::rename(&one, user.work().join("before")).unwrap();
    std::fs::create_dir(&one).unwrap();
    let other = run_in(&user, &one);
    assert_eq!(other.status.code(), Some(77), "{other:?}");
    let back = run_in(&user, &user.work().join("before"));
    assert_eq!(back.status.code(), Some(77), "a moved folder is not approved: {back:?}");
}

#[test]
fn the_audit_record_names_the_real_folder() {
    let user = user(&["project-one"]);
    let one = user.work().join("project-one");
    approve_always(&user, &one);
    let records = user.records();
    let record =
        records.iter().rev().find(|record| record["capabilities"]["mounts"].is_array()).unwrap();
    assert_eq!(
        record["capabilities"]["mounts"][0]["host"],
        one.canonicalize().unwrap().to_str().unwrap(),
        "{record}"
    );
}
