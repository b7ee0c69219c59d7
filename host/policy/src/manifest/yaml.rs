//! Parses the YAML of the frontmatter into a tree whose nodes have positions.
//!
//! It uses the parser's events instead of serde, because events have the position of every key and
//! value. An alias shares the value of its anchor, so it costs nothing to expand. Depth, nodes and
//! aliases are limited anyway.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, ScanError};

/// The most levels of lists and maps. The specification needs two; client-specific fields use six.
const MAX_DEPTH: usize = 32;
/// The most scalars, lists, maps and aliases.
const MAX_NODES: usize = 10_000;
/// The most aliases. Real skills use none.
const MAX_ALIASES: usize = 50;

/// A value and its position.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) value: Rc<Value>,
    /// The byte range in the file; for an alias, the range of the alias.
    pub(super) at: Range<usize>,
}

#[derive(Debug)]
pub(super) enum Value {
    Scalar {
        text: String,
        /// Without quotes, so it can be a number, a boolean or null.
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// A parsed document.
pub(super) struct Document {
    /// The root; `None` if the document is empty.
    pub(super) root: Option<Node>,
    /// The second and further occurrences of a key in its map.
    pub(super) duplicates: Vec<Node>,
}

/// The reason why parsing failed.
pub(super) struct Broken {
    pub(super) kind: BrokenKind,
    pub(super) at: Range<usize>,
    pub(super) message: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokenKind {
    Syntax,
    /// An alias without an anchor. It is a syntax error, but only of a whole document.
    UnknownAlias,
    Bounds,
    Feature,
}

impl Node {
    /// Returns the text of a scalar that is not null.
    pub(super) fn text(&self) -> Option<&str> {
        match &*self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns the value of a boolean.
    pub(super) fn boolean(&self) -> Option<bool> {
        match &*self.value {
            Value::Scalar { text, plain: true } if is_bool(text) => {
                Some(text.eq_ignore_ascii_case("true"))
            }
            _ => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&*self.value, Value::Scalar { text, plain: true } if is_null(text))
    }

    /// Describes the kind of value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &*self.value {
            Value::Map(_) => "a map",
            Value::List(_) => "a list",
            Value::Scalar { text, plain: true } if is_null(text) => "empty",
            Value::Scalar { text, plain: true } if is_bool(text) => "a boolean",
            Value::Scalar { text, plain: true } if is_number(text) => "a number",
            Value::Scalar { .. } => "a string",
        }
    }

    /// Checks whether this is a list or a map.
    pub(super) fn is_collection(&self) -> bool {
        matches!(&*self.value, Value::List(_) | Value::Map(_))
    }

    /// Checks whether this is a scalar that YAML reads as a string.
    pub(super) fn is_string(&self) -> bool {
        matches!(&*self.value, Value::Scalar { text, plain } if !plain || is_string(text))
    }
}

/// Checks whether an unquoted scalar is a string in YAML's core schema.
pub(super) fn is_string(text: &str) -> bool {
    !is_null(text) && !is_bool(text) && !is_number(text)
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn is_bool(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let based = |prefix, radix| {
        text.strip_prefix(prefix)
            .is_some_and(|d: &str| !d.is_empty() && d.chars().all(|c| c.is_digit(radix)))
    };
    matches!(unsigned, ".inf" | ".Inf" | ".INF")
        || matches!(text, ".nan" | ".NaN" | ".NAN")
        || based("0o", 8)
        || based("0x", 16)
        || (unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && unsigned.parse::<f64>().is_ok())
}

/// Finds the field that contains a syntax error, and the error in it. The parser reports an open
/// quote or bracket only lines later.
pub(super) fn blame(source: &str, part: Range<usize>) -> Option<(Range<usize>, Broken)> {
    let starts_field = |line: &Range<usize>| {
        source[line.clone()]
            .starts_with(|c: char| !c.is_whitespace() && !matches!(c, '-' | '#' | ']' | '}'))
    };
    let mut starts: Vec<usize> = super::frontmatter::lines_from(&source[..part.end], part.start)
        .filter(starts_field)
        .map(|l| l.start)
        .collect();
    starts.push(part.end);
    let fields = starts.windows(2).map(|w| w[0]..w[1]);
    // An alias is unknown if its field is parsed alone.
    fields
        .filter_map(|field| Some((field.clone(), read(source, field).err()?)))
        .find(|(_, broken)| broken.kind == BrokenKind::Syntax)
}

/// Returns the place of the tab that breaks a field: the first one in the indentation of a line, if
/// the field is valid, or breaks later, with spaces in its place.
pub(super) fn tab_in_indentation(source: &str, field: Range<usize>) -> Option<usize> {
    let indent = |line: &Range<usize>| {
        let text = &source[line.clone()];
        let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
        text[..blank].find('\t').map(|at| line.start + at)
    };
    let mut lines = super::frontmatter::lines_from(&source[..field.end], field.start);
    let tab = lines.find_map(|line| indent(&line))?;
    let broken = read(source, field.clone()).err()?;
    let is_after = |broken: &Broken| source[tab..broken.at.start.max(tab)].contains('\n');
    let spaced: String = source[field.clone()]
        .split_inclusive('\n')
        .map(|line| {
            let text = line.trim_start_matches([' ', '\t']);
            line[..line.len() - text.len()].replace('\t', " ") + text
        })
        .collect();
    let is_the_cause = !is_after(&broken) || read(&spaced, 0..spaced.len()).is_ok();
    is_the_cause.then_some(tab)
}

/// Returns the place of the innermost quote or bracket that a field leaves open, if the field is
/// valid with its end added.
pub(super) fn unclosed(source: &str, field: Range<usize>) -> Option<usize> {
    let mut open: Vec<(usize, char)> = Vec::new();
    // Whether a value can start here: after white space behind a `:`, `-`, `,` or bracket.
    let (mut starts_value, mut last) = (false, '\n');
    let mut chars = source[field.clone()].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let in_flow = open.last().is_some_and(|(_, c)| matches!(c, '[' | '{'));
        match open.last().map(|(_, c)| *c) {
            Some('"') if c == '\\' => drop(chars.next()),
            Some('\'') if c == '\'' => match chars.peek() {
                Some((_, '\'')) => drop(chars.next()),
                _ => drop(open.pop()),
            },
            Some('"') if c == '"' => drop(open.pop()),
            Some('"' | '\'') => {}
            _ if matches!(c, '"' | '\'' | '[' | '{') && starts_value => {
                open.push((field.start + at, c));
            }
            _ if matches!(c, ']' | '}') && in_flow => drop(open.pop()),
            _ => {}
        }
        starts_value = match c {
            ' ' | '\t' | '\n' => starts_value || matches!(last, ':' | '-'),
            '[' | '{' => open.last().is_some_and(|(place, _)| *place == field.start + at),
            ',' => in_flow,
            _ => false,
        };
        last = c;
    }
    let ends = open.iter().rev().map(|(_, c)| match c {
        '[' => ']',
        '{' => '}',
        quote => *quote,
    });
    let closed: String = source[field].trim_end().chars().chain(ends).collect();
    read(&closed, 0..closed.len()).ok()?;
    open.last().map(|(place, _)| *place)
}

fn nested_too_deeply() -> String {
    format!("lists and maps are nested deeper than {MAX_DEPTH} levels")
}

/// Parses one document from a range of the file.
pub(super) fn read(source: &str, part: Range<usize>) -> Result<Document, Broken> {
    let options = granit_parser::options! { emit_comments: false, flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH };
    let text = &source[part.clone()];
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|e| scan_error(&e, &part, text))?;
        let at = span
            .byte_range()
            .map_or(part.start..part.start, |r| part.start + r.start..part.start + r.end);
        let tag = span
            .tag_span()
            .and_then(|tag| tag.byte_range())
            .map(|r| part.start + r.start..part.start + r.end);
        builder.event(event, at, tag)?;
    }
    Ok(Document { root: builder.root, duplicates: builder.duplicates })
}

