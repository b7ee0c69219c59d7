//! A script of a skill. Seeds: the cases in `tests/cases/compat`.
//!
//!     mkdir -p fuzz/corpus/compat && find tests/cases/compat -name '*.py' -o -name '*.sh' -o -name '*.[cm]js' -o -name '*.ts' -o -name SKILL.md | while read f; do cp "$f" "fuzz/corpus/compat/$(sha1sum < "$f" | cut -c1-16)"; done
//!     cargo +nightly fuzz run compat -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &str| targets::compat(input));
