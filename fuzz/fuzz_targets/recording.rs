//! The text of a recording, as `skillhost replay` reads it. Seeds: whatever
//! `skillhost run --record` writes as `recording.json`.
//!
//!     cargo +nightly fuzz run recording -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::recording(input));
