//! The findings in formats that other programs read.

use std::fmt::Write as _;

use serde_json::{Value, json};
use skillhost_policy::diagnostic::{Diagnostic, Severity, printable, printable_lines};
use skillhost_policy::manifest::rules::RULES;

/// Where SARIF 2.1.0 is defined.
const SARIF_SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns a log in SARIF 2.1.0 (OASIS), which code hosts and editors show next to the code. `digest`
/// is that of the only skill: a policy that requires a scan accepts the log for exactly this content.
pub(super) fn sarif<'a>(
    findings: impl Iterator<Item = &'a Diagnostic>,
    digest: Option<&str>,
) -> Value {
    let results: Vec<Value> = findings.map(result).collect();
    let rules: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            json!({
                "id": rule.name,
                "shortDescription": { "text": rule.says },
                "defaultConfiguration": { "level": level(rule.severity) },
            })
        })
        .collect();
    let driver = json!({
        "name": "skillhost",
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": rules,
    });
    let mut run = json!({
        "tool": { "driver": driver },
        "columnKind": "unicodeCodePoints",
        "results": results,
    });
    if let Some(digest) = digest {
        run["automationDetails"] = json!({ "id": format!("skillhost/sha256:{digest}") });
    }
    json!({ "$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run] })
}

fn result(finding: &Diagnostic) -> Value {
    let mut location = json!({ "artifactLocation": { "uri": uri(&finding.file) } });
    if let Some(span) = finding.span {
        location["region"] = json!({ "startLine": span.line, "startColumn": span.column });
    }
    json!({
        "ruleId": finding.rule,
        "level": level(finding.severity),
        "message": { "text": message(finding) },
        "locations": [{ "physicalLocation": location }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn message(finding: &Diagnostic) -> String {
    match &finding.fix {
        Some(fix) => format!("{}\nhelp: {fix}", finding.message),
        None => finding.message.clone(),
    }
}

/// Writes a path as a URI reference (RFC 3986): only unreserved characters and `/` stay as they are.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.trim_start_matches("./").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(byte.into());
            }
            // Writing to a string cannot fail.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

/// Returns one workflow command of GitHub Actions for each finding, which shows it at its line.
pub(super) fn github<'a>(findings: impl Iterator<Item = &'a Diagnostic>) -> String {
    let command = |finding: &Diagnostic| {
        let place = finding
            .span
            .map_or_else(String::new, |span| format!(",line={},col={}", span.line, span.column));
        let file = property(&printable(finding.file.trim_start_matches("./")));
        let text = data(&printable_lines(&message(finding)));
        let command = match finding.severity {
            Severity::Note => "notice",
            other => level(other),
        };
        format!("::{command} file={file}{place},title={}::{text}\n", finding.rule)
    };
    findings.map(command).collect()
}

/// Escapes the text of a command, so that a skill cannot write another command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillhost_policy::diagnostic::Span;

    fn finding(file: &str, message: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            rule: "name-pattern",
            message: message.into(),
            file: file.into(),
            span: Some(Span { line: 2, column: 7, offset: 10, length: 3 }),
            fix: Some("name: a-b".into()),
        }
    }

    #[test]
    fn github_commands_have_file_line_and_rule() {
        let found = github([finding("./skills/a b/SKILL.md", "invalid")].iter());
        assert_eq!(
            found,
            "::error file=skills/a b/SKILL.md,line=2,col=7,title=name-pattern::invalid%0Ahelp: name: a-b\n"
        );
    }

    #[test]
    fn texts_of_skills_cannot_add_commands_or_properties() {
        let found = github([finding("a,b:c.md", "x\n::error::forged 100%")].iter());
        assert_eq!(found.lines().count(), 1);
        assert!(found.starts_with("::error file=a%2Cb%3Ac.md,line=2"), "{found}");
        assert!(found.contains("x%0A::error::forged 100%25"), "{found}");
    }

    #[test]
    fn sarif_names_rule_place_and_fix() {
        let log = sarif([finding("./a b/SKILL.md", "invalid")].iter(), None);
        let result = &log["runs"][0]["results"][0];
        assert_eq!(result["ruleId"], "name-pattern");
        assert_eq!(result["message"]["text"], "invalid\nhelp: name: a-b");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "a%20b/SKILL.md");
        assert_eq!(place["region"], json!({ "startLine": 2, "startColumn": 7 }));
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        assert_eq!(rules.len(), RULES.len());
    }
}
