//! SKILL.md from any bytes. Seeds: the cases in `tests/cases/skill`.
//!
//!     mkdir -p fuzz/corpus/skill_md && for f in tests/cases/skill/*/*/SKILL.md; do cp "$f" "fuzz/corpus/skill_md/$(sha1sum < "$f" | cut -c1-16)"; done
//!     cargo +nightly fuzz run skill_md -- -max_len=65536 -timeout=5
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillhost::diagnostic::{Span, render};
use skillhost::skill::manifest::parse;

fuzz_target!(|bytes: &[u8]| {
    let parsed = parse(bytes, "folder", "SKILL.md");
    assert!(parsed.source.is_char_boundary(parsed.body_offset));
    for span in parsed.diagnostics.iter().filter_map(|d| d.span) {
        assert!(parsed.source.get(span.offset..span.offset + span.length).is_some());
        assert_eq!(span, Span::at(&parsed.source, span.offset, span.length));
    }
    if let Some(manifest) = parsed.manifest.filter(|m| m.recovered) {
        assert_eq!(manifest.allowed_tools, Some(vec![]));
        assert!(manifest.component.is_none() && manifest.metadata.is_empty() && manifest.limits.is_empty());
    }
    render(&parsed.diagnostics, &parsed.source);
});
