//! Files `case.yaml` with what they mean, or what is wrong with them: `tests/cases/case/*.yaml` and
//! `*.expected`. `BLESS=1` rewrites the expectations.

use std::fmt::Write as _;
use std::path::PathBuf;

use skillhost_policy::case::{
    Case, Content, Expected, ExpectedFile, Observed, ObservedFile, is_case_name, parse, schema,
};

use crate::support::{files, pinned, repository, stem};

fn cases() -> Vec<PathBuf> {
    let mut cases = files(&repository("tests/cases/case"));
    cases.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    assert!(cases.len() > 10, "cases are missing");
    cases
}

fn meaning(name: &str, text: &str) -> String {
    let error = match parse(text, &format!("{name}.yaml")) {
        Ok(case) => return format!("{case:#?}\n"),
        Err(error) => error,
    };
    let mut out = String::new();
    for found in error.diagnostics {
        let at = found.span.map_or(String::new(), |span| format!(":{}:{}", span.line, span.column));
        writeln!(out, "{}{at}: {}: {}", found.file, found.rule, found.message).unwrap();
        if let Some(fix) = found.fix {
            writeln!(out, "    fix: {}", fix.replace('\n', "\n         ")).unwrap();
        }
    }
    out
}

#[test]
fn test_cases_match_their_expectations() {
    let wrong: Vec<String> = cases()
        .into_iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            pinned(&path.with_extension("expected"), &meaning(&stem(&path), &text)).err()
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn schema_and_reader_of_test_cases_agree() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut accepted = 0;
    for path in cases() {
        let text = std::fs::read_to_string(&path).unwrap();
        let Ok(json @ serde_json::Value::Object(_)) = serde_saphyr::from_str(&text) else {
            continue;
        };
        let (shown, is_valid) = (path.display(), validator.is_valid(&json));
        match parse(&text, "case.yaml") {
            Ok(_) => {
                accepted += 1;
                assert!(is_valid, "{shown}: {:?}", validator.iter_errors(&json).next());
            }
            Err(error) => {
                let is_structural = |rule: &str| ["case-key", "case-type"].contains(&rule);
                if error.diagnostics.iter().any(|found| is_structural(found.rule)) {
                    assert!(!is_valid, "{shown}");
                }
            }
        }
    }
    assert!(accepted >= 2);
}

#[test]
fn test_cases_over_1_mib_are_rejected() {
    let text = format!("# {}\nscript: a.py\n", "x".repeat(1 << 20));
    assert_eq!(parse(&text, "case.yaml").unwrap_err().diagnostics[0].rule, "case-size");
    let mut bomb = String::from("input: { a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 0..8 {
        let (this, last) = (char::from(b'b' + i), char::from(b'a' + i));
        writeln!(bomb, ", {this}: &{this} [{}]", vec![format!("*{last}"); 10].join(", ")).unwrap();
    }
    assert!(parse(&(bomb + "}\n"), "case.yaml").is_err());
    let many = format!("expect: {{ stdout: {{ contains: [{}] }} }}", "x, ".repeat(101));
    assert_eq!(parse(&many, "case.yaml").unwrap_err().diagnostics[0].rule, "case-size");
    assert!(parse(&many.replacen("x, ", "", 1), "case.yaml").is_ok());
    let deep = format!("input: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(parse(&deep, "case.yaml").is_err());
}

#[test]
fn names_of_cases_are_names_of_folders() {
    for name in ["a", "report", "not-a-table", "v1.2_x", &"a".repeat(64)] {
        assert!(is_case_name(name), "{name}");
    }
    for name in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\u{1b}", &"a".repeat(65)] {
        assert!(!is_case_name(name), "{name:?}");
    }
}

/// What differs, as `what: expected / found`.
fn differences(expect: &str, found: &Observed) -> Vec<String> {
    let case = parse(&format!("script: a\nexpect:\n{expect}"), "case.yaml").unwrap();
    let differences = case.expect.differences(found).into_iter();
    differences.map(|one| format!("{}: {} / {}", one.what, one.expected, one.found)).collect()
}

