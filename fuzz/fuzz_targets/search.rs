//! Queries for skills. Seeds: the questions in `tests/search/queries.txt`, and what is syntax to
//! SQLite's full text search.
//!
//!     cargo +nightly fuzz run search -- -max_len=4096 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &str| targets::search(input));
