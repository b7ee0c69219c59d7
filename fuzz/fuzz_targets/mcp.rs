//! What a client sends to the server for agents. Seeds: the messages in `tests/fuzz.rs`.
//!
//!     cargo +nightly fuzz run mcp -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::mcp(input));
