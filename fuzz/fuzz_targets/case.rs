//! case.yaml. Seeds: the cases in `tests/cases/case`.
//!
//!     cargo +nightly fuzz run case -- -max_len=16384 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &str| targets::case(input));
