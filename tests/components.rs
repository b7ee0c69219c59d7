//! Components that no compiler in use emits: compilation bombs, table bombs, traps at unusual
//! moments, and files that are not components.

use std::time::Instant;

use proptest::test_runner::{RngAlgorithm, TestRng};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::http::Resolver;

use crate::handwritten_components::{command, compilers_with, component, long_function};
use crate::hostile_host::{Fixture, HANG_TIMEOUT, hostile};

fn fixture(component: &[u8]) -> Fixture {
    Fixture::with(component, Resolver::System)
}

/// Runs a component, and asserts that the host still serves afterwards.
fn outcome_of(component: &[u8]) -> Outcome {
    let fixture = fixture(component);
    let outcome = fixture.run(&[]).limit(Limit::Timeout, 5_000).go();
    fixture.assert_alive();
    outcome
}

fn assert_trapped(component: &[u8], words: &str) {
    match outcome_of(component).status {
        Status::Trapped { message } => assert!(message.contains(words), "{message}"),
        other => panic!("no trap: {other:?}"),
    }
}

fn assert_invalid(component: &[u8], words: &str) -> Outcome {
    let outcome = outcome_of(component);
    match &outcome.status {
        Status::Invalid { message, .. } => assert!(message.contains(words), "{message}"),
        other => panic!("not invalid: {other:?}"),
    }
    outcome
}

#[test]
pub fn table_elements() {
    let growing = |by: u32| {
        command(&format!(
            "(table 10 funcref) (func (export \"run\") (result i32) (i32.eq (table.grow (ref.null func) (i32.const {by})) (i32.const -1)))"
        ))
    };
    fixture(&growing(90)).run(&[]).limit(Limit::TableElements, 100).succeeds();
    fixture(&growing(91)).run(&[]).limit(Limit::TableElements, 100).hits(Limit::TableElements);
    fixture(&growing(u32::MAX - 10)).run(&[]).hits(Limit::TableElements);
    // The same size from the start, in one table and in many.
    let at_once = |tables: &str| {
        command(&format!("{tables} (func (export \"run\") (result i32) (i32.const 0))"))
    };
    fixture(&at_once("(table 100 funcref)")).run(&[]).limit(Limit::TableElements, 100).succeeds();
    fixture(&at_once("(table 101 funcref)"))
        .run(&[])
        .limit(Limit::TableElements, 100)
        .hits(Limit::TableElements);
    fixture(&at_once(&"(table 10 funcref)".repeat(11)))
        .run(&[])
        .limit(Limit::TableElements, 100)
        .hits(Limit::TableElements);
}

#[test]
pub fn instances() {
    let many = |count: usize| {
        component(&format!(
            r#"(component
                (core module $m (memory 1) (func (export "run") (result i32) (i32.const 0)))
                {}
                (core instance $i (instantiate $m))
                (func $run (result (result)) (canon lift (core func $i "run")))
                (instance $run (export "run" (func $run)))
                (export "wasi:cli/run@0.2.6" (instance $run)))"#,
            "(core instance (instantiate $m))".repeat(count - 1)
        ))
    };
    fixture(&many(20)).run(&[]).limit(Limit::Instances, 20).succeeds();
    fixture(&many(21)).run(&[]).limit(Limit::Instances, 20).hits(Limit::Instances);
    fixture(&many(900)).run(&[]).hits(Limit::Instances);
    // The instances' memories are counted together.
    fixture(&many(20)).run(&[]).limit(Limit::Memory, 20 << 16).succeeds();
    fixture(&many(21)).run(&[]).limit(Limit::Memory, 20 << 16).hits(Limit::Memory);
}

#[test]
fn initial_memory_counts() {
    let with = |pages: u32| {
        command(&format!("(memory {pages}) (func (export \"run\") (result i32) (i32.const 0))"))
    };
    fixture(&with(16)).run(&[]).limit(Limit::Memory, 1 << 20).succeeds();
    fixture(&with(17)).run(&[]).limit(Limit::Memory, 1 << 20).hits(Limit::Memory);
    fixture(&with(65_536)).run(&[]).hits(Limit::Memory);
}

#[test]
pub fn compile() {
    fixture(&long_function(100)).run(&[]).limit(Limit::Compile, 60_000).succeeds();
    let fixture = fixture(&long_function(60_000));
    let started = Instant::now();
    let outcome = fixture.run(&[]).limit(Limit::Compile, 1_000).hits(Limit::Compile);
    assert!(started.elapsed() < HANG_TIMEOUT, "{:?}", started.elapsed());
    assert_eq!(outcome.limits_hit[0].value, 1_000);
    fixture.assert_alive();
    assert_eq!(
        compilers_with(&["fast", "whole", "native", "1000"]),
        0,
        "a compiler is still running"
    );
}

