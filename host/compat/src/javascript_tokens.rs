//! Splits JavaScript and TypeScript into tokens, as far as needed to find imports and calls.
//!
//! It is not a parser, which would need a stack as deep as a stranger's script is nested. It accepts
//! any text, reads each byte at most twice, and does not recurse.

use super::tokens::{Kind, Token};

/// Returns the tokens of a text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer =
        Lexer { text, bytes: text.as_bytes(), at: 0, divides_until: 0, tokens: Vec::new() };
    if text.starts_with('\u{feff}') {
        lexer.at = 3;
    }
    if lexer.rest().starts_with(b"#!") {
        lexer.skip_line();
    }
    while lexer.next() {}
    lexer.tokens
}

/// Returns the value of a literal: with its escapes decoded, and `$value` for each `${...}`.
pub(super) fn value(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\\', '$']) {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest[at..].starts_with("${") {
            out.push_str("$value");
            rest = &rest[at + field(&rest.as_bytes()[at..])..];
            continue;
        }
        let Some(next) = after.chars().next().filter(|_| rest[at..].starts_with('\\')) else {
            out.push_str(&rest[at..=at]);
            rest = after;
            continue;
        };
        match next {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            // The next line continues this one.
            '\n' => {}
            other => out.push(other),
        }
        rest = &after[next.len_utf8()..];
    }
    out.push_str(rest);
    out
}

