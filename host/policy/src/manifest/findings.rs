//! Collects the diagnostics of one file, and the worst effect on loading.

use std::ops::Range;

use super::rules::{self, LoadEffect, SkillRule};
use crate::diagnostic::{Diagnostic, Span, is_hidden};

/// The most diagnostics per file: an author reads a few, and a hostile file could cause millions.
const MAX_FINDINGS: usize = 100;

/// The diagnostics of one file so far.
pub(super) struct Findings<'a> {
    file: &'a str,
    source: &'a str,
    list: Vec<Diagnostic>,
    effect: LoadEffect,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a str, source: &'a str) -> Self {
        Findings { file, source, list: Vec::new(), effect: LoadEffect::Loads }
    }

    /// Reports a violated rule at a byte range, cut at the end of its first line, or for the whole
    /// file.
    pub(super) fn add(
        &mut self,
        rule: &SkillRule,
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

    /// Converts a byte range to a span, cut at the end of its first line.
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        let mut span = Span::at(self.source, range.start, 0);
        let rest = &self.source[span.offset..];
        let line = rest.find('\n').map_or(rest, |end| &rest[..end]).trim_end_matches('\r');
        span.length =
            line.ceil_char_boundary(range.end.saturating_sub(span.offset)).min(line.len());
        span
    }

    /// Returns the worst effect of the reported rules.
    pub(super) fn effect(&self) -> LoadEffect {
        self.effect
    }

    /// Returns the diagnostics in the order of the file. Those about the whole file come first, and
    /// the consequence for the skill comes last.
    pub(super) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.list.sort_by_key(|d| (d.rule == rules::RECOVERED.name, d.span.map(|s| s.offset)));
        self.list
    }
}

/// Prepares text of a skill for a message: escapes hidden characters, and cuts long text.
pub fn abbreviate(text: &str) -> String {
    const WIDTH: usize = 60;
    let mut out: String = text
        .chars()
        .take(WIDTH)
        .flat_map(|c| if is_hidden(c) { c.escape_default().collect() } else { vec![c] })
        .collect();
    if text.chars().nth(WIDTH).is_some() {
        out.push('…');
    }
    out
}

/// Formats text as a YAML value: plain if that is safe, otherwise in double quotes.
pub(super) fn as_yaml(text: &str) -> String {
    let safe = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && super::yaml::is_string(text);
    if safe { text.to_owned() } else { quoted(text) }
}

/// Formats text as a YAML string in double quotes. Every JSON string is valid YAML.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
