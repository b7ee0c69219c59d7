//! A guest's URL.
//!
//!     cargo +nightly fuzz run address -- -max_len=2048 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &str| targets::address(input));
