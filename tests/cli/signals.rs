//! Ctrl-C and SIGTERM: the guest ends, the scratch folder is removed, and the run is recorded.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{User, text};

/// Starts a guest that would sleep for an hour, and ends it by a signal once it has started.
fn end_by(signal: rustix::process::Signal) -> (User, std::process::Output) {
    let user = User::new();
    let child = user
        .command(env!("CARGO_BIN_EXE_skillhost"))
        .args(["run", "./sleep"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !crate::signals::has_engine(&child) {
        assert!(started.elapsed() < Duration::from_secs(60), "the guest never started");
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, signal).unwrap();
    (user, child.wait_with_output().unwrap())
}

#[test]
fn interrupted_run_exits_with_130_and_is_recorded() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let (user, run) = end_by(signal);
        assert_eq!(
            (run.status.code(), text(&run.stderr).as_str()),
            (Some(130), "error: interrupted\n"),
            "{signal:?}"
        );
        assert_eq!(user.records()[0]["status"]["kind"], "interrupted");
        assert!(user.scratch().is_empty(), "{:?}", user.scratch());
    }
}
