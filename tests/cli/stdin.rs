//! Standard input that stays open without data, like that of a terminal.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{User, script_skill, text};

/// Starts the script of a skill, and returns it while its stdin is open.
fn start(user: &User, script: (&str, &str)) -> Child {
    script_skill(&user.work().join("demo"), &[script]);
    user.command(env!("CARGO_BIN_EXE_skillhost"))
        .args(["run", "./demo"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a run ends although its stdin is open, and returns what it printed.
fn end(mut run: Child) -> String {
    let stdin = run.stdin.take();
    let started = Instant::now();
    while run.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(50) {
            run.kill().unwrap();
            panic!("the run waits for its stdin");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(stdin);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn programs_that_the_shell_starts_do_not_wait_for_it() {
    let user = User::new();
    for (script, printed) in [
        ("python3 -c 'print(1)'; node -e 'console.log(2)'\n", "1\n2\n"),
        ("echo a | python3 -c 'print(input())'\n", "a\n"),
        ("for i in 1 2; do python3 -c 'print(3)'; done; printf 'b\\n' | cat\n", "3\n3\nb\n"),
    ] {
        assert_eq!(end(start(&user, ("a.sh", script))), printed, "{script}");
    }
}

#[test]
fn commands_that_node_starts_through_the_shell_do_not_wait_for_it() {
    let user = User::new();
    let script = "require('child_process').exec('python3 -c \"print(1)\"', (error, stdout) => console.log(error, stdout));\n";
    assert_eq!(end(start(&user, ("a.js", script))), "null 1\n\n");
}

#[test]
fn programs_of_the_shell_share_it() {
    let user = User::new();
    let script = "read first; echo \"$first\"; python3 -c 'print(input())'\n";
    let mut run = start(&user, ("a.sh", script));
    run.stdin.as_mut().unwrap().write_all(b"1\n2\n").unwrap();
    assert_eq!(end(run), "1\n2\n");
}
