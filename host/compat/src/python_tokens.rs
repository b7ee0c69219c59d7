//! Splits Python source into logical lines of tokens, as CPython's tokenizer does, as far as needed to
//! find imports and calls.
//!
//! It accepts any text, reads each byte once, and limits nesting.

use super::tokens::{Kind, Token};

/// The most levels of nested f-strings. CPython allows 150, people write 2.
const MAX_NESTING: usize = 16;

/// A logical line: one or more statements separated by `;`. Brackets and strings can continue it over
/// several lines.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    /// The indentation in columns. A tab advances to the next multiple of 8.
    pub(super) indent: usize,
    pub(super) tokens: Vec<Token<'a>>,
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Lexer { text, bytes: text.as_bytes(), at }
    }

    /// Reads the next line with a token into `line`. Returns `false` at the end.
    pub(super) fn next_line(&mut self, line: &mut Line<'a>) -> bool {
        line.tokens.clear();
        line.indent = self.indent();
        let mut depth = 0usize;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' | b'\r' => {
                    self.at += 1;
                    if line.tokens.is_empty() {
                        line.indent = self.indent();
                    } else if depth == 0 || self.starts_over() {
                        return true;
                    }
                }
                b' ' | b'\t' | 0x0c => self.at += 1,
                b'\\' => self.at += self.line_end(1) + 1,
                b'#' => self.skip_while(|b| b != b'\n' && b != b'\r'),
                b'"' | b'\'' => {
                    let token = self.string(self.at, false, 0);
                    line.tokens.push(token);
                }
                b'0'..=b'9' => {
                    let start = self.at;
                    self.skip_while(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                    line.tokens.push(Token { kind: Kind::Other, at: start..self.at });
                }
                _ if is_name(byte) => {
                    let token = self.name(0);
                    line.tokens.push(token);
                }
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => depth += 1,
                        b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    line.tokens.push(Token { kind: Kind::Op(byte), at: self.at..self.at + 1 });
                    self.at += 1;
                }
            }
        }
        !line.tokens.is_empty()
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&holds) {
            self.at += 1;
        }
    }

    /// Returns the length of the line end that is `ahead` bytes ahead, or 0.
    fn line_end(&self, ahead: usize) -> usize {
        match (self.peek(ahead), self.peek(ahead + 1)) {
            (Some(b'\r'), Some(b'\n')) => 2,
            (Some(b'\r' | b'\n'), _) => 1,
            _ => 0,
        }
    }

    fn indent(&mut self) -> usize {
        let mut columns = 0;
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' => columns += 1,
                b'\t' => columns = columns / 8 * 8 + 8,
                0x0c => columns = 0,
                _ => break,
            }
            self.at += 1;
        }
        columns
    }

    /// Checks whether this line can only start a statement. Then a bracket before it was not closed.
    fn starts_over(&self) -> bool {
        let rest = &self.bytes[self.at..];
        ["import ", "def ", "class "].iter().any(|keyword| rest.starts_with(keyword.as_bytes()))
    }

    /// Reads a name, or the string of which it is the prefix.
    fn name(&mut self, nesting: usize) -> Token<'a> {
        let start = self.at;
        self.skip_while(is_name);
        let name = &self.text[start..self.at];
        let prefix = name.len() <= 2
            && name
                .bytes()
                .all(|b| matches!(b.to_ascii_lowercase(), b'r' | b'b' | b'u' | b'f' | b't'));
        if prefix && matches!(self.peek(0), Some(b'"' | b'\'')) {
            let fields = name.bytes().any(|b| matches!(b.to_ascii_lowercase(), b'f' | b't'));
            return self.string(start, fields, nesting);
        }
        Token { kind: Kind::Name(name), at: start..self.at }
    }

    /// Reads the string at this opening quote. Its prefix starts at `start`.
    fn string(&mut self, start: usize, fields: bool, nesting: usize) -> Token<'a> {
        let quote = self.bytes[self.at];
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        let length = if triple { 3 } else { 1 };
        self.at += length;
        let from = self.at;
        let mut computed = false;
        let mut end = None;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' if fields && self.bytes[self.at..].starts_with(b"\\N{") => {
                    self.at += 3;
                    self.skip_while(|b| b != b'}' && b != quote && b != b'\n');
                }
                b'\\' => self.at += 1 + self.line_end(1).max(1),
                b'\n' | b'\r' if !triple => break,
                _ if byte == quote
                    && (!triple
                        || (self.peek(1) == Some(quote) && self.peek(2) == Some(quote))) =>
                {
                    end = Some(self.at);
                    self.at += length;
                    break;
                }
                b'{' if fields && self.peek(1) == Some(b'{') => self.at += 2,
                b'{' if fields && nesting < MAX_NESTING => {
                    computed = true;
                    self.at += 1;
                    self.field(triple, nesting + 1);
                }
                _ => self.at += 1,
            }
        }
        self.at = self.at.min(self.bytes.len());
        // Skipping the byte after a backslash may end inside a character.
        let end = self.text.floor_char_boundary(end.unwrap_or(self.at)).max(from);
        self.at = self.text.ceil_char_boundary(self.at);
        Token { kind: Kind::Text { inner: from..end, computed }, at: start..self.at.max(end) }
    }

    /// Reads a replacement field, from after its `{` to after its `}`.
    fn field(&mut self, triple: bool, nesting: usize) {
        let mut depth = 0usize;
        let mut format = false;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' | b'\r' if !triple => return,
                b'"' | b'\'' if format => return,
                b'"' | b'\'' => drop(self.string(self.at, false, nesting)),
                _ if !format && is_name(byte) => drop(self.name(nesting)),
                b'}' if depth == 0 => {
                    self.at += 1;
                    return;
                }
                b'{' if format && nesting < MAX_NESTING => {
                    self.at += 1;
                    self.field(triple, nesting + 1);
                }
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => depth += 1,
                        b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                        b':' if depth == 0 => format = true,
                        _ => {}
                    }
                    self.at += 1;
                }
            }
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats each logical line: its indent and tokens, with strings without quotes.
    fn lines(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut line = Line::default();
        let mut found = Vec::new();
        while lexer.next_line(&mut line) {
            let tokens = line.tokens.iter().map(|token| match &token.kind {
                Kind::Text { inner, computed } => {
                    format!("<{}{}>", if *computed { "f " } else { "" }, &text[inner.clone()])
                }
                _ => text[token.at.clone()].to_owned(),
            });
            found.push(format!("{}|{}", line.indent, tokens.collect::<Vec<_>>().join(" ")));
        }
        found
    }

    #[test]
    fn brackets_strings_and_backslashes_continue_lines() {
        assert_eq!(
            lines("import a, \\\n  b # c\nfrom x import (y, # (\n  z,\n)\nq"),
            ["0|import a , b", "0|from x import ( y , z , )", "0|q"]
        );
        assert_eq!(
            lines("\u{feff}\"\"\"one\ntwo \"quoted\" \"\"\"\r\n\tx = 1.5e3\r\n"),
            ["0|<one\ntwo \"quoted\" >", "8|x = 1.5e3"]
        );
        assert_eq!(lines(r"a = 'it\'s' + r'\'' + '\\'"), [r"0|a = <it\'s> + <\'> + <\\>"]);
        assert_eq!(lines("'a\\\nb'\nc"), ["0|<a\\\nb>", "0|c"]);
        assert_eq!(lines("  # only\n\n  \n    a\n"), ["4|a"]);
    }

    #[test]
    fn f_string_fields_can_contain_quotes() {
        assert_eq!(
            lines(r#"f"{x["a"]} {y!r:>{w}}" + 'z'"#),
            [r#"0|<f {x["a"]} {y!r:>{w}}> + <z>"#]
        );
        assert_eq!(
            lines(r#"f"{{import}}", rb'x', f'\N{DASH}', t"{a}""#),
            [r"0|<{{import}}> , <x> , <\N{DASH}> , <f {a}>"]
        );
        assert_eq!(
            lines("f'''{\n  f\"{'import'}\"\n}'''\nb"),
            ["0|<f {\n  f\"{'import'}\"\n}>", "0|b"]
        );
        assert_eq!(
            lines(r#"f"{d['a']:{'x' if y else 'z'}} {(lambda: 1)()}""#),
            [r#"0|<f {d['a']:{'x' if y else 'z'}} {(lambda: 1)()}>"#]
        );
    }

    #[test]
    fn reading_resumes_after_invalid_text() {
        assert_eq!(lines("a = 'open\nimport b\n"), ["0|a = <open>", "0|import b"]);
        assert_eq!(lines("f(1,\nimport b\n"), ["0|f ( 1 ,", "0|import b"]);
        assert_eq!(lines("f\"{'\nimport b"), ["0|<f {'>", "0|import b"]);
        assert_eq!(lines("\"\"\"never closed\nimport b"), ["0|<never closed\nimport b>"]);
        assert_eq!(lines("'\\é\\"), ["0|<\\é\\>"]);
    }
}
