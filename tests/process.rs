//! Programs start programs: their streams flow while both run, within bounds, and nothing outlives the run.

use skillhost::limits::Limit;
use skillhost::outcome::{Outcome, ProcessEnd, Status};
use skillhost::sandbox::Stdin;

use crate::arena::Arena;

/// What became of each program that was started, in order.
fn ends(outcome: &Outcome) -> Vec<ProcessEnd> {
    outcome.processes.iter().map(|process| process.exit.clone()).collect()
}

/// The answer of a load.
fn answer(outcome: &Outcome) -> String {
    let text = outcome.stdout.text();
    let report: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{outcome:?}"));
    report["detail"]["answers"].as_object().unwrap().keys().next().unwrap().clone()
}

#[test]
fn a_program_answers_while_both_run() {
    let arena = Arena::new();
    let outcome = arena.run(&["talk", "1"]).obeys();
    assert_eq!(ends(&outcome), [ProcessEnd::Exited { code: 0 }]);
    // Ten of them, turn by turn.
    let outcome = arena.run(&["talk", "10"]).obeys();
    assert_eq!(ends(&outcome), vec![ProcessEnd::Exited { code: 0 }; 10]);
}

#[test]
fn much_flows_through_a_pipe_in_little_memory() {
    let arena = Arena::new();
    let outcome = arena.run(&["pipeline", "100000000"]).limit(Limit::Memory, 16 << 20).obeys();
    assert_eq!(answer(&outcome), "100000000");
    // The two ends of it, each by itself: what is poured is what is counted.
    let poured = arena.run(&["pour", "1000"]).obeys().stdout.0;
    assert_eq!(poured, (0..1000).map(|at| at as u8).collect::<Vec<_>>());
    assert_eq!(arena.run(&["count"]).stdin(Stdin::Bytes(poured)).obeys().stdout.text(), "1000\n");
}

#[test]
fn a_standard_input_that_is_shared_is_not_read_ahead() {
    let arena = Arena::new();
    let outcome = arena.run(&["share", "3"]).stdin(Stdin::Bytes(b"one two three".into())).obeys();
    assert_eq!(outcome.stdout.text(), "one| two three");
    let (stdin, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"one two three").unwrap();
    drop(writer);
    let outcome = arena.run(&["share", "3"]).stdin(Stdin::Descriptor(stdin.into())).obeys();
    assert_eq!((outcome.stdout.text().as_ref(), outcome.status), ("one| two three", Status::Exited { code: 0 }));
}
