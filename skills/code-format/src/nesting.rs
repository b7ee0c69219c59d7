//! Finds texts that nest too deeply, before a parser recurses into them: the stack of a component
//! is small, and a trap loses the results of all files. `code-lint` compiles this file too.
//!
//! The checks read no more of a language than they need. They may take a text for deeper or flatter
//! than it is, so the limits are several times what people write, and about half of the depth at
//! which the parsers were seen to trap.

use std::ops::RangeInclusive;

/// Where a text nests too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooDeep {
    /// The offset in bytes.
    pub offset: usize,
    /// The maximum number of levels.
    pub limit: usize,
}

impl TooDeep {
    /// Describes it, with the line.
    pub fn message(self, text: &str) -> String {
        let before = &text.as_bytes()[..self.offset.min(text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("the text nests deeper than {} levels at line {line}", self.limit)
    }
}

/// What the check of brackets knows about a language.
#[derive(Debug, Clone, Copy)]
pub struct Lexis {
    /// The brackets that nest.
    pub open: &'static [u8],
    /// What strings begin and end with. Only those that end in their line are recognised, so that
    /// an apostrophe in a comment does not hide the rest of the text.
    pub quotes: &'static [u8],
    /// What a comment begins and ends with. Those that end with the line begin after a space. Empty
    /// if the language has no comments, or if what begins them also occurs elsewhere.
    pub comment: (&'static str, &'static str),
    /// Whether operators nest, as in expressions.
    pub operators: bool,
    /// The maximum number of arrays directly in each other. Some formatters take exponential time
    /// for them.
    pub arrays: usize,
}

impl Lexis {
    /// Returns where the comment ends that starts here, if one does.
    fn comment_end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let (start, end) = self.comment;
        let after_space = at == 0 || bytes[at - 1].is_ascii_whitespace();
        let starts = !start.is_empty() && bytes[at..].starts_with(start.as_bytes());
        if !starts || end == "\n" && !after_space {
            return None;
        }
        let from = at + start.len();
        let length = bytes[from..].windows(end.len()).position(|text| text == end.as_bytes());
        Some(length.map_or(bytes.len(), |length| from + length))
    }
}

/// The weight of a bracket. Parsers need more stack for it than for an operator.
const BRACKET: usize = 4;
/// The weight of each word in `PREFIXES`, of `=>`, and of `<` after a name.
const PREFIX: usize = 2;
/// Words that stand before an operand. Parsers recurse for each of them.
const PREFIXES: [&[u8]; 15] = [
    b"await",
    b"class",
    b"const",
    b"delete",
    b"extends",
    b"keyof",
    b"lambda",
    b"mut",
    b"new",
    b"not",
    b"readonly",
    b"return",
    b"typeof",
    b"void",
    b"yield",
];

/// Operators of any language that occur before operands, or bind to the right.
const OPERATORS: &[u8] = b"!-+~&*>=?<";
/// The lengths of lines that are drawn in comments, such as `// ------` and `+----+----+`.
const RULE: RangeInclusive<usize> = 4..=160;

/// Checks brackets and, if they nest, operators: `!!!!a`, `not not a`, `a = b = c`, `A<A<A<A>>>`.
pub fn brackets(text: &str, lexis: Lexis, limit: usize) -> Option<TooDeep> {
    let bytes = text.as_bytes();
    let mut depth = Depth::default();
    let mut at = 0;
    while at < bytes.len() {
        if let Some(end) = lexis.comment_end(bytes, at) {
            at = end;
            continue;
        }
        let byte = bytes[at];
        let mut next = at + 1;
        match byte {
            b'\n' => depth.line_ended = true,
            b' ' | b'\t' | b'\r' => {}
            // What is escaped is neither a quote nor a bracket.
            b'\\' => {
                next += 1;
                depth.end_run();
            }
            _ if lexis.quotes.contains(&byte) => {
                next = string_end(bytes, at).unwrap_or(next);
                depth.end_run();
            }
            _ if lexis.open.contains(&byte) => depth.open(byte),
            b')' => depth.close(b'('),
            b']' => depth.close(b'['),
            b'}' => depth.close(b'{'),
            _ if lexis.operators && OPERATORS.contains(&byte) => next = depth.operator(bytes, at),
            _ if is_word(byte) => {
                next = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                let is_prefix = lexis.operators && PREFIXES.contains(&&bytes[at..next]);
                depth.word(is_prefix);
            }
            _ => depth.end_run(),
        }
        if depth.outer + depth.run > limit * BRACKET {
            return Some(TooDeep { offset: at, limit });
        }
        if depth.open.last().is_some_and(|open| open.arrays > lexis.arrays) {
            return Some(TooDeep { offset: at, limit: lexis.arrays });
        }
        at = next;
    }
    None
}

/// The depth at a position of a text, in weights.
#[derive(Default)]
struct Depth {
    open: Vec<Open>,
    /// The weight of the open brackets and of the operators before each.
    outer: usize,
    /// The weight of the operators since the last bracket or separator.
    run: usize,
    /// The last token of the run, and whether its line has ended.
    last: Option<Token>,
    line_ended: bool,
}

/// An open bracket.
struct Open {
    bracket: u8,
    /// The weight of what is outside of it.
    outer: usize,
    /// The number of `[` that directly contain each other and end with this one.
    arrays: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Operator,
    Word,
}

impl Depth {
    fn open(&mut self, bracket: u8) {
        let outside = self.open.last().map_or(0, |open| open.arrays);
        let arrays = if bracket == b'[' { outside + 1 } else { 0 };
        self.open.push(Open { bracket, outer: self.outer, arrays });
        self.outer += self.run + BRACKET;
        self.end_run();
    }

