//! A script of a skill from any text: read as Python, as shell and as SKILL.md, and judged. Seeds: the cases in `tests/cases/compat`.
//!
//!     mkdir -p fuzz/corpus/compat && find tests/cases/compat -name '*.py' -o -name '*.sh' -o -name SKILL.md | while read f; do cp "$f" "fuzz/corpus/compat/$(sha1sum < "$f" | cut -c1-16)"; done
//!     cargo +nightly fuzz run compat -- -max_len=65536 -timeout=5
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| skillhost::compat::exercise(text));
