//! Changes of a text, and scanning it between the nodes of its tree.

use super::Stripper;

/// Changes that do not overlap.
#[derive(Default)]
pub(super) struct Edits {
    edits: Vec<Edit>,
}

struct Edit {
    start: usize,
    end: usize,
    with: With,
}

enum With {
    /// As many spaces as there are characters.
    Spaces {
        keep_lines: bool,
    },
    Text(String),
}

impl Edits {
    /// Replaces a part by spaces and its line breaks.
    pub(super) fn blank(&mut self, start: u32, end: u32) {
        self.push(start, end, With::Spaces { keep_lines: true });
    }

    /// Replaces a part by spaces.
    pub(super) fn blank_in_one_line(&mut self, start: u32, end: u32) {
        self.push(start, end, With::Spaces { keep_lines: false });
    }

    pub(super) fn replace(&mut self, start: u32, end: u32, text: impl Into<String>) {
        self.push(start, end, With::Text(text.into()));
    }

    /// Replaces a part by a text and the line breaks of the part.
    pub(super) fn replace_keeping_lines(
        &mut self,
        source: &str,
        start: u32,
        end: u32,
        text: impl Into<String>,
    ) {
        let part = &source[start as usize..end as usize];
        let text = text.into();
        let rest = part.chars().skip(text.chars().count());
        let rest = spaces(rest, true);
        let lines = part.matches('\n').count() - rest.matches('\n').count();
        self.push(start, end, With::Text(format!("{text}{}{rest}", "\n".repeat(lines))));
    }

    pub(super) fn insert(&mut self, at: u32, text: impl Into<String>) {
        self.push(at, at, With::Text(text.into()));
    }

    fn push(&mut self, start: u32, end: u32, with: With) {
        self.edits.push(Edit { start: start as usize, end: end as usize, with });
    }

    pub(super) fn apply(mut self, source: &str) -> String {
        // Stable: insertions at one place stay in their order.
        self.edits.sort_by_key(|edit| (edit.start, edit.end));
        let mut out = String::with_capacity(source.len() + 64);
        let mut at = 0;
        for Edit { start, end, with } in self.edits {
            if start < at {
                debug_assert!(false, "edits overlap at {start}");
                continue;
            }
            out += &source[at..start];
            match with {
                With::Text(text) => out += &text,
                With::Spaces { keep_lines } => {
                    out += &spaces(source[start..end].chars(), keep_lines)
                }
            }
            at = end;
        }
        out += &source[at..];
        out
    }
}

fn spaces(text: impl Iterator<Item = char>, keep_lines: bool) -> String {
    let is_break = |c| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
    text.map(|c| if keep_lines && is_break(c) { c } else { ' ' }).collect()
}

/// Returns a text as a literal of JavaScript.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            c if (c as u32) < 0x20 => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Stripper<'_> {
    /// Replaces the first of these characters outside comments by a space.
    pub(super) fn blank_punctuation(&mut self, start: u32, end: u32, wanted: u8) {
        let bytes = self.source.as_bytes();
        let mut at = start as usize;
        while at < end as usize {
            at = self.skip_trivia(at, end as usize);
            if at < end as usize {
                if bytes[at] == wanted {
                    self.edits.blank(at as u32, at as u32 + 1);
                    return;
                }
                at += 1;
            }
        }
    }

    /// Returns the words from `start` on, up to `end` or to what is no word, with their positions.
    pub(super) fn words(&self, start: u32, end: u32) -> Vec<(u32, &str)> {
        let end = end as usize;
        let mut found = Vec::new();
        let mut at = self.skip_trivia(start as usize, end);
        while at < end {
            let word: usize = self.source[at..end]
                .bytes()
                .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'$' || *b >= 0x80)
                .count();
            if word == 0 {
                break;
            }
            found.push((at as u32, &self.source[at..at + word]));
            at = self.skip_trivia(at + word, end);
        }
        found
    }

    /// Returns the position of a word that follows other words, or `start`.
    pub(super) fn find_word(&self, start: u32, end: u32, word: &str) -> u32 {
        self.words(start, end).iter().find(|(_, found)| *found == word).map_or(start, |(at, _)| *at)
    }

    /// Skips white space and comments.
    fn skip_trivia(&self, mut at: usize, end: usize) -> usize {
        loop {
            let rest = &self.source[at..end];
            let skipped = if rest.starts_with("//") {
                rest.find('\n').map_or(rest.len(), |n| n + 1)
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |n| n + 2)
            } else {
                rest.len() - rest.trim_start().len()
            };
            if skipped == 0 {
                return at;
            }
            at += skipped;
        }
    }
}