    /// Closes the last bracket of this kind, and those in it, which were in texts or comments.
    fn close(&mut self, bracket: u8) {
        if let Some(at) = self.open.iter().rposition(|open| open.bracket == bracket) {
            self.outer = self.open[at].outer;
            self.open.truncate(at);
        }
        self.end_run();
    }

    /// Reads an operator, and returns its end.
    fn operator(&mut self, bytes: &[u8], at: usize) -> usize {
        let (first, rest) = (bytes[at], &bytes[at..]);
        let is_binary = self.last == Some(Token::Word);
        let continues = |byte: &u8| *byte == first || is_binary && matches!(byte, b'=' | b'>');
        let mut length = rest.iter().take_while(|byte| continues(byte)).count();
        let weight = if is_binary {
            length = length.min(3);
            let touches_name = at > 0 && is_word(bytes[at - 1]);
            // Parsers recurse for those whose right side contains the rest, not for `a + b + c`.
            match &rest[..length] {
                b"=" | b"**" | b"?" => 1,
                b"=>" => PREFIX,
                b"<" if touches_name => PREFIX,
                _ => 0,
            }
        } else if RULE.contains(&length) {
            1
        } else {
            length
        };
        self.token(Token::Operator, weight);
        at + length
    }

    fn word(&mut self, is_prefix: bool) {
        self.token(Token::Word, if is_prefix { PREFIX } else { 0 });
        // What follows it is not a second operand.
        if is_prefix {
            self.last = Some(Token::Operator);
        }
    }

    fn token(&mut self, token: Token, weight: usize) {
        // An expression continues in the next line between an operator and a word. Two words belong
        // to different statements.
        if self.line_ended && self.last == Some(token) {
            self.run = 0;
        }
        self.run += weight;
        (self.last, self.line_ended) = (Some(token), false);
    }

