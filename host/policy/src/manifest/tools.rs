//! Reads `allowed-tools` and `disallowed-tools` into lists of entries, in all forms that authors use.

use super::ToolEntry;
use super::findings::{Findings, abbreviate};
use super::rules;
use super::yaml::{Node, Value};
use crate::entry;

/// The most entries of one skill. Real skills have up to 60.
const MAX_ENTRIES: usize = 1_000;

/// The field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Allowed,
    Disallowed,
}

impl Field {
    fn key(self) -> &'static str {
        match self {
            Field::Allowed => "allowed-tools",
            Field::Disallowed => "disallowed-tools",
        }
    }
}

/// Reads the value of the field. Keeps invalid entries as written, so that the grant can refuse them
/// by name.
pub(super) fn read(
    field: Field,
    value: &Node,
    source: &str,
    findings: &mut Findings<'_>,
) -> Vec<ToolEntry> {
    let key = field.key();
    let mut entries = Vec::new();
    let mut commas = false;
    match &*value.value {
        _ if value.is_null() => {
            let effect = if field == Field::Allowed { "requests" } else { "denies" };
            let message = format!("`{key}` has no value, so it {effect} nothing");
            findings.add(
                &rules::TOOLS_EMPTY,
                value.at.clone(),
                message,
                Some(format!("{key}: \"\"")),
            );
        }
        Value::Scalar { text, .. } if value.is_string() => {
            commas = read_string(field, text, value, source, findings, &mut entries)
        }
        Value::List(items) => {
            for item in items {
                match &*item.value {
                    Value::Scalar { text, .. } if item.is_string() => {
                        commas |= read_string(field, text, item, source, findings, &mut entries);
                    }
                    _ => refuse(field, item, &format!("an entry of `{key}`"), findings),
                }
            }
            findings.add(
                &rules::TOOLS_LIST,
                value.at.clone(),
                format!("`{key}` is a YAML list, not a string"),
                Some(line_of(field, &entries)),
            );
        }
        _ => refuse(field, value, &format!("`{key}`"), findings),
    }
    if commas {
        let message = format!("commas separate the entries of `{key}`");
        findings.add(
            &rules::TOOLS_COMMAS,
            value.at.clone(),
            message,
            Some(line_of(field, &entries)),
        );
    }
    if entries.len() > MAX_ENTRIES {
        let message = format!("`{key}` has more than {MAX_ENTRIES} entries");
        findings.add(&rules::YAML_BOUNDS, value.at.clone(), message, None);
        entries.truncate(MAX_ENTRIES);
    }
    entries
}

fn refuse(field: Field, node: &Node, what: &str, findings: &mut Findings<'_>) {
    let fix = Some(format!("{}: Read Bash(git:*)", field.key()));
    let message = format!("{what} must be a string, not {}", node.kind());
    findings.add(&rules::TOOLS_TYPE, node.at.clone(), message, fix);
}

/// Returns the line that requests the entries, in the form of the specification.
pub fn line(entries: &[ToolEntry]) -> String {
    line_of(Field::Allowed, entries)
}

fn line_of(field: Field, entries: &[ToolEntry]) -> String {
    let entries: Vec<&str> = entries.iter().map(|e| e.text.as_str()).collect();
    let joined = entries.join(" ");
    let plain = joined.starts_with(|c: char| c.is_ascii_alphabetic())
        && !joined.contains(": ")
        && !joined.contains(" #")
        && !joined.ends_with(':');
    format!("{}: {}", field.key(), if plain { joined } else { super::findings::quoted(&joined) })
}

/// Appends the entries of one string. Returns whether commas separated them.
fn read_string(
    field: Field,
    text: &str,
    node: &Node,
    source: &str,
    findings: &mut Findings<'_>,
    entries: &mut Vec<ToolEntry>,
) -> bool {
    let split = split(text);
    let mut from = node.at.start;
    for entry in split.entries.iter().take((MAX_ENTRIES + 1).saturating_sub(entries.len())) {
        // Escapes and folding make the value differ from the source. An entry that does not occur
        // in the source gets the range of the whole value.
        let at = source
            .get(from..node.at.end)
            .and_then(|written| written.find(entry.text))
            .map_or(node.at.clone(), |i| from + i..from + i + entry.text.len());
        if at != node.at {
            from = at.end;
        }
        if !entry.closed {
            let message = format!("`{}` has an unclosed parenthesis", abbreviate(entry.text));
            let fix = Some(format!("close it: {})", abbreviate(entry.text)));
            // The rest of the text became part of this entry, so it is unknown what it denies.
            let rule = if field == Field::Allowed {
                &rules::TOOLS_PARENTHESES
            } else {
                &rules::TOOLS_DENIAL
            };
            findings.add(rule, at.clone(), message, fix);
        }
        if let Some(known) = entry::misspelt(entry.text) {
            let written = entry.text.split('(').next().unwrap_or_default();
            let message =
                format!("unknown tool `{}`; did you mean `{known}`?", abbreviate(written.trim()));
            let fix = format!("{known}{}", &entry.text[written.len()..]);
            findings.add(&rules::TOOLS_UNKNOWN, at.clone(), message, Some(abbreviate(&fix)));
        }
        entries.push(ToolEntry { text: entry.text.to_owned(), span: Some(findings.span(at)) });
    }
    split.commas
}

