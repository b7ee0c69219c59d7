//! What a rule found, and where.

use schemars::JsonSchema;
use serde::Serialize;

/// The maximum number of characters of a message, which may contain parts of the text.
const MAX_MESSAGE: usize = 300;

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Finding {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1. Missing if only the line is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The rule. `syntax` means that the text does not parse.
    pub rule: String,
    /// What is wrong.
    pub message: String,
}

/// Collects findings of a text by their offsets.
#[derive(Debug)]
pub struct Findings<'t> {
    text: &'t str,
    /// The offsets at which lines start.
    lines: Vec<usize>,
    found: Vec<Finding>,
}

impl<'t> Findings<'t> {
    /// Starts without findings.
    pub fn new(text: &'t str) -> Findings<'t> {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        Findings { text, lines: std::iter::once(0).chain(starts).collect(), found: Vec::new() }
    }

    /// Adds a finding at an offset in bytes.
    pub fn at(&mut self, offset: usize, rule: &str, message: impl Into<String>) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let column = self.text[self.lines[line - 1]..offset].chars().count() + 1;
        self.add(line, Some(column), rule, message);
    }

    /// Adds a finding of a line.
    pub fn add(
        &mut self,
        line: usize,
        column: Option<usize>,
        rule: &str,
        message: impl Into<String>,
    ) {
        let message: String = message.into();
        let message = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        let message = message.take(MAX_MESSAGE).collect();
        self.found.push(Finding { line, column, rule: rule.into(), message });
    }

    /// Returns the findings in the order of the text, each once.
    pub fn finish(mut self) -> Vec<Finding> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}
