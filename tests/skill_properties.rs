//! Properties that hold for every SKILL.md, well-formed or not.

use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use skillhost_policy::diagnostic::{Severity, Span, is_hidden, render};
use skillhost_policy::limits::Limit;
use skillhost_policy::manifest::{Manifest, SkillMd, parse};

const VALID: &str = "---\nname: folder\ndescription: >-\n  Does a thing.\n  Use it.\nlicense: \"Apache-2.0\"\ncompatibility: 'Needs jq'\n\
                     allowed-tools: Read, \"Bash(git *)\" Write(out/**)\nmetadata: {component: a/b.wasm, timeout: 30s, memory: 64MiB}\n---\n# Body\n\n---\n";

proptest! {
    #[test]
    fn parser_accepts_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        holds(&bytes)?;
    }

    #[test]
    fn parser_accepts_any_text_between_fences(text in yaml_like(), end in "(\n---\n|\r\n---\r\n|)", bom in "\u{feff}?") {
        holds(format!("{bom}---\n{text}{end}body").as_bytes())?;
    }

    #[test]
    fn parser_accepts_any_edit_of_a_valid_file(at in 0..VALID.len(), removed in 0..20usize, added in proptest::collection::vec(any::<u8>(), 0..6)) {
        let end = (at + removed).min(VALID.len());
        holds(&[&VALID.as_bytes()[..at], &added, &VALID.as_bytes()[end..]].concat())?;
    }

    #[test]
    fn parser_accepts_any_rearrangement_of_a_valid_file(lines in proptest::collection::vec(proptest::sample::select(VALID.lines().collect::<Vec<_>>()), 0..20)) {
        holds(format!("---\n{}\n", lines.join("\n")).as_bytes())?;
    }

    #[test]
    fn valid_manifests_round_trip(manifest in manifest()) {
        let parsed = parse(written(&manifest).as_bytes(), &manifest.name, "SKILL.md");
        prop_assert!(parsed.diagnostics.iter().all(|d| d.severity != Severity::Error), "{:?}", parsed.diagnostics);
        let mut read = parsed.manifest.unwrap();
        for entry in read.allowed_tools.iter_mut().flatten() {
            prop_assert!(entry.span.take().is_some());
        }
        prop_assert_eq!(read, manifest);
        prop_assert_eq!(&parsed.source[parsed.body_offset..], "Body.\n");
    }
}

/// The invariants of every result.
fn holds(bytes: &[u8]) -> Result<(), TestCaseError> {
    let SkillMd { manifest, diagnostics, source, body_offset, component_span } =
        parse(bytes, "folder", "SKILL.md");
    prop_assert!(source.is_char_boundary(body_offset));
    let entries = manifest.iter().flat_map(|m| m.allowed_tools.iter().flatten()).map(|e| e.span);
    for span in diagnostics.iter().map(|d| d.span).chain(entries).chain([component_span]).flatten()
    {
        prop_assert!(
            source
                .get(span.offset..span.offset + span.length)
                .is_some_and(|text| !text.contains('\n')),
            "{:?} in {:?}",
            span,
            source
        );
        prop_assert_eq!(Span::at(&source, span.offset, span.length), span);
    }
    if let Some(manifest) = &manifest {
        prop_assert!(!manifest.name.is_empty());
        prop_assert!(
            manifest
                .component
                .as_ref()
                .is_none_or(|c| !c.starts_with('/') && c.split('/').all(|part| part != ".."))
        );
        if manifest.recovered {
            let (name, description) = (manifest.name.clone(), manifest.description.clone());
            let nothing = Manifest {
                name,
                description,
                allowed_tools: Some(vec![]),
                recovered: true,
                user_only: manifest.user_only,
                agent_only: manifest.agent_only,
                ..Manifest::default()
            };
            prop_assert_eq!(manifest, &nothing);
        }
    } else {
        prop_assert!(diagnostics.iter().any(|d| d.severity == Severity::Error));
    }
    render(&diagnostics, &source);
    Ok(())
}

/// Text made of YAML syntax and fragments of fields.
fn yaml_like() -> impl Strategy<Value = String> {
    let tokens = [
        "name: ",
        "description: ",
        "allowed-tools: ",
        "metadata:",
        "component: ",
        "timeout: ",
        "- ",
        "\n",
        "\n",
        "\n  ",
        "\r\n",
        "\t",
        " ",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "|",
        ">-",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "? ",
        ": ",
        ",",
        "#",
        "---",
        "...",
        "%YAML 1.2",
        "Read",
        "Bash(git *)",
        "(",
        ")",
        "../x",
        "30s",
        "~",
        "é",
        "\0",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\\",
        "@",
        "`",
    ];
    proptest::collection::vec(proptest::sample::select(tokens.to_vec()), 0..40)
        .prop_map(|tokens| tokens.concat())
}

