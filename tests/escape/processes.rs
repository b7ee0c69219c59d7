//! Concurrent programs and the pipes between them, as ways to exhaust the host.

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::ProcessEnd;

use super::{denied, report, stopped};
use crate::hostile_host::Fixture;

#[test]
pub fn pipes_are_not_hoarded() {
    let fixture = Fixture::new();
    // Each pipe counts as memory with its full capacity.
    let outcome = denied(&fixture, fixture.run(&["pipes"]).limit(Limit::Memory, 8 << 20));
    assert_eq!(outcome.limits_hit[0].limit, Limit::Memory);
    stopped(&fixture, fixture.run(&["pipes"]).limit(Limit::Handles, 200), Limit::Handles);
}

#[test]
pub fn waiting_for_a_hundred_thousand_pipe_ends_hits_a_limit() {
    let fixture = Fixture::new();
    stopped(&fixture, fixture.run(&["poll-bomb"]), Limit::Handles);
}

#[test]
pub fn programs_left_running_end_with_the_run() {
    let fixture = Fixture::new();
    let outcome = denied(&fixture, fixture.run(&["leave"]).limit(Limit::ProcessDepth, 0));
    assert_eq!(outcome.processes, []);
    let outcome = fixture.run(&["leave"]).succeeds();
    assert_eq!(report(&outcome)["denied"], true);
    // The programs that only started another may have exited by themselves, or may have been killed
    // before.
    assert!(outcome.processes.len() >= 5, "{outcome:?}");
    assert!(
        outcome.processes[..3].iter().all(|process| process.exit == ProcessEnd::Killed),
        "{outcome:?}"
    );
    fixture.assert_alive();
}

#[test]
pub fn killing_a_program_kills_its_descendants() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["kill-tree"]).go();
    assert_eq!(report(&outcome)["denied"], true, "{}", outcome.stdout.text());
    assert_eq!(outcome.limits_hit[0].limit, Limit::Processes);
    // None exited by itself, except for those that were refused the last programs.
    let others = outcome
        .processes
        .iter()
        .map(|process| &process.exit)
        .filter(|exit| **exit != ProcessEnd::Killed);
    assert!(
        others.clone().all(|exit| *exit == ProcessEnd::Exited { code: 126 }),
        "{:?}",
        others.collect::<Vec<_>>()
    );
    fixture.assert_alive();
}

#[test]
pub fn a_pipe_without_a_reader_accepts_nothing() {
    let fixture = Fixture::new();
    let outcome = denied(&fixture, fixture.run(&["broken-pipe"]));
    assert!(outcome.usage.memory_peak < 16 << 20, "{}", outcome.usage.memory_peak);
}

#[test]
pub fn an_unread_pipe_blocks_its_writer() {
    let fixture = Fixture::new();
    let outcome =
        stopped(&fixture, fixture.run(&["unread"]).limit(Limit::Timeout, 500), Limit::Timeout);
    assert!(outcome.usage.memory_peak < 16 << 20, "{}", outcome.usage.memory_peak);
}
