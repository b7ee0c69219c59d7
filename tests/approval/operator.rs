//! Decisions that only the operator can make, and files that others can write.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use crate::cli::{User, skill_of};

fn user() -> User {
    let user = User::new();
    skill_of("writer", &user.home().join(".agents/skills/reporter"));
    std::fs::create_dir(user.work().join("out")).unwrap();
    user
}

/// Runs a command without a terminal.
fn alone(user: &User, args: &[&str]) -> Output {
    user.command(env!("CARGO_BIN_EXE_skillhost")).args(args).output().unwrap()
}

const RUN: [&str; 4] = ["run", "reporter", "--workspace", "out"];

#[test]
fn only_a_terminal_or_the_token_approves() {
    let user = user();
    assert_eq!(alone(&user, &RUN).status.code(), Some(77));
    std::fs::write(user.work().join("key.pem"), "").unwrap();
    for verb in [
        &["approve", "1"][..],
        &["approve", "1", "--always"],
        &["approve", "1", "--no"],
        &["permissions", "set", "reporter", "auto-approved"],
        &["key", "trust", "key.pem"],
    ] {
        let refused = alone(&user, verb);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(77) && stderr.contains("only the operator may do this"),
            "{verb:?}: {refused:?}"
        );
        assert!(!stderr.contains(&user.operator_token()), "{stderr}");
        let mut guess = user.command(env!("CARGO_BIN_EXE_skillhost"));
        let wrong =
            guess.args(verb).env("SKILLHOST_OPERATOR_TOKEN", "0".repeat(32)).output().unwrap();
        assert_eq!(wrong.status.code(), Some(77), "{verb:?}: {wrong:?}");
    }
    assert_eq!(alone(&user, &RUN).status.code(), Some(77), "nothing of it counted");
    let file = user.home().join(".local/state/skillhost/operator.token");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    assert!(alone(&user, &RUN).status.success());
    // A token file that others can read is refused.
    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        user.skillhost(&["permissions", "set", "reporter", "blocked"]).status.code(),
        Some(74)
    );
}

#[test]
fn files_writable_by_others_are_refused() {
    let user = user();
    assert_eq!(alone(&user, &RUN).status.code(), Some(77));
    assert!(user.skillhost(&["approve", "1", "--always"]).status.success());
    assert!(alone(&user, &RUN).status.success());
    std::fs::write(user.work().join("policy.yaml"), "default: { allow: [Read, Write] }\n").unwrap();
    let run = [&RUN[..], &["--policy", "policy.yaml"]].concat();
    let state = user.home().join(".local/state/skillhost");
    for (path, args, code) in [
        (user.work().join("policy.yaml"), &run[..], 77),
        (state.join("approvals.db"), &RUN, 74),
        (state.clone(), &RUN, 77),
    ] {
        let before = path.metadata().unwrap().permissions();
        for mode in [0o020, 0o002] {
            std::fs::set_permissions(&path, Permissions::from_mode(before.mode() | mode)).unwrap();
            let refused = alone(&user, args);
            let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(
                refused.status.code() == Some(code) && stderr.contains("is writable by others"),
                "{}: {refused:?}",
                path.display()
            );
        }
        std::fs::set_permissions(&path, before).unwrap();
        if !rustix::process::geteuid().is_root() {
            continue;
        }
        std::os::unix::fs::chown(&path, Some(4_242), None).unwrap();
        let refused = alone(&user, args);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            refused.status.code() == Some(code) && stderr.contains("is owned by uid 4242"),
            "{}: {refused:?}",
            path.display()
        );
        std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    }
    assert!(alone(&user, &RUN).status.success(), "and once that is mended, all is as before");
}
