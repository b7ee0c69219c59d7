//! `skillhost session`, a client of the sessions of the run API.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ApiServer;
use super::commands::Client;
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
    let mut child = streaming
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"typed\n");
    let local = place.user.work().join("data.csv");
    std::fs::write(&local, "a,b\n").unwrap();
    client.succeeds(&["session", "put", id, local.to_str().unwrap(), "data/a b.csv"]);
    assert_eq!(client.succeeds(&["session", "get", id, "data/a b.csv"]), "a,b\n");
    assert!(client.succeeds(&["session", "ls", id, "-r"]).contains("data/a b.csv"));
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

#[test]
fn an_interrupt_ends_the_program_and_not_the_session() {
    let place = Place::new();
    let server = ApiServer::new(&place, &[]);
    let client = Client::of(&place, &server);
    let id = client.succeeds(&["session", "create", "writer"]);
    let id = id.trim();
    let mut waits = client.command(&["session", "exec", id, "--command", "echo up; sleep 3000"]);
    let mut child = waits.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "up\n");
    let began = Instant::now();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(client.succeeds(&["session", "exec", id, "--", "echo", "again"]), "again\n");
}
