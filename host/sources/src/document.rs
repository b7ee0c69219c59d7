//! Reads the two YAML files, and reports every problem with its line and column.

use skillhost_policy::diagnostic::{Diagnostic, Severity, Span, printable};
use skillhost_policy::yaml::{self, Format, Kind, Node};

use crate::error::SourceError;

/// The problems found in a file so far.
pub(crate) struct Reader<'a> {
    /// The file, as messages name it.
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Reader<'a> {
        Reader { file, text, diagnostics: Vec::new() }
    }

    /// Parses the file.
    ///
    /// # Errors
    /// The file is larger than `max` bytes, or not valid YAML within the bounds of the format.
    pub(crate) fn parse(&mut self, max: usize, format: &Format) -> Result<Node, SourceError> {
        if self.text.len() > max {
            self.error("size", None, format!("the file is larger than {max} bytes"), None);
        } else {
            match yaml::parse(self.text, self.file, format) {
                Ok(node) => return Ok(node),
                Err(diagnostic) => self.diagnostics.push(*diagnostic),
            }
        }
        Err(self.failed())
    }

    /// Returns the entries of a map whose keys are known; reports others.
    pub(crate) fn fields<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        known: &[&'static str],
    ) -> Vec<(&'static str, &'n Node)> {
        let Some(entries) = self.map(node, what) else { return Vec::new() };
        let mut fields = Vec::new();
        for (key, value) in entries {
            match known.iter().find(|known| Some(**known) == scalar(key)) {
                Some(known) => fields.push((*known, value)),
                None => {
                    let name = printable(scalar(key).unwrap_or_default());
                    let fix = format!("one of: {}", known.join(", "));
                    let message = format!("unknown key `{name}` in {what}");
                    self.error("key", Some(key.span), message, Some(fix));
                }
            }
        }
        fields
    }

    /// Returns the entries of a map.
    pub(crate) fn map<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [(Node, Node)]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            _ => {
                let message = format!("{what} must be a map, not {}", node.describe());
                self.error("type", Some(node.span), message, None);
                None
            }
        }
    }

    /// Returns a text.
    pub(crate) fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        let text = scalar(node);
        if text.is_none() {
            let message = format!("{what} must be a single value, not {}", node.describe());
            self.error("type", Some(node.span), message, None);
        }
        text
    }

    /// Returns the texts of a list.
    pub(crate) fn list<'n>(&mut self, node: &'n Node, what: &str) -> Vec<&'n str> {
        let Kind::List(items) = &node.kind else {
            let message = format!("{what} must be a list, not {}", node.describe());
            self.error("type", Some(node.span), message, None);
            return Vec::new();
        };
        items.iter().filter_map(|item| self.scalar(item, what)).collect()
    }

    pub(crate) fn error(
        &mut self,
        rule: &'static str,
        span: Option<Span>,
        message: String,
        fix: Option<String>,
    ) {
        self.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            rule,
            message,
            file: self.file.to_owned(),
            span,
            fix,
        });
    }

    /// Returns the value, or every problem that was reported.
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, SourceError> {
        if self.diagnostics.is_empty() { Ok(value) } else { Err(self.failed()) }
    }

    fn failed(&mut self) -> SourceError {
        let mut diagnostics = std::mem::take(&mut self.diagnostics);
        diagnostics.sort_by_key(|diagnostic| diagnostic.span.map(|span| span.offset));
        SourceError::File { file: self.file.to_owned(), diagnostics, text: self.text.to_owned() }
    }
}

pub(crate) fn scalar(node: &Node) -> Option<&str> {
    if let Kind::Scalar(text) = &node.kind { Some(text) } else { None }
}

/// Checks the name of a skill. It becomes a file name and part of commands.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.');
    name.starts_with(|char: char| char.is_ascii_alphanumeric())
        && name.len() <= 64
        && name.chars().all(is_plain)
}

/// What is wrong with the name of a skill, with a fix.
pub(crate) fn name_problem(name: &str) -> Option<(String, String)> {
    (!is_name(name)).then(|| {
        let message = format!("invalid skill name `{}`", printable(name));
        (message, "up to 64 letters, digits, `-`, `_` and `.`, e.g. `word-count`".to_owned())
    })
}

/// Writes a text as YAML: plain if that is unambiguous, otherwise in double quotes.
pub(crate) fn quote(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_plain = text.starts_with(|char: char| char.is_ascii_lowercase())
        && text
            .chars()
            .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-')
        && !WORDS.contains(&text);
    match is_plain {
        true => text.to_owned(),
        // JSON's strings are YAML's, and a string of Rust always has one.
        false => serde_json::to_string(text).unwrap_or_default(),
    }
}