#[test]
fn what_a_case_does_not_mention_must_be_empty() {
    let nothing = Observed::default();
    assert_eq!(Case::default().expect.differences(&nothing), []);
    let found = Observed {
        exit: 1,
        stdout: b"out\n".to_vec(),
        stderr: b"err\n".to_vec(),
        result: Some(1.into()),
        error: Some("no".into()),
        files: [("f".to_owned(), ObservedFile::Removed)].into(),
        denials: vec!["read /x".into()],
    };
    let differences = Case::default().expect.differences(&found);
    let what: Vec<&str> = differences.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(what, ["exit code", "stdout", "stderr", "result", "error", "f", "denials"]);
}

#[test]
fn texts_match_exactly_except_for_one_missing_line_end() {
    let out = |text: &str| Observed { stdout: text.into(), ..Observed::default() };
    for (expected, found, is_equal) in [
        ("stdout: a", "a", true),
        ("stdout: a", "a\n", true),
        ("stdout: a", "a\n\n", false),
        ("stdout: \"a\\n\"", "a\n", true),
        ("stdout: \"a\\n\"", "a", false),
        ("stdout: \"\"", "\n", false),
        ("stdout: { contains: b }", "abc", true),
        ("stdout: { contains: [a, d] }", "abc", false),
        ("stdout: { contains: [] }", "anything", true),
        (
            "stdout: { sha256: ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad }",
            "abc",
            true,
        ),
    ] {
        let differences = differences(&format!("  {expected}\n"), &out(found));
        assert_eq!(differences.is_empty(), is_equal, "{expected} {found:?}: {differences:?}");
    }
}

#[test]
fn files_are_compared_by_what_became_of_them() {
    let files = |file: ObservedFile| Observed {
        files: [("f".to_owned(), file)].into(),
        ..Observed::default()
    };
    let text = |text: &str| ObservedFile::Content(text.into());
    let large = ObservedFile::Large { bytes: 9, digest: "0".repeat(64) };
    assert_eq!(differences("  files: { f: a }", &files(text("a\n"))), [""; 0]);
    assert_eq!(
        differences("  files: { f: { removed: true } }", &files(ObservedFile::Removed)),
        [""; 0]
    );
    assert_eq!(
        differences("  files: { f: { link: x } }", &files(ObservedFile::Link("x".into()))),
        [""; 0]
    );
    assert_eq!(
        differences(
            &format!("  files: {{ f: {{ sha256: {} }} }}", "0".repeat(64)),
            &files(large.clone())
        ),
        [""; 0]
    );
    assert_eq!(
        differences("  files: { f: { link: x } }", &files(ObservedFile::Link("y".into()))),
        ["f: a symlink to x / a symlink to y"]
    );
    assert_eq!(
        differences("  files: { f: { removed: true } }", &Observed::default()),
        ["f: removed / not changed"]
    );
    assert_eq!(differences("  files: { f: a }", &files(large)).len(), 1);
}

#[test]
fn denials_are_compared_in_any_order() {
    let found = Observed { denials: vec!["b".into(), "a".into()], ..Observed::default() };
    assert_eq!(differences("  denials: [a, b]", &found), [""; 0]);
    assert_eq!(differences("  denials: [a, a]", &found).len(), 1);
}

#[test]
fn expectations_of_a_run_are_those_that_it_meets() {
    let found = Observed {
        stdout: vec![b'x'; (64 << 10) + 1],
        stderr: vec![0xff],
        files: [("f".to_owned(), ObservedFile::Link("x".into()))].into(),
        ..Observed::default()
    };
    let expected = Expected::of(&found);
    assert!(matches!(
        (&expected.stdout, &expected.stderr),
        (Content::Digest(_), Content::Digest(_))
    ));
    assert_eq!(expected.files["f"], ExpectedFile::Link("x".into()));
    assert_eq!(expected.differences(&found), []);
}
