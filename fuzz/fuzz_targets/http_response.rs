//! What a web server answers, as the sender reads it. Seeds: the answers in `tests/fuzz.rs`.
//!
//!     cargo +nightly fuzz run http_response -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::http_response(input));
