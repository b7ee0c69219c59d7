//! Archives of skills. Seeds: the files of `tests/cases/archive`.
//!
//!     cargo +nightly fuzz run archive -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::archive(input));