#[test]
pub fn compile_memory() {
    fixture(&long_function(101)).run(&[]).limit(Limit::CompileMemory, 2 << 30).succeeds();
    let fixture = fixture(&long_function(60_001));
    for bytes in [300_000_000, 50 << 20] {
        fixture.run(&[]).limit(Limit::CompileMemory, bytes).hits(Limit::CompileMemory);
    }
    fixture.assert_alive();
}

#[test]
fn a_trap_in_a_destructor_is_reported() {
    let with = |run: &str| {
        component(&format!(
            r#"(component
                (core module $d (func (export "dtor") (param i32) unreachable))
                (core instance $d (instantiate $d))
                (type $r (resource (rep i32) (dtor (func $d "dtor"))))
                (core func $new (canon resource.new $r))
                (core func $drop (canon resource.drop $r))
                (core module $m
                    (import "" "new" (func $new (param i32) (result i32)))
                    (import "" "drop" (func $drop (param i32)))
                    (func (export "run") (result i32) {run} (i32.const 0)))
                (core instance $i (instantiate $m (with "" (instance (export "new" (func $new)) (export "drop" (func $drop))))))
                (func $run (result (result)) (canon lift (core func $i "run")))
                (instance $run (export "run" (func $run)))
                (export "wasi:cli/run@0.2.6" (instance $run)))"#
        ))
    };
    assert_trapped(&with("(call $drop (call $new (i32.const 1)))"), "unreachable");
    // Drops a handle that does not exist.
    assert_trapped(&with("(call $drop (i32.const 7))"), "unknown handle index 7");
    // A leaked resource: dropping the store runs no destructors.
    assert_eq!(
        outcome_of(&with("(drop (call $new (i32.const 1)))")).status,
        Status::Exited { code: 0 }
    );
}

/// A command that requests its arguments, with this `realloc` for their memory.
fn with_realloc(body: &str) -> Vec<u8> {
    component(&format!(
        r#"(component
            (import "wasi:cli/environment@0.2.6" (instance $env (export "get-arguments" (func (result (list string))))))
            (core module $libc (memory (export "memory") 1) (func (export "realloc") (param i32 i32 i32 i32) (result i32) {body}))
            (core instance $libc (instantiate $libc))
            (core func $args (canon lower (func $env "get-arguments") (memory $libc "memory") (realloc (func $libc "realloc"))))
            (core module $m
                (import "" "args" (func $args (param i32)))
                (func (export "run") (result i32) (call $args (i32.const 0)) (i32.const 0)))
            (core instance $i (instantiate $m (with "" (instance (export "args" (func $args))))))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#
    ))
}

#[test]
fn lying_allocator_affects_only_its_own_guest() {
    assert_eq!(outcome_of(&with_realloc("(i32.const 1024)")).status, Status::Exited { code: 0 });
    assert_trapped(&with_realloc("unreachable"), "unreachable");
    assert_trapped(&with_realloc("(i32.const 0xfffffff0)"), "beyond end of memory");
    assert_trapped(&with_realloc("(i32.const 65532)"), "beyond end of memory");
    assert_trapped(&with_realloc("(i32.const 3)"), "not aligned");
    let spinning = fixture(&with_realloc("(loop (br 0)) unreachable"));
    spinning.run(&[]).limit(Limit::Timeout, 200).hits(Limit::Timeout);
    spinning.assert_alive();
}

#[test]
fn a_trap_after_the_result_is_reported() {
    let after = component(
        r#"(component
            (core module $m (func (export "run") (result i32) (i32.const 0)) (func (export "after") (param i32) unreachable))
            (core instance $i (instantiate $m))
            (func $run (result (result)) (canon lift (core func $i "run") (post-return (func $i "after"))))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#,
    );
    assert_trapped(&after, "unreachable");
    assert_trapped(&returning("unreachable", "unreachable"), "unreachable");
}

/// An asynchronous command that returns its result and then runs further code: immediately, and on
/// each callback.
fn returning(then: &str, callback: &str) -> Vec<u8> {
    component(&format!(
        r#"(component
            (core func $return (canon task.return (result (result))))
            (core module $m
                (import "" "return" (func $return (param i32)))
                (func (export "run") (result i32) (call $return (i32.const 0)) {then})
                (func (export "callback") (param i32 i32 i32) (result i32) {callback}))
            (core instance $i (instantiate $m (with "" (instance (export "return" (func $return))))))
            (func $run async (result (result)) (canon lift (core func $i "run") async (callback (func $i "callback"))))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.3.0" (instance $run)))"#
    ))
}

