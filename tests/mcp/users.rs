//! A server under a separate user: `skillhost serve` with its own uid.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::json;

use super::http::Server;
use super::{OLD, Place, request};

/// User ids that need no entry anywhere.
const SERVER: u32 = 4_242;
const CLIENT: u32 = 4_343;

/// Changes the owner of a tree.
fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), uid));
    }
}

/// A copy of the program that every user can start.
fn program(place: &Place) -> PathBuf {
    let copy = place.user.root().join("skillhost");
    std::fs::copy(env!("CARGO_BIN_EXE_skillhost"), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

fn of(place: &Place, program: &Path, uid: u32, args: &[&str]) -> Command {
    let mut command = place.user.command(program.to_str().unwrap());
    command.env("XDG_CACHE_HOME", place.user.home().join(".cache")).args(args).uid(uid).gid(uid);
    command
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

#[test]
fn a_client_of_another_user_cannot_change_the_policy() {
    if !rustix::process::geteuid().is_root() {
        crate::cli::skipped("only root can start a server and a client as two users");
        return;
    }
    let place = Place::new();
    let program = program(&place);
    let policy = place.user.home().join("policy.yaml");
    std::fs::write(&policy, "default: { allow: [Read, Write, Bash] }\n").unwrap();
    let state = place.user.home().join(".local/state/skillhost");
    std::fs::create_dir_all(&state).unwrap();
    for folder in [place.user.home(), place.user.work(), place.user.root().join("tmp")] {
        give(&folder, SERVER);
    }
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(place.user.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(place.user.root(), std::fs::Permissions::from_mode(0o711)).unwrap();

    let args = ["serve", "--listen", "127.0.0.1:0", "--policy", policy.to_str().unwrap()];
    let server = Server::of(&mut of(&place, &program, SERVER, &args));
    let hello = json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    assert_eq!(
        server.post(&request(OLD, 1, "initialize", hello), &[]).status,
        200,
        "the client is served"
    );

    assert!(!server.stderr_after_the_end().contains("runs as the same user"), "it is another user");

    // The same client, as a process on this machine.
    for path in [&policy, &state, &state.join("approvals.db")] {
        let mut cat = place.user.command("cat");
        let read = run({
            cat.arg(path).uid(CLIENT).gid(CLIENT);
            cat
        });
        assert!(
            !read.status.success()
                && String::from_utf8_lossy(&read.stderr).contains("Permission denied"),
            "{}: {read:?}",
            path.display()
        );
    }
    for verb in
        [&["approve", "1", "--always"][..], &["permissions", "set", "writer", "auto-approved"]]
    {
        let mut command = of(&place, &program, CLIENT, verb);
        command.env("SKILLHOST_OPERATOR_TOKEN", "0".repeat(32));
        let refused = run(command);
        assert!(!refused.status.success(), "{verb:?}: {refused:?}");
    }
    // Nor is the client's own file accepted as the operator's.
    let own = place.user.root().join("own.yaml");
    std::fs::write(&own, "default: { approval: auto-approved }\n").unwrap();
    chown(&own, Some(CLIENT), None).unwrap();
    let refused = run(of(
        &place,
        &program,
        SERVER,
        &["serve", "--listen", "127.0.0.1:0", "--policy", own.to_str().unwrap()],
    ));
    assert_eq!(refused.status.code(), Some(77), "{refused:?}");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("is owned by uid 4343"),
        "{refused:?}"
    );
}
