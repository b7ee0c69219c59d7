//! Keywords of shell scripts: the compound commands that they open and close.

use super::{End, List, Open, Reach, Reader};

impl Reader<'_> {
    /// Handles a keyword in place of a command. Returns `false` if the word is not a keyword.
    pub(super) fn keyword(&mut self, list: &mut List, word: &str) -> bool {
        let close = |list: &mut List, kinds: &[Open]| {
            if list.open.last().is_some_and(|open| kinds.contains(open)) {
                list.open.pop();
            }
            list.end_function();
        };
        match word {
            "if" => list.open.push(Open::If),
            "while" | "until" => list.open.push(Open::Loop),
            "then" | "elif" | "else" | "do" | "!" | "time" | "coproc" => {}
            "fi" => close(list, &[Open::If]),
            "done" => close(list, &[Open::Loop]),
            "esac" => close(list, &[Open::Case(true), Open::Case(false)]),
            "{" => list.open.push(if list.chained { Open::ChainedBrace } else { Open::Brace }),
            "}" => close(list, &[Open::Brace, Open::ChainedBrace]),
            "for" | "select" => {
                list.open.push(Open::Loop);
                self.skip_blanks();
                if self.starts("((") {
                    self.at += 2;
                    self.arithmetic(2);
                } else {
                    self.word_list();
                }
            }
            "case" => {
                self.skip_blanks();
                self.word(list.reach(), End::Text);
                self.skip_blanks();
                while self.peek(0) == Some(b'\n') {
                    self.at += 1;
                    self.skip_blanks();
                }
                self.at += if self.starts("in") { 2 } else { 0 };
                list.open.push(Open::Case(true));
            }
            "function" => {
                self.skip_blanks();
                let name = self.word(Reach::Sometimes, End::Text).text;
                self.skip_blanks();
                self.at += if self.starts("()") { 2 } else { 0 };
                self.define(list, name);
            }
            "[[" => self.test(list.reach()),
            _ => return false,
        }
        true
    }

    /// Reads the words of `for x in a b c`.
    fn word_list(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b';' | b'\n' | b')' | b'`' => return,
                b'\\' if self.line_ends(1) => self.join_lines(),
                _ => {
                    let start = self.at;
                    self.word(Reach::Sometimes, End::Text);
                    self.at += usize::from(self.at == start);
                }
            }
        }
    }

    /// Reads the rest of `[[ ... ]]`.
    fn test(&mut self, reach: Reach) {
        while let Some(byte) = self.peek(0) {
            if self.starts("]]") {
                self.at += 2;
                return;
            }
            match byte {
                b' ' | b'\t' | b'\n' | b'<' | b'>' | b'(' | b')' | b'&' | b'|' | b';' => {
                    self.at += 1
                }
                _ => {
                    let start = self.at;
                    self.word(reach, End::Text);
                    self.at += usize::from(self.at == start);
                }
            }
        }
    }
}
