//! Diagnostics about a file that a person wrote: the problem, its location, the rule, and the fix.

use serde::Serialize;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A rule is violated: `check` exits with 1, and a policy is rejected.
    Error,
    /// It works here, but may not work elsewhere or as intended.
    Warning,
    /// Nothing is wrong, but a person should look at it.
    Note,
}

/// One problem in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The stable name of the rule in `docs/reference/rules.md`, such as `name-pattern`.
    pub rule: &'static str,
    /// The problem, in one line without a full stop.
    pub message: String,
    /// The file, as the user named it.
    pub file: String,
    /// The location in the file; `None` if the diagnostic is about the whole file or folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// How to fix it: a line to write, or a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// A range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Span {
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Byte offset from the start of the file.
    pub offset: usize,
    /// Length in bytes; at least 1 if there is something to underline.
    pub length: usize,
}

impl Span {
    /// Returns the span of `length` bytes at `offset` of `text`. Moves an offset inside a character
    /// or past the end back to a character boundary. As in editors, a byte order mark at the start
    /// does not count as a column.
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

/// The width to which the renderer cuts snippets around their span, in columns.
const SNIPPET_WIDTH: usize = 140;
/// The most bytes of a line that the renderer gets. It gets a part around the span of a longer one.
const LONG_LINE: usize = 4 << 10;

/// Renders diagnostics as snippets of the source, as a compiler does. The caller strips the colours
/// if needed.
///
/// The renderer gets only the visible part of a line, so its cost does not grow with the length of
/// a line.
pub fn render(diagnostics: &[Diagnostic], source: &str) -> String {
    use annotate_snippets::{AnnotationKind, Level, Origin, Padding, Renderer, Snippet};
    let renderer = Renderer::styled().term_width(SNIPPET_WIDTH + 20);
    let mut out = String::new();
    for d in diagnostics {
        let level = match d.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
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
                    // Set the column here: the renderer would count it from the cut.
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

/// Quotes a word for a shell, if that is necessary, with visible control characters.
///
/// ```
/// use skillhost_policy::diagnostic::quoted;
/// assert_eq!(quoted("a/b.txt"), "a/b.txt");
/// assert_eq!(quoted("my file"), "'my file'");
/// assert_eq!(quoted("it's"), r"'it'\''s'");
/// ```
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,=:".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", printable(word).replace('\'', r"'\''"))
    }
}

/// Escapes untrusted text for printing: characters that control the terminal or reorder the line.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Checks whether a character controls the terminal, or hides or reorders other characters.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        // Tags, which spell ASCII invisibly.
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Escapes untrusted text of several lines; see [`printable`].
pub fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// The part of a span's first line that the renderer gets.
struct Excerpt {
    /// The text, without the line end and a byte order mark.
    line: String,
    /// The span, in bytes of `line`.
    at: std::ops::Range<usize>,
    /// Whether the start of the line is cut off.
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

/// Replaces each hidden character by one visible character, which keeps the columns. The renderer
/// has its own symbols for ASCII control characters.
fn shown(part: &str) -> String {
    part.chars()
        .map(|c| if is_hidden(c) && !c.is_ascii() { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Returns an error as a JSON object: a stable code, the message, and the fields of `details`, if
/// that is an object.
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
    fn columns_count_characters_except_the_byte_order_mark() {
        assert_eq!(Span::at("\u{feff}ab", 4, 1), Span { line: 1, column: 2, offset: 4, length: 1 });
        assert_eq!(Span::at("a\r\n\nüx", 6, 1), Span { line: 3, column: 2, offset: 6, length: 1 });
        assert_eq!(Span::at("ab", 9, 0), Span { line: 1, column: 3, offset: 2, length: 0 });
        assert!(snippet("\u{feff}ab", 0, 3).contains("1 | ab\n"));
        assert!(snippet("one\r\ntwo\r\n", 8, 100).contains("--> file:2:4\n"));
    }

    #[test]
    fn snippet_of_a_huge_line_is_short_and_has_the_right_column() {
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