    fn end_run(&mut self) {
        self.run = 0;
        (self.last, self.line_ended) = (None, false);
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Returns the end of a string, if it ends in its line.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at).filter(|byte| **byte != b'\n') {
        match *byte {
            b'\\' => at += 2,
            _ if *byte == bytes[start] => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

fn line_end(bytes: &[u8], start: usize) -> usize {
    let length = bytes[start..].iter().position(|byte| *byte == b'\n');
    length.map_or(bytes.len(), |length| start + length)
}

/// Checks the brackets of each paragraph of a document, which end with it.
pub fn paragraphs(text: &str, limit: usize) -> Option<TooDeep> {
    const PROSE: Lexis = Lexis {
        open: b"([{",
        quotes: b"",
        comment: ("", ""),
        operators: false,
        arrays: usize::MAX,
    };
    let mut start = 0;
    for paragraph in text.split("\n\n") {
        if let Some(deep) = brackets(paragraph, PROSE, limit) {
            return Some(TooDeep { offset: start + deep.offset, ..deep });
        }
        start += paragraph.len() + 2;
    }
    None
}

/// Checks blocks that nest by indentation, or by markers at the start of a line: `> > - 1. a`.
pub fn blocks(text: &str, limit: usize) -> Option<TooDeep> {
    // The columns of the blocks that contain the current one, and its own.
    let mut columns: Vec<usize> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let mut column = 0;
        loop {
            let rest = line[column..].trim_start_matches([' ', '\t']);
            column = line.len() - rest.len();
            if rest.trim_end().is_empty() {
                break;
            }
            columns.truncate(columns.partition_point(|outer| *outer < column));
            columns.push(column);
            if columns.len() > limit {
                return Some(TooDeep { offset: start + column, limit });
            }
            let Some(length) = marker(rest) else { break };
            column += length;
        }
        start += line.len();
    }
    None
}

/// Returns the length of the marker of a quote or of a list item that a text begins with.
fn marker(text: &str) -> Option<usize> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = match text.as_bytes().get(digits)? {
        b'>' if digits == 0 => return Some(1),
        b'-' | b'+' | b'*' | b'?' if digits == 0 => 1,
        b'.' | b')' if digits > 0 => digits + 1,
        _ => return None,
    };
    text[length..].starts_with([' ', '\t', '\r', '\n']).then_some(length)
}

/// Checks the emphasis of a Markdown text: `*a *b *c* b* a*`.
pub fn emphasis(text: &str, limit: usize) -> Option<TooDeep> {
    let (mut depth, mut start, mut is_code) = (0_usize, 0, false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        is_code ^= is_fence;
        // Emphasis ends with its paragraph.
        if trimmed.is_empty() || is_fence {
            depth = 0;
        }
        if !is_code && !is_fence {
            let bytes = line.as_bytes();
            let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| !is_word(*byte));
            let mut at = 0;
            while at < bytes.len() {
                let length = bytes[at..].iter().take_while(|byte| **byte == bytes[at]).count();
                if matches!(bytes[at], b'*' | b'_') {
                    let before = is_edge(at.checked_sub(1).and_then(|before| bytes.get(before)));
                    match (before, is_edge(bytes.get(at + length))) {
                        (true, false) => depth += length,
                        (false, true) => depth = depth.saturating_sub(length),
                        _ => {}
                    }
                    if depth > limit {
                        return Some(TooDeep { offset: start + at, limit });
                    }
                }
                at += length;
            }
        }
        start += line.len();
    }
    None
}

/// HTML elements without content or end tag.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// HTML elements whose content has no tags.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

/// Checks the elements of a page.
pub fn elements(text: &str, limit: usize) -> Option<TooDeep> {
    let is_one_of =
        |names: &[&str], name: &str| names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let mut open: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        let rest = &text[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            at = start + 4 + comment.find("-->").unwrap_or(comment.len());
            continue;
        }
        let closes = rest.starts_with('/');
        let tag = &rest[usize::from(closes)..];
        let length = tag.bytes().take_while(|byte| is_word(*byte) || *byte == b'-').count();
        let name = &tag[..length];
        if !name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            at = start + 1;
            continue;
        }
        let end = tag_end(tag);
        at = start + 1 + usize::from(closes) + end;
        if closes {
            if let Some(last) = open.iter().rposition(|one| one.eq_ignore_ascii_case(name)) {
                open.truncate(last);
            }
        } else if !tag[..end].ends_with("/>") && !is_one_of(&VOID, name) {
            open.push(name);
            if open.len() > limit {
                return Some(TooDeep { offset: start, limit });
            }
            if is_one_of(&RAW, name) {
                at += raw_end(&text[at..], name);
            }
        }
    }
    None
}

/// Returns the end of a tag, after the `>` that is not in an attribute.
fn tag_end(tag: &str) -> usize {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    tag.len()
}

/// Returns the length of a content that only the end tag of its element ends.
fn raw_end(text: &str, name: &str) -> usize {
    let ends = |at: &usize| {
        text.get(at + 2..at + 2 + name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name))
    };
    text.match_indices("</").map(|(at, _)| at).find(ends).unwrap_or(text.len())
}

/// Checks a shell script: groups, functions, substitutions, and `time` and `coproc` before each
/// other. Two loops count as one level. Tests, calculations and the other compound commands need no
/// check, because the parser has a limit for them that it can afford.
pub fn shell(text: &str, limit: usize) -> Option<TooDeep> {
    let bytes = text.as_bytes();
    let mut script = Script { starts: true, ..Script::default() };
    let mut at = 0;
    while at < bytes.len() {
        let next = script.step(bytes, at);
        if script.open.len() + script.run + script.loops / 2 > limit {
            return Some(TooDeep { offset: at, limit });
        }
        at = next;
    }
    None
}

