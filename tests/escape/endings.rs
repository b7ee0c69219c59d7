//! Kinds of endings, and what the outcome and the audit log contain of them.

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Status;

use crate::hostile_host::{Fixture, SECRET};

#[test]
pub fn a_trap_is_an_outcome() {
    let fixture = Fixture::new();
    for (verb, words) in [
        ("trap", "unreachable"),
        ("panic", "unreachable"),
        ("trap-in-drop", "unreachable"),
        ("out-of-bounds", "out of bounds"),
        ("recursion-in-memory", "out of bounds"),
    ] {
        let before = fixture.snapshot();
        let outcome = fixture.run(&[verb]).go();
        match &outcome.status {
            Status::Trapped { message } => {
                assert!(message.contains(words), "{verb}: {message}");
                assert!(
                    !message.contains(fixture.dir.path().to_str().unwrap()),
                    "{verb}: a host path in {message}"
                );
            }
            other => panic!("{verb}: {other:?}"),
        }
        assert_eq!(outcome.limits_hit, []);
        assert_eq!(fixture.snapshot(), before);
        fixture.assert_alive();
    }
    assert!(fixture.run(&["panic"]).go().stderr.text().contains("a panic of the guest"));
}

#[test]
pub fn exit_codes_are_bytes() {
    let fixture = Fixture::new();
    for (code, expected) in
        [("0", 0), ("1", 1), ("255", 255), ("256", 0), ("259", 3), ("18446744073709551615", 255)]
    {
        assert_eq!(
            fixture.run(&["exit", code]).go().status,
            Status::Exited { code: expected },
            "{code}"
        );
    }
}

#[test]
pub fn control_characters_are_kept_as_data() {
    let fixture = Fixture::new();
    let outcome = fixture.run(&["control"]).succeeds();
    assert!(outcome.stdout.0.starts_with(b"\x1b]0;a title\x07"));
    // JSON and the audit log escape them.
    let json = serde_json::to_string(&outcome).unwrap();
    assert!(json.bytes().all(|byte| byte >= b' '), "{json}");
    let log = std::fs::read(fixture.path("audit.jsonl")).unwrap();
    assert!(log.iter().all(|byte| *byte >= b' ' || *byte == b'\n'));
}

#[test]
pub fn each_run_is_recorded_whatever_its_outcome() {
    let fixture = Fixture::new();
    fixture.run(&["trap"]).go();
    fixture.run(&["spin"]).limit(Limit::Timeout, 100).go();
    fixture.run(&["traversal", SECRET]).go();
    let log = fixture.audit();
    assert_eq!(
        log.iter().map(|line| line["status"]["kind"].as_str().unwrap()).collect::<Vec<_>>(),
        ["trapped", "limit-hit", "exited"]
    );
    assert!(
        !std::fs::read_to_string(fixture.path("audit.jsonl")).unwrap().contains(SECRET),
        "an argument is in the log"
    );
}