#[test]
fn work_after_the_result_is_stopped() {
    const EXIT: &str = "(i32.const 0)";
    const YIELD: &str = "(i32.const 1)";
    assert_eq!(outcome_of(&returning(EXIT, EXIT)).status, Status::Exited { code: 0 });
    // Yields forever.
    let outcome = outcome_of(&returning(YIELD, YIELD));
    assert!(
        matches!(outcome.status, Status::Exited { code: 0 } | Status::LimitHit(_)),
        "{outcome:?}"
    );
    // Spins and never yields.
    let spinning = fixture(&returning("(loop (br 0)) unreachable", EXIT));
    let outcome = spinning.run(&[]).limit(Limit::Timeout, 200).go();
    assert!(
        matches!(outcome.status, Status::Exited { code: 0 } | Status::LimitHit(_)),
        "{outcome:?}"
    );
    spinning.assert_alive();
}

#[test]
fn exit_codes_are_truncated_to_a_byte() {
    let exit = component(
        r#"(component
            (import "wasi:cli/exit@0.3.0" (instance $exit (export "exit-with-code" (func (param "status-code" u8)))))
            (core func $exit (canon lower (func $exit "exit-with-code")))
            (core module $m (import "" "exit" (func $exit (param i32))) (func (export "run") (result i32) (call $exit (i32.const 300)) (i32.const 0)))
            (core instance $i (instantiate $m (with "" (instance (export "exit" (func $exit))))))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#,
    );
    assert_eq!(outcome_of(&exit).status, Status::Exited { code: 44 });
}

#[test]
fn unknown_imports_are_named() {
    let importing = |import: &str| component(&format!("(component (import {import}))"));
    assert_invalid(
        &importing(r#""evil:host/everything@1.0.0" (instance (export "open" (func)))"#),
        "evil:host/everything",
    );
    // A known name with a different type.
    assert_invalid(
        &importing(
            r#""wasi:cli/environment@0.2.6" (instance (export "get-arguments" (func (result string))))"#,
        ),
        "wasi:cli/environment",
    );
    assert_invalid(
        &importing(r#""wasi:cli/environment@0.2.6" (instance (export "set-environment" (func)))"#),
        "set-environment",
    );
}

#[test]
fn a_component_without_an_entry_point_is_reported() {
    let outcome = assert_invalid(&component("(component)"), "wasi:cli/run");
    assert!(outcome.stdout.0.is_empty());
    let library = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m)) (func (export "f") (canon lift (core func $i "f"))))"#;
    assert_invalid(&component(library), "it exports f");
}

