//! One finding about a file that someone wrote: what is wrong, where, which rule says so, and what
//! would mend it.

use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Against the rules: `check` exits with 1, and a policy with one is not used.
    Error,
    /// Works here; may not work elsewhere, or not as meant.
    Warning,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Diagnostic {
    /// How much it matters.
    pub severity: Severity,
    /// The rule's stable name, as in `docs/reference/rules.md`, such as `name-pattern`.
    pub rule: &'static str,
    /// What is wrong, in one line without a full stop.
    pub message: String,
    /// The file, as the user named it.
    pub file: String,
    /// Where in the file; `None` where it is about the whole file or folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// What would mend it: a line to write, or a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Span {
    /// 1-based line.
    pub line: usize,
    /// 1-based column, counted in characters.
    pub column: usize,
    /// Byte offset from the file's start.
    pub offset: usize,
    /// Bytes; at least 1 where there is something to underline.
    pub length: usize,
}

impl Span {
    /// The span of `length` bytes at `offset` of `text`. An offset inside a character or past the
    /// end is moved back to a boundary. A byte order mark at the start takes no column, as in
    /// editors.
    pub fn at(text: &str, offset: usize, length: usize) -> Span {
        let offset = text.floor_char_boundary(offset);
        let before = &text[..offset];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let column = before[start..].chars().filter(|c| *c != BOM).count() + 1;
        Span { line: before.bytes().filter(|b| *b == b'\n').count() + 1, column, offset, length }
    }
}

/// The byte order mark, which editors do not show.
const BOM: char = '\u{feff}';

/// Columns that the renderer cuts snippets to, around their span.
const SNIPPET_WIDTH: usize = 140;
/// Bytes of a line that the renderer is given; of a longer one it gets a part around the span.
const LONG_LINE: usize = 4 << 10;

/// Findings as snippets that point into the source, the way a compiler prints them. Colours are for
/// the caller to strip.
///
/// The cost does not grow with the length of a line: of each line, only what is shown is handed to
/// the renderer.
pub fn render(diagnostics: &[Diagnostic], source: &str) -> String {
    use annotate_snippets::{AnnotationKind, Level, Origin, Padding, Renderer, Snippet};
    let renderer = Renderer::styled().term_width(SNIPPET_WIDTH + 20);
    let mut out = String::new();
    for d in diagnostics {
        let level = match d.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let (message, file, fix) = (
            printable_lines(&d.message),
            printable(&d.file),
            d.fix.as_deref().map(printable_lines),
        );
        let group = level.primary_title(&message).id(d.rule);
        let group = match d.span {
            Some(span) => {
                let Excerpt { line, at, cut } = excerpt(source, span);
                let snippet = Snippet::source(line)
                    .line_start(span.line)
                    .annotation(AnnotationKind::Primary.span(at));
                match cut {
                    // The renderer would count columns from the cut.
                    true => group
                        .element(Origin::path(file).line(span.line).char_column(span.column))
                        .element(Padding)
                        .element(snippet),
                    false => group.element(snippet.path(file)),
                }
            }
            None => group.element(Origin::path(file)),
        };
        let group = match fix {
            Some(fix) => group.element(Level::HELP.message(fix)),
            None => group,
        };
        out.push_str(&renderer.render(&[group]));
        out.push_str("\n\n");
    }
    out
}

/// A stranger's text, safe to print: what would move the cursor or turn the line around is escaped.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Whether a character is one that a terminal acts on, or that turns or hides its neighbours.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The same for a text of several lines.
pub fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// The line that a span starts in, as the renderer gets it.
struct Excerpt {
    /// Without its end and a byte order mark.
    line: String,
    /// The span's part in it.
    at: std::ops::Range<usize>,
    /// Whether its beginning is left out.
    cut: bool,
}

fn excerpt(source: &str, span: Span) -> Excerpt {
    let offset = source.floor_char_boundary(span.offset);
    let start = source[..offset].rfind('\n').map_or(0, |i| i + 1);
    let end = source[offset..].find('\n').map_or(source.len(), |i| offset + i);
    let line = source[start..end].trim_end_matches('\r');
    let line_without_mark = line.strip_prefix(BOM).filter(|_| start == 0).unwrap_or(line);
    let mark = line.len() - line_without_mark.len();
    let (line, from) =
        (line_without_mark, (offset - start).saturating_sub(mark).min(line_without_mark.len()));

    let cut = line.len() > LONG_LINE && from > LONG_LINE / 2;
    let left = if cut { line.floor_char_boundary(from - LONG_LINE / 2) } else { 0 };
    let right = line.floor_char_boundary((left + LONG_LINE).min(line.len()));
    let to = line.ceil_char_boundary(from + span.length).min(right);
    let (before, marked, after) = (
        shown(&line[left..from]),
        shown(&line[from..to.max(from)]),
        shown(&line[to.max(from)..right]),
    );
    Excerpt { at: before.len()..before.len() + marked.len(), line: before + &marked + &after, cut }
}

/// A part of a line, a character for a character, so that columns stay. The renderer has signs of
/// its own for ASCII's control characters.
fn shown(part: &str) -> String {
    part.chars()
        .map(|c| if is_hidden(c) && !c.is_ascii() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// An error as JSON: a code that stays the same between versions, the message, and details that are
/// an object or nothing.
pub fn error_object(
    code: &str,
    message: &impl std::fmt::Display,
    details: serde_json::Value,
) -> serde_json::Value {
    let mut object = serde_json::json!({ "code": code, "message": message.to_string() });
    if let (Some(object), serde_json::Value::Object(details)) = (object.as_object_mut(), details) {
        object.extend(details);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snippet(source: &str, offset: usize, length: usize) -> String {
        let span = Some(Span::at(source, offset, length));
        let (message, file) = ("wrong".to_owned(), "file".to_owned());
        let finding =
            Diagnostic { severity: Severity::Error, rule: "rule", message, file, span, fix: None };
        anstream::adapter::strip_str(&render(&[finding], source)).to_string()
    }

    #[test]
    fn columns_count_characters_and_leave_the_byte_order_mark_out() {
        assert_eq!(Span::at("\u{feff}ab", 4, 1), Span { line: 1, column: 2, offset: 4, length: 1 });
        assert_eq!(Span::at("a\r\n\nüx", 6, 1), Span { line: 3, column: 2, offset: 6, length: 1 });
        assert_eq!(Span::at("ab", 9, 0), Span { line: 1, column: 3, offset: 2, length: 0 });
        assert!(snippet("\u{feff}ab", 0, 3).contains("1 | ab\n"));
        assert!(snippet("one\r\ntwo\r\n", 8, 100).contains("--> file:2:4\n"));
    }

    #[test]
    fn a_snippet_of_a_huge_line_is_short_and_names_the_right_column() {
        let source = format!("{}NEEDLE{}", "é".repeat(300_000), "z".repeat(500_000));
        let shown = snippet(&source, 600_000, 6);
        assert!(
            shown.contains("file:1:300001") && shown.contains("NEEDLE") && shown.contains("^^^^^^"),
            "{shown}"
        );
        assert!(shown.chars().count() < 1_000, "{} characters", shown.chars().count());
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_is_rendered(source in "(\\PC|\r|\n|\t|\u{feff}){0,60}", offset in 0usize..300, length in 0usize..300) {
            prop_assert!(snippet(&source, offset, length).contains("wrong"));
        }
    }
}