/// The state at a position of a shell script.
#[derive(Default)]
struct Script {
    /// The open brackets: `(`, `{`, and `$` for `${`.
    open: Vec<u8>,
    loops: usize,
    /// The number of `time` and `coproc` before each other.
    run: usize,
    /// Whether a command may start here.
    starts: bool,
}

impl Script {
    /// Reads what is at a position, and returns its end.
    fn step(&mut self, bytes: &[u8], at: usize) -> usize {
        let follows = bytes.get(at + 1).copied().unwrap_or(b'\n');
        match (bytes[at], follows) {
            (b' ' | b'\t' | b'\r', _) => {}
            (b'\\', b'\n') => return at + 2,
            (b'#', _) if self.starts => return line_end(bytes, at),
            (b'$' | b'<' | b'>', b'(') => {
                self.open(b'(', true);
                return at + 2;
            }
            (b'$', b'{') => {
                self.open(b'$', false);
                return at + 2;
            }
            // Of the declaration of a function.
            (b'(', b')') => {
                self.starts = true;
                return at + 2;
            }
            (b'(', _) if self.starts => self.open(b'(', true),
            (b'{', _) if self.starts && follows.is_ascii_whitespace() => self.open(b'{', true),
            (b')', _) => {
                self.close(b'(');
                self.starts = true;
            }
            (b'}', _) => {
                let ends_group = self.starts && self.open.last() != Some(&b'$');
                self.close(if ends_group { b'{' } else { b'$' });
            }
            (b'\n' | b';' | b'&' | b'|' | b'`' | b'!', _) => (self.starts, self.run) = (true, 0),
            (b'\'', _) => {
                self.starts = false;
                let end = bytes[at + 1..].iter().position(|byte| matches!(byte, b'\'' | b'\n'));
                // A string of several lines is read as code, because this may be an apostrophe.
                return match end.map(|length| at + 1 + length) {
                    Some(end) if bytes[end] == b'\'' => end + 1,
                    _ => at + 1,
                };
            }
            (b'\\', _) => {
                self.starts = false;
                return at + 2;
            }
            (byte, _) if is_word(byte) => {
                let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                self.word(&bytes[at..at + length]);
                return at + length;
            }
            _ => self.starts = false,
        }
        at + 1
    }

    fn word(&mut self, word: &[u8]) {
        if !std::mem::take(&mut self.starts) {
            return;
        }
        match word {
            b"for" | b"select" => self.loops += 1,
            b"done" => self.loops = self.loops.saturating_sub(1),
            b"time" | b"coproc" => (self.starts, self.run) = (true, self.run + 1),
            b"if" | b"elif" | b"then" | b"else" | b"while" | b"until" | b"do" => self.starts = true,
            _ => self.run = 0,
        }
    }

    fn open(&mut self, bracket: u8, starts: bool) {
        self.open.push(bracket);
        self.starts = starts;
    }