#[test]
fn files_that_are_not_components_are_not_run() {
    assert_invalid(b"", "not a WebAssembly file");
    assert_invalid(b"#!/bin/sh\necho out of the sandbox\n", "not a WebAssembly file");
    assert_invalid(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", "not a WebAssembly file");
    assert_invalid(b"(component)", "not a WebAssembly file");
    assert_invalid(b"\0asm", "version");
    assert_invalid(b"\0asm\x02\0\0\0", "version");
    let outcome = assert_invalid(&wat::parse_str("(module)").unwrap(), "core module");
    assert!(matches!(outcome.status, Status::Invalid { fix: Some(_), .. }));
    // Native code is not a component either.
    let mut elf = vec![0; 4096];
    elf[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\xc8\0\0\0\0\0\0\0\0\x01\0>\0");
    assert_invalid(&elf, "not a WebAssembly file");
}

#[test]
fn truncated_components_do_not_run() {
    let complete = hostile();
    let fixture = fixture(b"");
    for eighth in 0..8 {
        let cut = &complete[..(complete.len() * eighth / 8).max(8) + eighth];
        fixture.replace_component(cut);
        let outcome = fixture.run(&["verbs"]).go();
        assert!(
            matches!(outcome.status, Status::Invalid { .. }),
            "cut at {}: {outcome:?}",
            cut.len()
        );
    }
    fixture.assert_alive();
}

#[test]
fn noise_after_a_valid_header_does_not_run() {
    use proptest::prelude::RngExt as _;
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let fixture = fixture(b"");
    for _ in 0..30 {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        let length = random.random_range(1..2000);
        bytes.extend((0..length).map(|_| random.random::<u8>()));
        fixture.replace_component(&bytes);
        let outcome = fixture.run(&[]).go();
        assert!(matches!(outcome.status, Status::Invalid { .. }), "{bytes:?}: {outcome:?}");
    }
    fixture.assert_alive();
}

#[test]
fn bit_flips_in_components_do_not_harm_the_host() {
    use proptest::prelude::RngExt as _;
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let fixture = fixture(b"");
    let original =
        command("(memory 1) (func (export \"run\") (result i32) (i32.load (i32.const 100)))");
    for _ in 0..60 {
        let mut bytes = original.clone();
        for _ in 0..2 {
            let at = random.random_range(8..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
        }
        fixture.replace_component(&bytes);
        // Any outcome is fine as long as the host reports it and continues.
        fixture.run(&[]).limit(Limit::Timeout, 5_000).limit(Limit::CompileMemory, 1 << 30).go();
    }
    fixture.assert_alive();
}

/// A command that keeps its output in memory, like the built-in Python: `$announce` and `$flush`
/// are the functions of the host, and `$write` stores the two counters at the buffer's start.
fn keeps_lines(run: &str) -> Vec<u8> {
    component(&format!(
        r#"(component
            (import "skillhost:python/lines@0.1.0" (instance $lines
                (export "announce" (func (param "buffer" (list u8))))
                (export "flush" (func (result (result))))))
            (core module $memory (memory (export "memory") 1)
                (data (i32.const 1040) "helloworld"))
            (core instance $memory (instantiate $memory))
            (alias core export $memory "memory" (core memory $memory))
            (core func $announce (canon lower (func $lines "announce") (memory $memory)))
            (core func $flush (canon lower (func $lines "flush")))
            (core module $m
                (import "lines" "announce" (func $announce (param i32 i32)))
                (import "lines" "flush" (func $flush (result i32)))
                (import "memory" "memory" (memory 1))
                (func $write (param i64 i64)
                    (i64.store (i32.const 1024) (local.get 0))
                    (i64.store (i32.const 1032) (local.get 1)))
                (func (export "run") (result i32) {run}))
            (core instance $functions
                (export "announce" (func $announce)) (export "flush" (func $flush)))
            (core instance $i (instantiate $m
                (with "lines" (instance $functions)) (with "memory" (instance $memory))))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.6" (instance $run)))"#
    ))
}

#[test]
pub fn kept_output_is_passed_on_once_however_the_guest_ends() {
    let announce = "(call $announce (i32.const 1024) (i32.const 26))";
    let printed = |run: &str| outcome_of(&keeps_lines(run)).stdout.text().into_owned();
    for end in [
        "(i32.const 0)",
        "(i32.const 1)",
        "unreachable",
        "(loop $l (br $l)) unreachable",
        "(call $flush)",
        "(drop (call $flush)) (drop (call $flush)) unreachable",
        // What was passed on is not passed on again.
        "(drop (call $flush)) (call $write (i64.const 0) (i64.const 4)) (call $flush)",
        "(drop (call $flush)) (call $write (i64.const 5) (i64.const 5)) (call $flush)",
        // Counters that do not fit the buffer or each other.
        "(drop (call $flush)) (call $write (i64.const 0) (i64.const -1)) (call $flush)",
        "(drop (call $flush)) (call $write (i64.const -1) (i64.const 5)) unreachable",
        "(drop (call $flush)) (call $write (i64.const 0) (i64.const 11)) (call $flush)",
        // Only the first buffer counts.
        "(call $announce (i32.const 2048) (i32.const 26)) (i32.const 0)",
    ] {
        let run = format!("{announce} (call $write (i64.const 0) (i64.const 5)) {end}");
        assert_eq!(printed(&run), "hello", "{end}");
    }
    let more = "(call $write (i64.const 0) (i64.const 5)) (drop (call $flush))
        (call $write (i64.const 0) (i64.const 10)) unreachable";
    assert_eq!(printed(&format!("{announce} {more}")), "helloworld");
    assert_eq!(printed("(call $flush)"), "", "there is no buffer");
    assert_trapped(
        &keeps_lines("(call $announce (i32.const 65536) (i32.const 26)) (i32.const 0)"),
        "out of bounds",
    );
}

#[test]
pub fn kept_output_counts_towards_the_limit() {
    let endless = "(local i64) (call $announce (i32.const 1024) (i32.const 26))
        (loop $l
            (call $write (local.get 0) (i64.add (local.get 0) (i64.const 10)))
            (local.set 0 (i64.add (local.get 0) (i64.const 10)))
            (br_if $l (i32.eqz (call $flush))))
        (i32.const 1)";
    let component = keeps_lines(endless);
    let run = fixture(&component).run(&[]).limit(Limit::Stdout, 10_001).go();
    assert_eq!(run.stdout.0.len(), 10_001);
    fixture(&component).run(&[]).limit(Limit::Stdout, 10_001).hits(Limit::Stdout);
    let waiting = "(call $announce (i32.const 1024) (i32.const 26))
        (call $write (i64.const 0) (i64.const 10)) (loop $l (br $l)) unreachable";
    fixture(&keeps_lines(waiting)).run(&[]).limit(Limit::Stdout, 9).hits(Limit::Stdout);
}