fn manifest() -> impl Strategy<Value = Manifest> {
    let name = "[a-z0-9]{1,10}(-[a-z0-9]{1,10}){0,3}";
    let text = "[^\\s\\p{C}]([^\\p{C}]{0,60}[^\\s\\p{C}])?";
    let tool = prop_oneof![
        "[A-Z][a-z]{1,8}",
        "[A-Z][a-z]{1,8}\\([a-z0-9 ,:*&/\"'.]{0,20}\\)",
        "mcp__[a-z]{1,5}__[a-z*]{1,5}"
    ];
    let tools = proptest::option::of(proptest::collection::vec(tool, 0..6));
    let limits = (proptest::option::of(1..u64::MAX >> 24), proptest::option::of(0..u64::MAX));
    let metadata = proptest::collection::btree_map("x-[a-z]{1,8}", text, 0..4);
    let component = proptest::option::of("[a-z]{1,8}(/[a-z]{1,8}){0,2}\\.wasm");
    (
        name,
        text.prop_filter("shows everything", |text| !text.chars().any(is_hidden)),
        proptest::option::of(text),
        proptest::option::of(text),
        tools,
        limits,
        metadata,
        component,
    )
        .prop_map(
            |(
                name,
                description,
                license,
                compatibility,
                tools,
                (timeout, fuel),
                mut metadata,
                component,
            )| {
                let mut limits = BTreeMap::new();
                for (limit, value) in [(Limit::Timeout, timeout), (Limit::Fuel, fuel)] {
                    let Some(value) = value else { continue };
                    metadata.insert(limit.key().into(), limit.show(value));
                    limits.insert(limit, value);
                }
                metadata.extend(component.iter().map(|c| ("component".to_owned(), c.clone())));
                let entry = |text| skillhost_policy::manifest::ToolEntry { text, span: None };
                let allowed_tools = tools.map(|tools| tools.into_iter().map(entry).collect());
                Manifest {
                    name,
                    description,
                    license,
                    compatibility,
                    metadata,
                    allowed_tools,
                    component,
                    limits,
                    ..Manifest::default()
                }
            },
        )
}

fn written(manifest: &Manifest) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = format!(
        "---\nname: {}\ndescription: {}\n",
        quoted(&manifest.name),
        quoted(&manifest.description)
    );
    for (field, value) in
        [("license", &manifest.license), ("compatibility", &manifest.compatibility)]
    {
        out += &value.as_ref().map(|v| format!("{field}: {}\n", quoted(v))).unwrap_or_default();
    }
    if let Some(tools) = &manifest.allowed_tools {
        let tools: Vec<&str> = tools.iter().map(|t| t.text.as_str()).collect();
        out += &format!("allowed-tools: {}\n", quoted(&tools.join(" ")));
    }
    if !manifest.metadata.is_empty() {
        out += "metadata:\n";
        manifest
            .metadata
            .iter()
            .for_each(|(key, value)| out += &format!("  {key}: {}\n", quoted(value)));
    }
    out + "---\nBody.\n"
}

#[test]
fn hostile_skill_files_are_parsed_in_bounded_time() {
    let repeated = [
        "x",
        "( ",
        "\" '",
        "[",
        "{a: ",
        "- ",
        "? ",
        ": ",
        "a: ",
        "&a ",
        "*a ",
        "'",
        "\"\\",
        "| ",
        "#",
        "\t",
        "a\n",
        "- a\n",
        "a: b\n",
        "name:\n",
        "description:\n a\n",
        "\n",
        "\r\n",
        "--- ",
        "---\r\n",
        "\0",
        "é",
        "<<: *a\n",
        "!a ",
        "%a ",
        "a,",
        "a: [",
        "a: |\n",
        " x: \"",
        ",",
        "\u{feff}",
    ];
    let heads = [
        "",
        "---\n",
        "---\nallowed-tools: ",
        "---\nallowed-tools: [",
        "---\nmetadata:\n ",
        "---\ndescription: \"",
        "---\nx: a: b\n",
    ];
    for (head, text) in heads.into_iter().flat_map(|head| repeated.map(|text| (head, text))) {
        // The maximum length of a frontmatter, and the maximum size of SKILL.md for the body.
        let size = if head.is_empty() { 1 << 20 } else { 60_000 };
        let file = format!("{head}{}\n---\n", text.repeat(size / text.len()));
        let start = Instant::now();
        let parsed = parse(file.as_bytes(), "folder", "SKILL.md");
        let shown = render(&parsed.diagnostics, &parsed.source);
        let took = start.elapsed();
        assert!(
            took < crate::hostile_host::HANG_TIMEOUT,
            "{took:?} for {head:?} and {text:?} repeated"
        );
        assert!(
            shown.len() < 200_000,
            "{} bytes of snippets for {head:?} and {text:?} repeated",
            shown.len()
        );
    }
}
