//! Counts the public skills in which `skillhost check` finds a trick of malicious skills. A rule that
//! reports ordinary skills would be ignored, so at most 2 % may have a finding above a note.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use skillhost_toolchain::{Error, Progress};

use crate::print_line;

/// The rules that are measured.
const RULES: [&str; 7] = [
    "hidden-text",
    "unsafe-download",
    "prerequisite-download",
    "obfuscated-code",
    "secret",
    "instruction-override",
    "pipe-to-shell",
];

/// The most skills with a finding above a note, per 1,000.
const MAX_PER_MILLE: usize = 20;

#[derive(Deserialize)]
struct Report {
    skills: Vec<Checked>,
}

#[derive(Deserialize)]
struct Checked {
    diagnostics: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    rule: String,
    severity: String,
    message: String,
    file: String,
    span: Option<Span>,
}

#[derive(Deserialize)]
struct Span {
    line: usize,
}

/// Checks every skill below a folder.
pub(crate) fn run(suite: &Path, progress: &Progress) -> Result<(), Error> {
    super::build_host(progress)?;
    let suite = suite.canonicalize().map_err(Error::context(suite.display()))?;
    let checked = Command::new(super::host())
        .args(["check", "--json"])
        .arg(&suite)
        .output()
        .map_err(|error| Error::new(format!("skillhost check: {error}")))?;
    let report: Report = serde_json::from_slice(&checked.stdout).map_err(|error| {
        let text = String::from_utf8_lossy(&checked.stderr).into_owned();
        Error::new(format!("skillhost check: {error}")).help(text)
    })?;
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    let mut above = 0;
    for skill in &report.skills {
        let tricks =
            || skill.diagnostics.iter().filter(|found| RULES.contains(&found.rule.as_str()));
        let rules: BTreeSet<&str> = tricks().map(|found| found.rule.as_str()).collect();
        rules.into_iter().for_each(|rule| *by_rule.entry(rule).or_default() += 1);
        let mut serious = tricks().filter(|found| found.severity != "note").peekable();
        above += usize::from(serious.peek().is_some());
        for Finding { rule, message, file, span, .. } in serious {
            let line = span.as_ref().map_or(0, |span| span.line);
            // The path and the message may have been written to deceive who reads them.
            print_line(format!(
                "{}:{line}: {rule}: {}",
                file.escape_debug(),
                message.escape_debug()
            ));
        }
    }
    let count = report.skills.len();
    for rule in RULES {
        print_line(format!("{rule}: {} skills", by_rule.get(rule).unwrap_or(&0)));
    }
    print_line(format!("{above} of {count} skills have a finding above a note"));
    match count > 0 && above * 1000 <= count * MAX_PER_MILLE {
        true => Ok(()),
        false => Err(Error::new("more than 2 % of the skills have a finding above a note")),
    }
}
