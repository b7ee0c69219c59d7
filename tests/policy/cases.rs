//! Policy files with their expected diagnostics: `tests/cases/policy/*.yaml` and `*.expected`.
//! `BLESS=1` rewrites the expectations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use skillhost_policy::determinism::show_start_time;
use skillhost_policy::{Layer, MountRule, Preload, load, schema};

fn folder() -> PathBuf {
    Path::new(crate::ROOT).join("tests/cases/policy")
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    cases.retain(|p| p.extension().is_some_and(|e| e == "yaml"));
    cases.sort();
    assert!(cases.len() > 10, "cases are missing");
    cases
}

fn verdict(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let mut out = String::new();
    match load(path, &text, Some(Path::new("/home/op"))) {
        Ok(policy) => {
            for authority in &policy.authorities {
                writeln!(out, "authority {} {}", authority.file.display(), authority.digest)
                    .unwrap();
            }
            if !policy.usage {
                writeln!(out, "usage: false").unwrap();
            }
            if policy.preload != Preload::Nothing {
                writeln!(out, "preload {:?}", policy.preload).unwrap();
            }
            policy.layers.iter().for_each(|layer| out.push_str(&describe(layer)));
        }
        Err(error) => {
            for d in error.diagnostics {
                let at = d.span.map_or(String::new(), |s| format!(":{}:{}", s.line, s.column));
                writeln!(out, "{}{at}: {}: {}", d.file, d.rule, d.message).unwrap();
                if let Some(fix) = d.fix {
                    writeln!(out, "    fix: {fix}").unwrap();
                }
            }
        }
    }
    out.replace(&format!("{}/", folder().display()), "")
}

fn describe(layer: &Layer) -> String {
    let mut out =
        format!("for {}:\n", layer.applies_to.as_ref().map_or("all", |glob| glob.pattern()));
    for (list, rules) in [("allow", &layer.allow), ("deny", &layer.deny)] {
        for rule in rules {
            writeln!(out, "  {}: {list} {}", rule.place, rule.text).unwrap();
        }
    }
    for MountRule { mount, place } in &layer.mounts {
        writeln!(
            out,
            "  {place}: mount {} at {} ({:?})",
            mount.host.display(),
            mount.guest,
            mount.mode
        )
        .unwrap();
    }
    for rule in &layer.env {
        writeln!(out, "  {}: env {} {:?}", rule.place, rule.name, rule.value).unwrap();
    }
    let of = layer.determinism;
    for (key, value) in [
        ("deterministic", of.on.map(|on| on.to_string())),
        ("seed", of.seed.map(|n| n.to_string())),
        ("start-time", of.start_time.map(show_start_time)),
    ] {
        if let Some(value) = value {
            out.push_str(&format!("  {key}: {value}\n"));
        }
    }
    for rule in &layer.limits {
        writeln!(out, "  {}: limit {} {}", rule.place, rule.limit, rule.limit.show(rule.value))
            .unwrap();
    }
    if let Some(disclosure) = layer.disclosure {
        writeln!(out, "  disclosure {}", disclosure.name()).unwrap();
    }
    for (tool, disclosure) in &layer.tools {
        writeln!(out, "  tool {tool} {}", disclosure.name()).unwrap();
    }
    if let Some(methods) = &layer.methods {
        writeln!(out, "  methods {}", methods.join(" ")).unwrap();
    }
    out
}

#[test]
fn policy_cases_match_their_expectations() {
    let mut wrong = Vec::new();
    for case in cases() {
        let (found, expected) = (verdict(&case), case.with_extension("expected"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &found).unwrap();
        } else if std::fs::read_to_string(&expected).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "BLESS=1 accepts:\n{}", wrong.join("\n"));
}

#[test]
fn schema_and_reader_agree_on_keys_and_types() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for case in cases() {
        let text = std::fs::read_to_string(&case).unwrap();
        let Ok(json) = serde_saphyr::from_str::<serde_json::Value>(&text) else { continue };
        let errors = load(&case, &text, Some(Path::new("/home/op")))
            .err()
            .map_or(Vec::new(), |e| e.diagnostics);
        let structural = ["policy-key", "policy-type", "policy-method", "policy-skill-name"];
        if errors.is_empty() {
            assert!(
                validator.is_valid(&json),
                "{}: {:?}",
                case.display(),
                validator.iter_errors(&json).next()
            );
        } else if errors.iter().any(|d| structural.contains(&d.rule)) {
            assert!(!validator.is_valid(&json), "{}", case.display());
        }
    }
}

#[test]
fn reader_knows_each_key_of_the_schema() {
    /// Writes a file with one key, below those that lead to it.
    fn check(node: &serde_json::Value, before: &str, after: &str, seen: &mut usize) {
        let properties = node["properties"].as_object().into_iter().flatten();
        for (key, below) in properties.map(|(key, below)| (key.as_str(), below)) {
            let text = format!("{before}{{ {key}: }}{after}");
            let found = load(Path::new("policy.yaml"), &text, None).err();
            let is_unknown =
                found.is_some_and(|e| e.diagnostics.iter().any(|d| d.rule == "policy-key"));
            assert!(!is_unknown, "{text}");
            *seen += 1;
            let (before, after) = (format!("{before}{{ {key}: "), format!(" }}{after}"));
            check(below, &before, &after, seen);
            check(&below["items"], &format!("{before}["), &format!("]{after}"), seen);
            check(
                &below["additionalProperties"],
                &format!("{before}{{ x: "),
                &format!(" }}{after}"),
                seen,
            );
        }
    }
    let mut seen = 0;
    check(&schema(), "", "", &mut seen);
    assert!(seen > 100, "{seen}");
    let unknown = load(Path::new("policy.yaml"), "{ colour: }", None).unwrap_err();
    assert_eq!(unknown.diagnostics[0].rule, "policy-key");
}

#[test]
fn documented_policy_loads_and_matches_the_schema() {
    let page =
        std::fs::read_to_string(Path::new(crate::ROOT).join("docs/reference/policy.md")).unwrap();
    let blocks: Vec<&str> =
        page.split("```yaml\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for block in blocks {
        let policy = load(Path::new("policy.yaml"), block, Some(Path::new("/home/op")));
        assert!(policy.is_ok(), "{policy:#?}");
        let json: serde_json::Value = serde_saphyr::from_str(block).unwrap();
        assert!(validator.is_valid(&json), "{:?}", validator.iter_errors(&json).next());
    }
}

#[test]
fn policies_over_1_mib_are_rejected() {
    let text = format!("# {}\ndefault: {{}}\n", "x".repeat(1 << 20));
    assert_eq!(load(Path::new("p"), &text, None).unwrap_err().diagnostics[0].rule, "policy-size");
}

#[test]
fn alias_bombs_are_rejected() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 0..8 {
        let (this, last) = (char::from(b'b' + i), char::from(b'a' + i));
        writeln!(text, "{this}: &{this} [{}]", vec![format!("*{last}"); 10].join(", ")).unwrap();
    }
    assert!(load(Path::new("p"), &text, None).is_err());
    let deep = format!("default: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(load(Path::new("p"), &deep, None).is_err());
}
