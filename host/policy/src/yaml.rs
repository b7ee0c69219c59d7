//! Parses the YAML of a policy, a test case or a file of sources into a tree whose nodes have
//! positions, for diagnostics.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{
    DuplicateKeyPolicy, Error, Location, MergeKeyPolicy, MessageFormatter, Spanned,
    UserMessageFormatter,
};

use super::printable;
use crate::diagnostic::{Diagnostic, Severity, Span};

/// What a document is called in messages, and its bounds.
pub struct Format {
    /// Its name, after `the`.
    pub name: &'static str,
    /// The rule that diagnostics name.
    pub rule: &'static str,
    /// The most levels of nesting.
    pub max_depth: usize,
    /// The most nodes.
    pub max_nodes: usize,
    /// Aliases are allowed, but too few for an alias bomb.
    pub max_aliases: usize,
}

/// A node and its position.
pub struct Node {
    /// Where it is.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
    /// Whether it is a string, and not a number or boolean.
    pub is_string: bool,
}

/// What a node is.
pub enum Kind {
    /// Nothing, or `null`.
    Null,
    /// A string, number or boolean, as written.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// Describes the node's kind, for an error.
    pub fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Null => "empty",
            Kind::Scalar(_) => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

/// Parses one document.
///
/// # Errors
/// A diagnostic for invalid YAML, a duplicate key, a merge key, a tag, or an exceeded limit.
pub fn parse(text: &str, file: &str, format: &Format) -> Result<Node, Box<Diagnostic>> {
    let &Format { name, rule, max_depth, max_nodes, max_aliases } = format;
    let budget = serde_saphyr::budget! { max_depth: max_depth, max_nodes: max_nodes, max_events: max_nodes * 4, max_aliases: max_aliases, max_documents: 1 };
    let options = serde_saphyr::options! {
        budget: budget,
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(root) => Ok(locate(root, &Positions::new(text))),
        Err(error) => {
            let error = error.without_snippet();
            let message = match error {
                Error::DuplicateMappingKey { key, .. } => {
                    format!("duplicate key `{}`", printable(key.as_deref().unwrap_or_default()))
                }
                Error::MergeKeyNotAllowed { .. } => "merge keys (`<<`) are not supported".into(),
                Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
                    format!("a {name} must be a single YAML document")
                }
                Error::Budget { .. } => {
                    format!("the {name} is nested too deeply, or has too many nodes or aliases")
                }
                _ => printable(
                    UserMessageFormatter.format_message(error).lines().next().unwrap_or_default(),
                ),
            };
            let span =
                error.location().filter(|l| l.line() > 0).map(|l| span(l, &Positions::new(text)));
            Err(Box::new(Diagnostic {
                severity: Severity::Error,
                rule,
                message,
                file: file.to_owned(),
                span,
                fix: None,
            }))
        }
    }
}

enum Raw {
    Null,
    Text(String),
    /// A number or boolean. Its text is in the source.
    Plain,
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

/// A text, and where its lines start: a file may have a hundred thousand nodes.
struct Positions<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The last position: nodes come in their order, and one line may have all of them.
    last: Cell<Span>,
}

impl Positions<'_> {
    fn new(text: &str) -> Positions<'_> {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let last = Cell::new(Span { line: 1, column: 1, offset: 0, length: 0 });
        Positions { text, starts: std::iter::once(0).chain(starts).collect(), last }
    }

    /// Returns the same as [`Span::at`].
    fn span(&self, offset: usize, length: usize) -> Span {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset);
        let (last, start) = (self.last.get(), self.starts[line - 1]);
        let from = if last.line == line && last.offset <= offset { last.offset } else { start };
        let before = if from == start { 1 } else { last.column };
        let at = Span::at(&self.text[from..], offset - from, length);
        let at = Span { line, offset, column: before + at.column - 1, ..at };
        self.last.set(at);
        at
    }
}

fn locate(raw: Spanned<Raw>, text: &Positions<'_>) -> Node {
    let place = span(raw.referenced, text);
    let is_string = matches!(raw.value, Raw::Text(_));
    let kind = match raw.value {
        Raw::Null => Kind::Null,
        Raw::Text(s) => Kind::Scalar(s),
        Raw::Plain => {
            let at = span(raw.defined, text);
            Kind::Scalar(
                text.text
                    .get(at.offset..at.offset + at.length)
                    .unwrap_or_default()
                    .trim()
                    .to_owned(),
            )
        }
        Raw::List(items) => Kind::List(items.into_iter().map(|i| locate(i, text)).collect()),
        Raw::Map(entries) => Kind::Map(
            entries.into_iter().map(|(k, v)| (locate(k, text), locate(v, text))).collect(),
        ),
    };
    Node { span: place, kind, is_string }
}

fn span(location: Location, text: &Positions<'_>) -> Span {
    let bytes = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok());
    match bytes(location.span().byte_offset()) {
        Some(offset) => text.span(offset, bytes(location.span().byte_len()).unwrap_or(1)),
        None => {
            let line = usize::try_from(location.line()).unwrap_or(1).max(1);
            let text = text.text;
            let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
            let column = usize::try_from(location.column()).unwrap_or(1).max(1);
            let offset =
                text[start..].char_indices().nth(column - 1).map_or(text.len(), |(i, _)| start + i);
            Span::at(text, offset, 1)
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a map")
    }
    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Plain)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Plain)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Plain)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Plain)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}
