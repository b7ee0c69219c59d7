//! policy.yaml and the entries of allowed-tools from any text; then the two met, and the result explained.
//!
//!     cargo +nightly fuzz run policy -- -max_len=16384 -timeout=5
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| skillhost::policy::exercise(text));
