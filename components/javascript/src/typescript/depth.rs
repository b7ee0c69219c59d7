//! How deeply a text nests, before it is parsed: the parser and what walks its tree are recursive, and
//! an exhausted stack ends the program.

/// The most that a text may nest. An operator, a prefix or a call counts as one, because the tree of
/// `a + b + c` is as deep as it has operators. This is far from what people write, and from the end
/// of the stack.
const MOST: usize = 6_000;
/// What an open bracket counts as: the parser has more frames for one.
const BRACKET: usize = 8;

/// Words that stand before what they apply to, or join it to what precedes.
const WORDS: [&str; 26] = [
    "as",
    "async",
    "await",
    "case",
    "delete",
    "do",
    "else",
    "extends",
    "for",
    "if",
    "in",
    "infer",
    "instanceof",
    "keyof",
    "namespace",
    "new",
    "of",
    "readonly",
    "return",
    "satisfies",
    "throw",
    "typeof",
    "unique",
    "void",
    "while",
    "yield",
];

/// Returns the position at which a text nests more deeply than the parser can follow.
///
/// This is an estimate, which can take a division for a regular expression. A deep text that it misreads
/// is parsed, and then at worst ends its own run.
pub(super) fn excess(source: &str) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut scan = Scan { ends_open: true, ..Scan::default() };
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                source[at..].find("*/").map_or(bytes.len(), |n| at + n + 2)
            }
            b'/' if scan.ends_open => {
                scan.ends_open = false;
                // The rest of a line without a closing slash is searched once.
                match at < scan.no_expression_before {
                    true => at + 1,
                    false => expression_end(bytes, at).unwrap_or_else(|line_end| {
                        scan.no_expression_before = line_end;
                        at + 1
                    }),
                }
            }
            quote @ (b'"' | b'\'') => {
                scan.ends_open = false;
                text_end(bytes, at, quote)
            }
            b'`' => scan.template(bytes, at + 1),
            b'}' if scan.open.last() == Some(&Open { template: true, ..scan.last() }) => {
                scan.close();
                scan.template(bytes, at + 1)
            }
            byte if is_word(byte) => {
                let end = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                scan.word(&source[at..end]);
                end
            }
            // All of the white space at once: searching it again from each of its lines would take
            // quadratic time.
            b'\n' => {
                let space = bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace());
                let end = at + space.count();
                scan.line_end(bytes.get(end).copied());
                end
            }
            byte => {
                scan.punctuation(byte);
                at + 1
            }
        };
        if scan.open.len() * BRACKET + scan.outside + scan.chained > MOST {
            return Some(at);
        }
        at = end;
    }
    None
}

/// An open bracket, and what was chained outside of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Open {
    template: bool,
    chained: usize,
}

#[derive(Default)]
struct Scan {
    open: Vec<Open>,
    /// What was chained outside of all open brackets.
    outside: usize,
    /// Operators and prefixes of the statement so far, in the innermost bracket.
    chained: usize,
    /// Those of the statement before, which `else` continues.
    before: usize,
    /// Whether the line so far ends with something that the next one continues.
    ends_open: bool,
    /// The end of a line in which no regular expression ends.
    no_expression_before: usize,
}

impl Scan {
    fn last(&self) -> Open {
        self.open.last().copied().unwrap_or(Open { template: false, chained: 0 })
    }

    fn open(&mut self, template: bool) {
        self.open.push(Open { template, chained: self.chained });
        self.outside += self.chained;
        (self.chained, self.before, self.ends_open) = (0, 0, true);
    }

    fn close(&mut self) {
        // What follows a bracket belongs to what precedes it: `a()()`, `if (1) if (1)`.
        let outer = self.open.pop().map_or(0, |open| open.chained);
        self.outside -= outer;
        (self.chained, self.ends_open) = (outer + 1, false);
    }

    /// Returns the end of a template's text that starts at `at`: at its end or its next expression.
    fn template(&mut self, bytes: &[u8], mut at: usize) -> usize {
        while at < bytes.len() {
            match bytes[at] {
                b'\\' => at += 1,
                b'`' => {
                    self.ends_open = false;
                    return at + 1;
                }
                b'$' if bytes.get(at + 1) == Some(&b'{') => {
                    self.open(true);
                    return at + 2;
                }
                _ => {}
            }
            at += 1;
        }
        bytes.len()
    }

    fn end_statement(&mut self) {
        self.before = std::mem::take(&mut self.chained);
    }

    fn word(&mut self, word: &str) {
        if word == "else" && self.chained == 0 {
            self.chained = self.before;
        }
        if WORDS.contains(&word) {
            self.chained += 1;
            self.ends_open = true;
        } else {
            self.ends_open = false;
        }
    }

    /// Ends a statement without a semicolon, unless its line ends, or the next one starts, with
    /// something that continues it.
    fn line_end(&mut self, next: Option<u8>) {
        let continues = next.is_none_or(|byte| !(is_word(byte) || b"@#\"'{".contains(&byte)));
        if !(self.ends_open || continues) {
            self.end_statement();
        }
    }

    fn punctuation(&mut self, byte: u8) {
        match byte {
            b'(' | b'[' | b'{' => self.open(false),
            b')' | b']' | b'}' => self.close(),
            b';' | b',' => {
                self.end_statement();
                self.ends_open = true;
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => {
                self.chained += 1;
                self.ends_open = true;
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| at + n)
}

/// Returns the end of the regular expression at `start`, or else the end of the line.
fn expression_end(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let (mut at, mut in_class) = (start + 1, false);
    while at < bytes.len() && bytes[at] != b'\n' {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return Ok(at + 1),
            _ => {}
        }
        at += 1;
    }
    Err(at)
}

/// Returns the end of a text in quotes, which ends with its line at the latest.
fn text_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'\n' {
        match bytes[at] {
            b'\\' => at += 1,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}
