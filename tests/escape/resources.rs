//! Attempts to exhaust the host's resources.

use std::time::{Duration, Instant};

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::Stdin;

use super::{denied, report, stopped};
use crate::hostile_host::{Fixture, Run};
use crate::servers::Server;

#[test]
pub fn memory_stops_growing_at_its_limit() {
    let fixture = Fixture::new();
    for verb in ["memory", "memory-at-once"] {
        // The guest sees the failure and handles it.
        let outcome = denied(&fixture, fixture.run(&[verb]).limit(Limit::Memory, 64 << 20));
        assert_eq!(outcome.limits_hit[0].limit, Limit::Memory);
        assert!(outcome.usage.memory_peak <= 64 << 20, "{}", outcome.usage.memory_peak);
    }
    stopped(
        &fixture,
        fixture.run(&["memory-in-pieces"]).limit(Limit::Memory, 64 << 20),
        Limit::Memory,
    );
}

#[test]
pub fn endless_guests_are_stopped() {
    let fixture = Fixture::new();
    for args in [&["spin"][..], &["sleep"], &["sleep", "0.2"]] {
        stopped(&fixture, fixture.run(args).limit(Limit::Timeout, 300), Limit::Timeout);
        stopped(
            &fixture,
            fixture.run(args).limit(Limit::Timeout, 300).limit(Limit::Fuel, u64::MAX / 4),
            Limit::Timeout,
        );
    }
    let (stdin, _open) = std::io::pipe().unwrap();
    stopped(
        &fixture,
        fixture.run(&["stdin"]).stdin(Stdin::Descriptor(stdin.into())).limit(Limit::Timeout, 300),
        Limit::Timeout,
    );
    // The same applies to started programs: a spinning child, and its caller that waits.
    stopped(
        &fixture,
        fixture.run(&["start", "1", "spin"]).limit(Limit::Timeout, 300),
        Limit::Timeout,
    );
    for server in [Server::silent(), Server::dripping()] {
        let (url, allow) = (server.url(), format!("WebFetch({})", server.url()));
        for version in ["0.3", "0.2"] {
            stopped(
                &fixture,
                fixture
                    .run(&["fetch", &url, "1", version])
                    .allow(&allow)
                    .limit(Limit::Timeout, 300),
                Limit::Timeout,
            );
        }
    }
}

#[test]
pub fn endless_input_is_read_with_bounded_memory() {
    let fixture = Fixture::new();
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let outcome = stopped(
        &fixture,
        fixture.run(&["stdin"]).stdin(Stdin::Descriptor(zeros.into())).limit(Limit::Timeout, 500),
        Limit::Timeout,
    );
    assert!(outcome.usage.memory_peak < 32 << 20, "{}", outcome.usage.memory_peak);
}

#[test]
pub fn a_flood_of_output_is_cut_off() {
    let fixture = Fixture::new();
    let outcome = stopped(
        &fixture,
        fixture.run(&["flood", "stdout"]).limit(Limit::Stdout, 100_000),
        Limit::Stdout,
    );
    assert_eq!((outcome.stdout.0.len(), outcome.usage.stdout_bytes), (100_000, 100_000));
    let outcome = stopped(
        &fixture,
        fixture.run(&["flood", "stderr"]).limit(Limit::Stderr, 100_000),
        Limit::Stderr,
    );
    assert_eq!(outcome.stderr.0.len(), 100_000);
}

#[test]
pub fn a_million_handles_cannot_be_held() {
    let fixture = Fixture::new();
    for version in ["0.3", "0.2"] {
        let run = fixture.run(&["handles", version]).limit(Limit::Handles, 100);
        let outcome = run.go();
        assert_eq!(
            outcome.limits_hit.first().map(|hit| hit.limit),
            Some(Limit::Handles),
            "{version}: {outcome:?}"
        );
        assert_ne!(outcome.status, Status::Exited { code: 3 }, "{outcome:?}");
        fixture.assert_alive();
    }
}

