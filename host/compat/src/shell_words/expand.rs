//! Words of shell scripts: quotes and expansions.

use super::{End, Reach, Reader, Word};

impl Reader<'_> {
    /// Reads the word that starts here. It is empty if there is none.
    pub(super) fn word(&mut self, reach: Reach, end: End) -> Word {
        let start = self.at;
        let mut word =
            Word { text: String::new(), at: start..start, computed: false, quoted: false };
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => {
                    break;
                }
                b'`' if end == End::Backtick => break,
                b'\\' if self.line_ends(1) => self.join_lines(),
                b'\\' => {
                    self.at += 1;
                    word.quoted = true;
                    self.literal(&mut word);
                }
                b'\'' => {
                    word.quoted = true;
                    self.at += 1;
                    let from = self.at;
                    self.skip_to(b'\'');
                    word.text.push_str(&self.text[from..self.at]);
                    self.at += usize::from(self.at < self.bytes.len());
                }
                b'"' => {
                    word.quoted = true;
                    self.at += 1;
                    self.double_quoted(&mut word, reach, end);
                }
                b'$' | b'`' => self.expansion(&mut word, reach, end),
                _ => self.literal(&mut word),
            }
        }
        word.at = start..self.at;
        word
    }

    /// Reads one literal character.
    fn literal(&mut self, word: &mut Word) {
        if let Some(c) = self.text[self.at..self.bytes.len()].chars().next() {
            word.text.push(c);
            self.at += c.len_utf8();
        }
    }

    /// Skips to an ASCII byte or the end.
    fn skip_to(&mut self, byte: u8) {
        while self.peek(0).is_some_and(|b| b != byte) {
            self.at += 1;
        }
    }

    fn double_quoted(&mut self, word: &mut Word, reach: Reach, end: End) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' => {
                    self.at += 1;
                    self.literal(word);
                }
                // A backtick ends a substitution even inside double quotes.
                b'`' if end == End::Backtick => return,
                b'$' | b'`' => self.expansion(word, reach, end),
                _ => self.literal(word),
            }
        }
    }

    /// Reads an expansion that a `$` or a backtick starts.
    fn expansion(&mut self, word: &mut Word, reach: Reach, end: End) {
        if self.starts("$'") {
            self.at += 2;
            word.quoted = true;
            while let Some(byte) = self.peek(0).filter(|b| *b != b'\'') {
                self.at += if byte == b'\\' { 1 } else { 0 };
                self.literal(word);
            }
            self.at += usize::from(self.at < self.bytes.len());
            return;
        }
        word.computed = true;
        if self.starts("$((") {
            self.at += 3;
            self.arithmetic(2);
            word.text.push_str("$()");
        } else if self.starts("$(") {
            self.at += 2;
            self.nested(reach, End::Paren);
            word.text.push_str("$()");
        } else if self.peek(0) == Some(b'`') {
            self.at += 1;
            if end != End::Backtick {
                self.nested(reach, End::Backtick);
            }
            word.text.push_str("$()");
        } else if self.starts("${") {
            let from = self.at;
            self.at += 2;
            self.parameter(reach, end);
            let expression = &self.text[from..self.text.ceil_char_boundary(self.at)];
            word.text.push_str(if expression.contains("$(") { "$()" } else { expression });
        } else {
            self.at += 1;
            word.text.push('$');
        }
    }

    /// Reads the rest of `${...}`.
    fn parameter(&mut self, reach: Reach, end: End) {
        let mut ignored = Word { text: String::new(), at: 0..0, computed: false, quoted: false };
        if self.depth == super::MAX_DEPTH {
            self.at = self.bytes.len();
            return;
        }
        self.depth += 1;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'}' => {
                    self.at += 1;
                    break;
                }
                b'\\' => {
                    self.at += 1;
                    self.literal(&mut ignored);
                }
                b'"' => {
                    self.at += 1;
                    self.double_quoted(&mut ignored, reach, end);
                }
                b'`' if end == End::Backtick => break,
                b'$' if self.starts("${") || self.starts("$(") => {
                    self.expansion(&mut ignored, reach, end)
                }
                _ => self.literal(&mut ignored),
            }
        }
        self.depth -= 1;
    }

    /// Skips arithmetic and its closing parentheses, without looking for commands.
    pub(super) fn arithmetic(&mut self, open: usize) {
        let mut open = open;
        while open > 0
            && let Some(byte) = self.peek(0)
        {
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
            self.at += 1;
        }
    }
}