/// Returns the length of `${...}` at the start of a text: up to the brace that closes it, or to the
/// end of the text.
fn field(bytes: &[u8]) -> usize {
    /// What encloses a byte.
    #[derive(PartialEq)]
    enum Inside {
        Braces(usize),
        Template,
    }
    let mut stack = vec![Inside::Braces(0)];
    let mut at = 2;
    while let (Some(byte), Some(inside)) = (bytes.get(at), stack.last_mut()) {
        match (inside, byte) {
            (_, b'\\') => at += 1,
            (Inside::Template, b'`') => drop(stack.pop()),
            (Inside::Template, b'$') if bytes.get(at + 1) == Some(&b'{') => {
                stack.push(Inside::Braces(0));
                at += 1;
            }
            (Inside::Template, _) => {}
            (Inside::Braces(depth), b'{') => *depth += 1,
            (Inside::Braces(0), b'}') => {
                stack.pop();
                if stack.is_empty() {
                    return at + 1;
                }
            }
            (Inside::Braces(depth), b'}') => *depth -= 1,
            (Inside::Braces(_), b'`') => stack.push(Inside::Template),
            (Inside::Braces(_), b'"' | b'\'') => at += quoted(&bytes[at..]).unwrap_or(1) - 1,
            (Inside::Braces(_), _) => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Returns the length of the string at the start of a text, with its quotes; `None` if it does not
/// end on its line.
fn quoted(bytes: &[u8]) -> Option<usize> {
    let quote = *bytes.first()?;
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' => at += 2,
            b'\n' => return None,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The end of a line on which no regular expression starts before: one that began there did not
    /// end. Without it, a line of `/[` would be read once for each slash.
    divides_until: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    /// Reads a token, a comment or a space. Returns `false` at the end.
    fn next(&mut self) -> bool {
        let Some(byte) = self.bytes.get(self.at).copied() else { return false };
        let start = self.at;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.at += 1,
            b'/' if self.rest().starts_with(b"//") => self.skip_line(),
            b'/' if self.rest().starts_with(b"/*") => {
                let end = self.text[start + 2..].find("*/");
                self.at = end.map_or(self.bytes.len(), |end| start + 2 + end + 2);
            }
            b'/' => match self.regex() {
                Some(length) => self.push(Kind::Other, length),
                None => self.push(Kind::Op(byte), 1),
            },
            b'"' | b'\'' => match quoted(self.rest()) {
                Some(length) => {
                    let inner = start + 1..start + length - 1;
                    self.push(Kind::Text { inner, computed: false }, length);
                }
                // The apostrophe of a text in JSX.
                None => self.push(Kind::Other, 1),
            },
            b'`' => self.template(),
            // Outside of literals, this is part of a name. An escaped quote starts no string, so that
            // each line is searched for the end of a string at most twice.
            b'\\' => {
                let next = self.text[start + 1..].chars().next();
                self.push(Kind::Other, 1 + next.map_or(0, char::len_utf8));
            }
            b'0'..=b'9' => {
                let length = self.length(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
                self.push(Kind::Other, length);
            }
            _ if is_name(byte) => {
                let length = self.length(is_name);
                self.push(Kind::Name(&self.text[start..start + length]), length);
            }
            _ => self.push(Kind::Op(byte), 1),
        }
        true
    }

    /// Reads a template literal as one token.
    fn template(&mut self) {
        let start = self.at;
        let (mut at, mut computed) = (start + 1, false);
        loop {
            match self.bytes.get(at) {
                Some(b'\\') => at += 2,
                Some(b'$') if self.bytes.get(at + 1) == Some(&b'{') => {
                    computed = true;
                    at += field(&self.bytes[at..]);
                }
                Some(b'`') | None => break,
                Some(_) => at += 1,
            }
        }
        let end = at.min(self.bytes.len());
        let inner = start + 1..self.text.floor_char_boundary(end).max(start + 1);
        self.push(Kind::Text { inner, computed }, (end + 1).min(self.bytes.len()) - start);
    }

    /// Returns the length of a regular expression; `None` if the slash divides.
    fn regex(&mut self) -> Option<usize> {
        let divides = match self.tokens.last().map(|token| &token.kind) {
            Some(Kind::Name(name)) => !BEFORE_VALUES.contains(name),
            Some(Kind::Op(op)) => matches!(op, b')' | b']'),
            Some(Kind::Text { .. } | Kind::Other) => true,
            None => false,
        };
        if divides || self.at < self.divides_until {
            return None;
        }
        let rest = self.rest();
        let (mut at, mut in_class) = (1, false);
        loop {
            match rest.get(at) {
                Some(b'\\') => at += 1,
                Some(b'\n') | None => {
                    self.divides_until = self.at + at;
                    return None;
                }
                Some(b'[') => in_class = true,
                Some(b']') => in_class = false,
                Some(b'/') if !in_class => break,
                Some(_) => {}
            }
            at += 1;
        }
        let flags = rest[at + 1..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
        Some(at + 1 + flags)
    }

    fn push(&mut self, kind: Kind<'a>, length: usize) {
        self.tokens.push(Token { kind, at: self.at..self.at + length });
        self.at += length;
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn length(&self, holds: impl Fn(u8) -> bool) -> usize {
        self.rest().iter().take_while(|byte| holds(**byte)).count()
    }

    fn skip_line(&mut self) {
        self.at += self.length(|byte| byte != b'\n');
    }
}

/// The keywords after which a value begins, so that a slash starts a regular expression.
const BEFORE_VALUES: [&str; 14] = [
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "instanceof",
    "do",
    "else",
    "yield",
    "await",
];

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the tokens: names, `'texts'`, `'computed texts'$`, operators, and `0` for others.
    fn shown(text: &str) -> String {
        let one = |token: Token<'_>| match token.kind {
            Kind::Name(name) => name.to_owned(),
            Kind::Text { inner, computed } => {
                format!("'{}'{}", &text[inner], if computed { "$" } else { "" })
            }
            Kind::Op(op) => char::from(op).to_string(),
            Kind::Other => "0".to_owned(),
        };
        tokens(text).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn literals_comments_and_operators_are_told_apart() {
        for (text, expected) in [
            ("#!/usr/bin/env node\nlet a = 1.5e3;", "let a = 0 ;"),
            ("a /* ' */ + // \"\n'b\\'c'", "a + 'b\\'c'"),
            ("`a ${b} c`", "'a ${b} c'$"),
            ("`a ${ {x: `}${'`'}`} } c` + d", "'a ${ {x: `}${'`'}`} } c'$ + d"),
            ("`plain $ {x}`", "'plain $ {x}'"),
            ("x = /a\"[/]\\//g; y", "x = 0 ; y"),
            ("a / b / c", "a / b / c"),
            ("(a) / 2 / '1'", "( a ) / 0 / '1'"),
            ("return /'/.test(x)", "return 0 . test ( x )"),
            ("<p>Don't</p>\n'x'", "< p > Don 0 t < / p > 'x'"),
            ("été#b", "été # b"),
            ("`open", "'open'"),
            ("`open ${ a", "'open ${ a'$"),
            ("'\\", "0 0"),
            ("\\é'x'", "0 'x'"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn values_of_literals_are_decoded() {
        for (raw, expected) in [
            ("plain", "plain"),
            ("a\\'b\\n\\u{e9}", "a'b\nu{e9}"),
            ("git log ${since} -- $x", "git log $value -- $x"),
            ("${`${a}`}", "$value"),
            ("${open", "$value"),
            ("end\\", "end\\"),
            ("a \\\n b", "a  b"),
        ] {
            assert_eq!(value(raw), expected, "{raw}");
        }
    }

    #[test]
    fn hostile_nesting_is_read_in_bounded_time_and_stack() {
        for deep in ["`${", "{[(", "'", "\\'", "/[", "\\/", "`", "${", "/*", "${'\\'"] {
            let text = deep.repeat(100_000);
            assert!(tokens(&text).len() <= text.len(), "{deep}");
            assert!(value(&text).len() <= 6 * text.len(), "{deep}");
        }
    }
}
