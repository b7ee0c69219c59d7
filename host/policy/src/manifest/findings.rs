//! Collects what is wrong with one file, and with it the worst effect on loading.

use std::ops::Range;

use super::rules::{self, Effect, Rule};
use crate::diagnostic::{Diagnostic, Span};

/// Findings kept per file: an author reads a few, and a hostile file could make millions.
const MAX_FINDINGS: usize = 100;

/// What is wrong with one file so far.
pub(super) struct Findings<'a> {
    file: &'a str,
    source: &'a str,
    list: Vec<Diagnostic>,
    effect: Effect,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a str, source: &'a str) -> Self {
        Findings { file, source, list: Vec::new(), effect: Effect::Loads }
    }

    /// Reports a broken rule at a byte range of the source (cut at its first line's end), or about
    /// the file as a whole.
    pub(super) fn add(
        &mut self,
        rule: &Rule,
        at: impl Into<Option<Range<usize>>>,
        message: impl Into<String>,
        fix: Option<String>,
    ) {
        self.effect = self.effect.max(rule.effect);
        if self.list.len() == MAX_FINDINGS {
            return;
        }
        let span = at.into().map(|range| self.span(range));
        let (severity, rule, message) = (rule.severity, rule.name, message.into());
        self.list.push(Diagnostic {
            severity,
            rule,
            message,
            file: self.file.to_owned(),
            span,
            fix,
        });
    }

    /// A byte range of the source, cut at the end of its first line, with its line and column.
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        let mut span = Span::at(self.source, range.start, 0);
        let rest = &self.source[span.offset..];
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]).trim_end_matches('\r');
        span.length =
            line.ceil_char_boundary(range.end.saturating_sub(span.offset)).min(line.len());
        span
    }

    /// The worst effect of what was reported.
    pub(super) fn effect(&self) -> Effect {
        self.effect
    }

    /// What was reported, in the order of the file: first what is about the whole of it, last what
    /// follows for the skill.
    pub(super) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| (d.rule == rules::RECOVERED.name, d.span.map(|s| s.offset)));
        self.list
    }
}

/// Text of the skill's inside a message: control characters escaped, cut where it gets long.
pub fn shown(text: &str) -> String {
    const WIDTH: usize = 60;
    let mut out: String = text
        .chars()
        .take(WIDTH)
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect();
    if text.chars().nth(WIDTH).is_some() {
        out.push('…');
    }
    out
}

/// Text as a YAML value: as it is where that is safe, else in double quotes (JSON's strings are
/// YAML's).
pub(super) fn as_yaml(text: &str) -> String {
    let safe = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && super::yaml::is_string(text);
    if safe { text.to_owned() } else { quoted(text) }
}

/// Text in double quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