struct Split<'a> {
    entries: Vec<Entry<'a>>,
    commas: bool,
}

struct Entry<'a> {
    text: &'a str,
    closed: bool,
}

/// Splits on commas and white space outside parentheses. Removes quotes around a whole entry, and
/// keeps other quotes.
fn split(text: &str) -> Split<'_> {
    let mut split = Split { entries: Vec::new(), commas: false };
    let mut rest = text;
    loop {
        let next = rest.trim_start_matches(is_separator);
        split.commas |= rest[..rest.len() - next.len()].contains(',');
        if next.is_empty() {
            return split;
        }
        let (entry, closed, length) = match quoted(next) {
            Some(inner) => {
                (inner, inner.matches('(').count() <= inner.matches(')').count(), inner.len() + 2)
            }
            None => bare(next),
        };
        if !entry.trim().is_empty() {
            split.entries.push(Entry { text: entry.trim(), closed });
        }
        rest = &next[length..];
    }
}

/// Returns the text of a quoted entry at the start, or `None` without a closing quote that a
/// separator follows.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let end = 1 + text[1..].find(quote)?;
    let after = text[end + 1..].chars().next();
    after.is_none_or(is_separator).then(|| &text[1..end])
}

/// Returns the entry at the start, whether its parentheses are closed, and its length.
fn bare(text: &str) -> (&str, bool, usize) {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_separator(c) => return (&text[..at], true, at),
            _ => {}
        }
    }
    (text, depth == 0, text.len())
}

fn is_separator(c: char) -> bool {
    c == ',' || c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<&str> {
        split(text).entries.into_iter().map(|e| e.text).collect()
    }

    #[test]
    fn entries_split_on_commas_and_space_outside_parentheses() {
        assert_eq!(entries("Read Write"), ["Read", "Write"]);
        assert_eq!(entries("Read, Write,Edit ,, Grep"), ["Read", "Write", "Edit", "Grep"]);
        assert_eq!(
            entries("Bash(git:*) Bash(git *), Bash(cd frontend && yarn test, *)"),
            ["Bash(git:*)", "Bash(git *)", "Bash(cd frontend && yarn test, *)"]
        );
        assert_eq!(entries("Bash(echo $(date) (x)) Read"), ["Bash(echo $(date) (x))", "Read"]);
        assert_eq!(
            entries("mcp__server__tool\n mcp__server__*"),
            ["mcp__server__tool", "mcp__server__*"]
        );
        assert!(entries(" , ").is_empty());
    }

    #[test]
    fn only_quotes_around_a_whole_entry_are_removed() {
        assert_eq!(
            entries(r#""Bash(python3 ${CLAUDE_PLUGIN_ROOT}/x.py *)" 'Read' "#),
            ["Bash(python3 ${CLAUDE_PLUGIN_ROOT}/x.py *)", "Read"]
        );
        assert_eq!(entries(r#"Bash(echo "a b") Read"#), [r#"Bash(echo "a b")"#, "Read"]);
        assert_eq!(entries(r#""Read Write"#), [r#""Read"#, "Write"]);
        assert_eq!(entries(r#""" Read"#), ["Read"]);
    }

    #[test]
    fn open_parenthesis_extends_to_the_end_of_the_text() {
        let split = split("Read Bash(git *, Write Edit");
        assert_eq!(split.entries.len(), 2);
        assert_eq!(split.entries[1].text, "Bash(git *, Write Edit");
        assert!(!split.entries[1].closed && split.entries[0].closed);
        assert!(!super::split("'Bash(git *' Read").entries[0].closed);
    }
}
