//! A listing, as `skillhost verify` reads it. Seeds: whatever `skillhost run --listing` writes,
//! signed or not.
//!
//!     cargo +nightly fuzz run listing -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::listing(input));
