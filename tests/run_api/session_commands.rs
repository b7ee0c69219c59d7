//! `skillhost session`, a client of the sessions of the run API.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ApiServer;
use super::commands::Client;
use crate::hostile_host::HANG_TIMEOUT;
use crate::mcp::Place;

#[test]
fn the_command_line_works_in_a_session() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let project = place.user.work().join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("in.txt"), "old\n").unwrap();
    let dir = project.to_str().unwrap();
    let id = client.succeeds(&["session", "create", "writer", "--workspace", dir]);
    let id = id.trim();
    let exec = |args: &[&str]| client.run(&[&["session", "exec", id][..], args].concat());
    assert_eq!(exec(&["--", "cat", "in.txt"]), (Some(0), "old\n".into(), String::new()));
    assert_eq!(exec(&["--command", "echo new > in.txt; exit 7"]).0, Some(7));
    let mut streaming = client.command(&["session", "exec", id, "--stdin", "-", "--", "cat"]);
    let mut child = streaming.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"typed\n");
    let local = place.user.work().join("data.csv");
    std::fs::write(&local, "a,b\n").unwrap();
    client.succeeds(&["session", "put", id, local.to_str().unwrap(), "data/a b.csv"]);
    assert_eq!(client.succeeds(&["session", "get", id, "data/a b.csv"]), "a,b\n");
    assert!(client.succeeds(&["session", "ls", id, "-r"]).contains("data/a b.csv"));
    client.succeeds(&["session", "put", id, local.to_str().unwrap(), "gone/file"]);
    assert_eq!(client.run(&["session", "rm", id, "gone"]).0, Some(64), "it is not empty");
    assert_eq!(client.succeeds(&["session", "rm", id, "-r", "gone"]), "removed gone\n");
    assert!(!client.succeeds(&["session", "ls", id, "-r"]).contains("gone"));
    assert!(client.succeeds(&["session", "diff", id]).contains("+new"));
    let fork = client.succeeds(&["session", "fork", id]);
    let tree = client.succeeds(&["session", "snapshot", id]);
    assert_eq!(client.succeeds(&["session", "apply", id, "--to", dir]), "applied 3 changes\n");
    assert_eq!(std::fs::read_to_string(project.join("in.txt")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(project.join("data/a b.csv")).unwrap(), "a,b\n");
    // The next changes are relative to those that were applied.
    exec(&["--command", "echo newer > in.txt"]);
    assert_eq!(client.succeeds(&["session", "apply", id, "--to", dir]), "applied 1 change\n");
    assert_eq!(std::fs::read_to_string(project.join("in.txt")).unwrap(), "newer\n");
    client.succeeds(&["session", "restore", id, tree.trim()]);
    assert_eq!(exec(&["--", "cat", "in.txt"]).1, "new\n");
    client.succeeds(&["session", "drop", id]);
    assert_eq!(exec(&["--", "cat", "in.txt"]).1, "newer\n");
    let list: Value =
        serde_json::from_str(&client.succeeds(&["session", "list", "--json"])).unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
    client.succeeds(&["session", "end", id]);
    client.succeeds(&["session", "end", fork.trim()]);
    let (code, _, stderr) = exec(&["--", "true"]);
    assert!(code == Some(64) && stderr.contains("the session has ended"), "{stderr}");
    assert_eq!(client.run(&["session", "end", "../runs"]).0, Some(64));
}

/// Starts a program that prints a line and waits, and reads the line.
fn waiting(client: &Client<'_>, id: &str) -> Child {
    let mut exec = client.command(&["session", "exec", id, "--command", "echo up; sleep 3000"]);
    let mut child = exec.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    child
}

#[test]
fn an_interrupt_ends_the_program_and_not_the_session() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let id = id.trim();
    let mut child = waiting(&client, id);
    let began = Instant::now();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(client.succeeds(&["session", "exec", id, "--", "echo", "again"]), "again\n");
}

#[test]
fn output_that_cannot_be_printed_is_an_error_at_once() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let mut exec = client.command(&["session", "exec", id.trim(), "--", "echo", "lost"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        exec.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && stderr.contains("No space left"), "{stderr}");
    assert!(!stderr.contains("again and again"), "{stderr}");
}

#[test]
fn a_watch_ends_when_its_reader_does() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let id = id.trim();
    let mut watch = client.command(&["session", "watch", id, "--json"]);
    let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < HANG_TIMEOUT, "the watch goes on");
        client.succeeds(&["session", "exec", id, "--command", "date +%N > file"]);
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watch_prints_changes_until_the_session_ends() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let id = id.trim();
    let mut watch = client.command(&["session", "watch", id]);
    let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The watch may begin after the first files were written.
    let is_seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1_000 {
                if is_seen.load(Ordering::Relaxed) {
                    return;
                }
                let write = format!("echo x > file-{number}");
                client.succeeds(&["session", "exec", id, "--command", &write]);
            }
        });
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        is_seen.store(true, Ordering::Relaxed);
        assert!(line.contains("  file-"), "{line}");
    });
    client.succeeds(&["session", "end", id]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_ends_a_program_that_ps_lists() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let id = id.trim();
    let mut child = waiting(&client, id);
    let listed = client.succeeds(&["session", "ps", id, "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let program = listed["runs"][0]["id"].as_str().unwrap();
    assert!(client.succeeds(&["session", "ps", id]).contains(program));
    assert_eq!(client.succeeds(&["session", "signal", id, program, "KILL"]), "cancelled\n");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    for wrong in ["HUP", "kill"] {
        assert_eq!(client.run(&["session", "signal", id, program, wrong]).0, Some(64));
    }
    assert_eq!(client.run(&["session", "signal", id, "../x"]).0, Some(64));
}