    fn close(&mut self, bracket: u8) {
        if let Some(at) = self.open.iter().rposition(|open| *open == bracket) {
            self.open.truncate(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CODE: Lexis =
        Lexis { open: b"([{", quotes: b"\"'", comment: ("//", "\n"), operators: true, arrays: 3 };

    /// The offset at which a check of two levels fails.
    fn offset(check: impl Fn(&str, usize) -> Option<TooDeep>, text: &str) -> Option<usize> {
        check(text, 2).map(|deep| deep.offset)
    }

    #[test]
    fn brackets_and_operators_nest() {
        let check = |text: &str, limit| brackets(text, CODE, limit);
        for (text, expected) in [
            ("(((", Some(2)),
            ("f(a[b{", Some(5)),
            ("! ! ! ! ! ! ! ! !", Some(16)),
            ("not not not not not a", Some(16)),
            ("a=a=a=a=a=a=a=a=a=a", Some(17)),
            ("A<A<A<A<A<A", Some(9)),
            ("(!!!(", Some(4)),
            ("((a)(b)((", Some(8)),
            ("(a)[b]{c}(d)[e]{f}", None),
            ("[(][(][(][(]", None),
            ("a + a + a + a + a + a + a + a + a + a", None),
            ("a = 1\nb = 2\nc = 3\nd = 4\ne = 5\nf = 6\ng = 7\nh = 8\ni = 9\n", None),
            ("\"(((\" + '(((' // (((\n", None),
            ("don't (a) isn't", None),
            ("\\(\\(\\(", None),
            ("// ------------------\n----------- a\n", None),
        ] {
            assert_eq!(offset(check, text), expected, "{text}");
        }
        assert_eq!(brackets("[[[[", CODE, 9), Some(TooDeep { offset: 3, limit: 3 }));
        assert_eq!(brackets("[{[{[{[", CODE, 9), None);
        assert_eq!(offset(paragraphs, "((\n\n((\n\n((("), Some(10));
    }

    #[test]
    fn blocks_and_emphasis_nest() {
        for (text, expected) in [
            ("> > a", Some(4)),
            (">>a\n", Some(2)),
            ("- a\n  - b\n", Some(8)),
            ("1. 2) a", Some(6)),
            ("a:\n  b:\n    c: 1\n", Some(12)),
            ("- a\n- b\n\n  c\n- d\n", None),
            ("-a\n 1.5\n *b*\n", None),
        ] {
            assert_eq!(offset(blocks, text), expected, "{text}");
        }
        for (text, expected) in [
            ("*a _b *c", Some(6)),
            ("***a***", Some(0)),
            ("**a** **b** *c* _d_, __e__", None),
            ("a * b * c * d_e_f_g", None),
            ("* a\n* b\n* c\n* d\n", None),
            ("*a *b\n\n*c *d\n", None),
            ("```\n*a *b *c *d\n```\n", None),
        ] {
            assert_eq!(offset(emphasis, text), expected, "{text}");
        }
    }

    #[test]
    fn elements_nest() {
        for (text, expected) in [
            ("<a><b><c>", Some(6)),
            ("<p>\n<a></a>\n<b><i>", Some(15)),
            ("<A></a><B></b><C></c>", None),
            ("<br><hr><img>", None),
            ("<a/><b/><c/>", None),
            ("<!doctype html><!-- <a><a><a> -->", None),
            ("<script>'<a><a><a>'</SCRIPT><b>", None),
            ("<a title='<b><b>' x=\"<b>\">", None),
            ("1 < 2 <3 << 4 </a>", None),
        ] {
            assert_eq!(offset(elements, text), expected, "{text}");
        }
    }

    #[test]
    fn commands_nest() {
        for (text, expected) in [
            ("$($($(a)))", Some(4)),
            ("a \"${b:-${c:-${d}}}\"", Some(13)),
            ("( ( (a)))", Some(4)),
            ("f() { { { a; }; }; }", Some(8)),
            ("time time time a", Some(10)),
            (
                "for a in b; do for a in b; do for a in b; do for a in b; do for a in b; do for",
                Some(75),
            ),
            ("$(a) $(b) $(c)", None),
            ("a '$($($(' b", None),
            ("# $($($(\n", None),
            ("f() { a; }\ng() { b; }\nh() { c; }\n", None),
            ("case a in b) c;; d) e;; esac\n( f )\n", None),
            ("a {b,c} {d,e} {f,g} \\( \\( \\(", None),
            ("for a in b; do c; done; for a in b; do c; done; for a in b; do c; done", None),
        ] {
            assert_eq!(offset(shell, text), expected, "{text}");
        }
    }

    #[test]
    fn message_has_the_line() {
        let deep = TooDeep { offset: 4, limit: 9 };
        assert_eq!(deep.message("é\n\n("), "the text nests deeper than 9 levels at line 3");
    }

    proptest! {
        #[test]
        fn any_text_is_checked(
            text in "([\\PC\\n]|[a<>/\"'\\\\ \\n(){}\\[\\]$#*_>!=-]|<!--|<script>|for ){0,60}"
        ) {
            for limit in 0..3 {
                let checks = [
                    brackets(&text, CODE, limit),
                    paragraphs(&text, limit),
                    blocks(&text, limit),
                    emphasis(&text, limit),
                    elements(&text, limit),
                    shell(&text, limit),
                ];
                for deep in checks.into_iter().flatten() {
                    prop_assert!(deep.offset < text.len());
                }
            }
        }
    }
}
