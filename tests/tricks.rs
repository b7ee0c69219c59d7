//! The simplest tricks of malicious skills. Each case is a folder of `cases/tricks`: a skill, and
//! `expected.txt`, the findings as `skillhost check` prints them. `BLESS=1` rewrites the expectations.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use skillhost_compat::find_tricks;
use skillhost_policy::diagnostic::{Severity, render};
use skillhost_policy::manifest::rules;
use skillhost_skill::{SizeLimits, Skill};

/// The rules that only `check` applies.
pub const RULES: [&str; 7] = [
    rules::HIDDEN_TEXT.name,
    rules::UNSAFE_DOWNLOAD.name,
    rules::PREREQUISITE_DOWNLOAD.name,
    rules::OBFUSCATED_CODE.name,
    rules::SECRET.name,
    rules::INSTRUCTION_OVERRIDE.name,
    rules::PIPE_TO_SHELL.name,
];

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(crate::ROOT).join("tests/cases/tricks");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// Loads the skill of a case, without its expectation.
fn load(case: &Path) -> (tempfile::TempDir, Skill) {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join(case.file_name().unwrap());
    copy(case, &skill);
    let skill = Skill::load(&skill, &SizeLimits::default()).unwrap();
    (folder, skill)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(name)),
            false if name == "expected.txt" => {}
            // Secret scanners would report the cases themselves, so their tokens are in two parts.
            false => {
                let text = fs::read_to_string(entry.path()).unwrap().replace("<JOIN>", "");
                fs::write(to.join(name), text).unwrap();
            }
        }
    }
}

#[test]
fn tricks_are_found_where_they_are() {
    let mut wrong = String::new();
    for case in cases() {
        let (folder, skill) = load(&case);
        let mut actual = String::new();
        for found in find_tricks(&skill) {
            let text = render(&found.findings, &found.text);
            actual += &anstream::adapter::strip_str(&text).to_string();
        }
        let actual = actual.replace(&format!("{}/", folder.path().display()), "");
        let file = case.join("expected.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &actual).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if actual != expected {
            let diff = similar::TextDiff::from_lines(&expected, &actual);
            wrong += &format!("== {}\n{}", case.display(), diff.unified_diff());
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nBLESS=1 rewrites the expectations");
}

#[test]
fn every_trick_has_a_case_and_harmless_skills_have_no_finding() {
    let mut found = BTreeSet::new();
    for case in cases() {
        let (_folder, skill) = load(&case);
        let findings: Vec<_> =
            find_tricks(&skill).into_iter().flat_map(|file| file.findings).collect();
        let is_harmless = case.file_name().unwrap().to_str().unwrap().starts_with("harmless");
        assert_eq!(findings.is_empty(), is_harmless, "{}: {findings:?}", case.display());
        for finding in findings {
            let rule = rules::RULES.iter().find(|rule| rule.name == finding.rule).unwrap();
            assert_eq!(finding.severity, rule.severity);
            found.insert(finding.rule);
        }
    }
    assert_eq!(found, RULES.into_iter().collect());
    // Everything but the note makes `check` fail.
    let notes: Vec<_> =
        rules::RULES.iter().filter(|rule| rule.severity == Severity::Note).collect();
    assert_eq!(notes.iter().map(|rule| rule.name).collect::<Vec<_>>(), ["pipe-to-shell"]);
}

#[test]
fn secrets_are_not_repeated() {
    let (_folder, skill) = load(&Path::new(crate::ROOT).join("tests/cases/tricks/secret"));
    for finding in find_tricks(&skill).into_iter().flat_map(|file| file.findings) {
        assert!(!finding.message.contains("AKIA"), "{}", finding.message);
    }
}
