//! SKILL.md. Seeds: the cases in `tests/cases/skill`.
//!
//!     mkdir -p fuzz/corpus/skill_md && for f in tests/cases/skill/*/*/SKILL.md; do cp "$f" "fuzz/corpus/skill_md/$(sha1sum < "$f" | cut -c1-16)"; done
//!     cargo +nightly fuzz run skill_md -- -max_len=65536 -timeout=5
#![no_main]

#[allow(dead_code, reason = "each target is a program of its own")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::skill_md(input));