#[test]
pub fn the_host_survives_a_million_calls() {
    let fixture = Fixture::new();
    let started = Instant::now();
    fixture.run(&["host-calls"]).succeeds();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
pub fn random_bytes_are_limited() {
    let fixture = Fixture::new();
    for version in ["0.3", "0.2"] {
        stopped(
            &fixture,
            fixture.run(&["random", version]).limit(Limit::Random, 5 << 20),
            Limit::Random,
        );
    }
    stopped(&fixture, fixture.run(&["random-at-once", "0.2"]), Limit::Random);
    // 0.3 may return fewer bytes than requested, and does.
    fixture.run(&["random-at-once", "0.3"]).succeeds();
}

#[test]
pub fn endless_recursion_is_stopped() {
    let fixture = Fixture::new();
    stopped(&fixture, fixture.run(&["recursion"]), Limit::Stack);
}

#[test]
pub fn huge_arguments_are_not_copied() {
    let fixture = Fixture::new();
    for which in [
        "path",
        "path-0.2",
        "write-0.2",
        "arguments",
        "input",
        "variables",
        "header",
        "header-0.2",
        "name",
    ] {
        let outcome = stopped(
            &fixture,
            fixture.run(&["huge", which]).limit(Limit::Memory, 1 << 30),
            Limit::HostCall,
        );
        assert!(outcome.stdout.0.is_empty(), "{which}: {}", outcome.stdout.text());
    }
}

#[test]
pub fn host_buffers_for_programs_count_as_memory() {
    let fixture = Fixture::new();
    for which in ["input", "output"] {
        let run = fixture
            .run(&["hoard", which])
            .limit(Limit::Processes, 1_000)
            .limit(Limit::ProcessesAlive, 1_000)
            .limit(Limit::Timeout, 20_000);
        let outcome = run.go();
        assert_eq!(
            outcome.limits_hit.first().map(|hit| hit.limit),
            Some(Limit::Memory),
            "{which}: {outcome:?}"
        );
        assert!(outcome.usage.memory_peak <= 512 << 20, "{which}: {}", outcome.usage.memory_peak);
        fixture.assert_alive();
    }
    // With fuel, programs take turns, and waiting programs use memory too.
    let outcome = fixture
        .run(&["hoard", "input"])
        .limit(Limit::Processes, 1_000)
        .limit(Limit::ProcessesAlive, 1_000)
        .limit(Limit::Fuel, u64::MAX / 4)
        .limit(Limit::Timeout, 20_000)
        .go();
    assert_eq!(outcome.limits_hit.first().map(|hit| hit.limit), Some(Limit::Memory), "{outcome:?}");
}

#[test]
pub fn a_million_tasks_cannot_be_held() {
    let fixture = Fixture::new();
    stopped(&fixture, fixture.run(&["tasks"]), Limit::Handles);
    stopped(&fixture, fixture.run(&["streams"]), Limit::Handles);
}

#[test]
pub fn nested_programs_are_limited() {
    let fixture = Fixture::new();
    let outcome = denied_deep(&fixture, fixture.run(&["spawn"]));
    assert_eq!((outcome.limits_hit[0].limit, outcome.usage.processes), (Limit::ProcessDepth, 4));
    let outcome = denied_deep(&fixture, fixture.run(&["spawn-again"]).limit(Limit::Processes, 20));
    assert_eq!((outcome.limits_hit[0].limit, outcome.usage.processes), (Limit::Processes, 20));
    let outcome =
        fixture.run(&["fork"]).limit(Limit::Processes, 40).limit(Limit::ProcessDepth, 100).go();
    assert_eq!(
        (outcome.limits_hit[0].limit, outcome.usage.processes),
        (Limit::Processes, 40),
        "{outcome:?}"
    );
    let outcome = fixture.run(&["fork"]).limit(Limit::ProcessDepth, 100).go();
    assert_eq!(outcome.limits_hit[0].limit, Limit::ProcessesAlive, "{outcome:?}");
    // Together they have the memory limit of one run.
    let outcome = fixture
        .run(&["fork"])
        .limit(Limit::Memory, 8 << 20)
        .limit(Limit::ProcessDepth, 100)
        .limit(Limit::ProcessesAlive, 1_000)
        .go();
    assert_eq!(outcome.limits_hit[0].limit, Limit::Memory, "{outcome:?}");
    assert!(outcome.usage.memory_peak <= 8 << 20, "{}", outcome.usage.memory_peak);
    fixture.assert_alive();
}

/// The innermost program was refused; its callers report what they saw.
fn denied_deep(fixture: &Fixture, run: Run<'_>) -> Outcome {
    let outcome = run.go();
    assert_eq!(report(&outcome)["denied"], true, "{}", outcome.stdout.text());
    assert_eq!(outcome.status, Status::Exited { code: 0 }, "{outcome:?}");
    fixture.assert_alive();
    outcome
}
