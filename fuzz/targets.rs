//! What each fuzz target does with its input. `cargo test` runs them too, over the cases of tests/cases and what is made of those.

use std::path::Path;
use std::sync::LazyLock;

use skillhost::catalog::{Catalog, Query, Source, SourceKind};
use skillhost::diagnostic::{Span, render};
use skillhost::receipt::compare::differences;
use skillhost::receipt::envelope::Document;
use skillhost::receipt::key::SigningKey;
use skillhost::recording::folder;
use skillhost::sandbox::http::target::target;
use skillhost::skill::manifest::parse;

/// SKILL.md from any bytes.
pub fn skill_md(bytes: &[u8]) {
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
}

/// policy.yaml and the entries of allowed-tools from any text; then the two met, and the result explained.
pub fn policy(text: &str) {
    skillhost::policy::exercise(text);
}

/// A guest's URL from any text: whatever is let through says one host, in one spelling.
pub fn address(text: &str) {
    let Ok(uri) = text.parse::<http::Uri>() else { return };
    if let Ok(to) = target(&uri) {
        assert!(!to.host.is_empty() && !to.host.contains(['@', '%', '/', '[', ']']) && !to.host.ends_with('.'));
        assert_eq!(to.host, to.host.to_ascii_lowercase());
    }
}

/// A script of a skill from any text: read as Python, as shell and as SKILL.md, and judged.
pub fn compat(text: &str) {
    skillhost::compat::exercise(text);
}

/// A component's listing of its tools from any bytes, as a component and as the section of one; as a schema and a value that it judges too.
pub fn listing(bytes: &[u8]) {
    skillhost::sandbox::exercise(bytes);
}

/// A receipt from any bytes: nobody is taken for its signer, and it differs from nothing but others.
pub fn receipt(bytes: &[u8]) {
    let Ok(document) = Document::read(bytes) else { return };
    assert!(document.signer(&[SigningKey::generate().public()]).is_err());
    assert!(differences(&document.receipt, &document.receipt).is_empty());
    for difference in differences(&document.receipt, &serde_json::json!({ "version": 1, "result": { "stdout": { "head": "x" } } })) {
        difference.about();
    }
}

/// A recording's text from any bytes, and the same with a digest that fits: whatever is taken for one names nothing outside of it.
pub fn recording(bytes: &[u8]) {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    if let Some(fields) = value.as_object_mut() {
        fields.remove("digest");
        let digest = folder::digest(&value);
        value["digest"] = digest.into();
    }
    for text in [bytes.to_vec(), folder::text(&value).unwrap_or_default()] {
        let Ok(recording) = folder::parse(&text) else { continue };
        let plain = |path: &str| path.split('/').all(|name| !name.is_empty() && name != "." && name != ".." && !name.contains('\0'));
        assert!(plain(&recording.skill) && !recording.skill.contains('/'));
        assert!(recording.folders.iter().flat_map(|folder| &folder.entries).all(|entry| plain(&entry.path)));
    }
}

/// What skills are searched for, from any text, among those of this repository: it is answered, with no more than was asked for.
pub fn search(text: &str) {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../skills");
        Catalog::open(vec![Source { folder, kind: SourceKind::User }], None).expect("the skills of this repository")
    });
    for limit in [0, 3, 100] {
        let hits = CATALOG.search(&Query { text: text.into(), limit, ..Query::default() });
        let hits = hits.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert!(hits.len() <= limit && hits.iter().all(|hit| hit.score.is_finite()));
        assert!(hits.windows(2).all(|two| two[0].score >= two[1].score && two[0].entry.name != two[1].entry.name));
    }
}