fn scan_error(error: &ScanError, part: &Range<usize>, text: &str) -> Broken {
    let (kind, message) = match error.kind() {
        granit_parser::ErrorKind::RecursionLimitExceeded => {
            (BrokenKind::Bounds, nested_too_deeply())
        }
        granit_parser::ErrorKind::UnknownAnchor => {
            (BrokenKind::UnknownAlias, "the alias has no anchor before it".to_owned())
        }
        granit_parser::ErrorKind::UnclosedQuotedScalar
        | granit_parser::ErrorKind::InvalidQuotedScalarIndent => {
            (BrokenKind::Syntax, "unclosed quote".to_owned())
        }
        _ => (BrokenKind::Syntax, error.info()),
    };
    // The parser reports errors at the end after the last line. Point to the last text instead.
    let offset = error.marker().byte_offset().unwrap_or(0).min(text.trim_end().len());
    let start = part.start + text.floor_char_boundary(offset);
    Broken { kind, at: start..start + 1, message }
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    documents: usize,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Value>>,
    nodes: usize,
    aliases: usize,
    duplicates: Vec<Node>,
}

/// An unclosed list or map.
struct Open {
    items: Vec<Node>,
    at: Range<usize>,
    anchor: usize,
}

impl Builder {
    fn event(
        &mut self,
        event: Event<'_>,
        at: Range<usize>,
        tag_at: Option<Range<usize>>,
    ) -> Result<(), Broken> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Broken {
                        kind: BrokenKind::Syntax,
                        at,
                        message: "only one YAML document is allowed".into(),
                    });
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), tag_at.as_ref().unwrap_or(&at))?;
                let plain = style == ScalarStyle::Plain;
                self.complete(Value::Scalar { text: text.into_owned(), plain }, at, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
                refuse_tag(tag.is_some(), tag_at.as_ref().unwrap_or(&at))?;
                if self.open.len() == MAX_DEPTH {
                    return Err(Broken {
                        kind: BrokenKind::Bounds,
                        at,
                        message: nested_too_deeply(),
                    });
                }
                self.open.push(Open { items: Vec::new(), at, anchor });
            }
            Event::SequenceEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                self.complete(Value::List(open.items), open.at.start..at.end, open.anchor)?;
            }
            Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let pairs = self.pairs(open.items)?;
                self.complete(Value::Map(pairs), open.at.start..at.end, open.anchor)?;
            }
            Event::Alias(anchor) => {
                self.aliases += 1;
                if self.aliases > MAX_ALIASES {
                    return Err(Broken {
                        kind: BrokenKind::Bounds,
                        at,
                        message: format!("there are more than {MAX_ALIASES} aliases"),
                    });
                }
                let Some(value) = self.anchors.get(&anchor).cloned() else {
                    return Err(Broken {
                        kind: BrokenKind::Syntax,
                        at,
                        message: "the alias refers to the value that contains it".into(),
                    });
                };
                self.place(Node { value, at })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn pairs(&mut self, items: Vec<Node>) -> Result<Vec<(Node, Node)>, Broken> {
        let mut pairs = Vec::with_capacity(items.len() / 2);
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            if matches!(&*key.value, Value::Scalar { text, plain: true } if text == "<<") {
                return Err(Broken {
                    kind: BrokenKind::Feature,
                    at: key.at,
                    message: "merge keys (`<<`) are not supported".into(),
                });
            }
            pairs.push((key, value));
        }
        let mut seen = HashSet::new();
        for (key, _) in &pairs {
            if let Value::Scalar { text, .. } = &*key.value
                && !seen.insert(text.as_str())
            {
                self.duplicates.push(key.clone());
            }
        }
        Ok(pairs)
    }

    fn complete(&mut self, value: Value, at: Range<usize>, anchor: usize) -> Result<(), Broken> {
        let value = Rc::new(value);
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        self.place(Node { value, at })
    }

    fn place(&mut self, node: Node) -> Result<(), Broken> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Broken {
                kind: BrokenKind::Bounds,
                at: node.at,
                message: format!("there are more than {MAX_NODES} values"),
            });
        }
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.root = Some(node),
        }
        Ok(())
    }
}

fn refuse_tag(tagged: bool, at: &Range<usize>) -> Result<(), Broken> {
    match tagged {
        true => Err(Broken {
            kind: BrokenKind::Feature,
            at: at.clone(),
            message: "YAML tags are not supported".into(),
        }),
        false => Ok(()),
    }
}
