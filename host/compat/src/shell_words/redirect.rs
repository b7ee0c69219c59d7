//! Redirections and here-documents of shell scripts.

use super::{End, Here, List, Reader, Word};

impl Reader<'_> {
    pub(super) fn is_redirection(&self) -> bool {
        self.starts("&>")
    }

    pub(super) fn redirection(&mut self, list: &mut List) {
        // The number in `2>` is not an argument.
        if let Some(word) = list.words.last()
            && word.at.end == self.at
            && word.text.bytes().all(|b| b.is_ascii_digit())
            && self.peek(0) != Some(b'&')
        {
            list.words.pop();
        }
        if self.starts("<(") || self.starts(">(") {
            self.at += 2;
            let at = self.at - 2..self.at;
            self.nested(list.reach(), End::Paren);
            list.words.push(Word { text: "$()".into(), at, computed: true, quoted: true });
            return;
        }
        let text = self.starts("<<<");
        let document = !text && self.starts("<<");
        self.at += if text {
            3
        } else if document {
            2
        } else {
            1
        };
        let tabs = document && self.peek(0) == Some(b'-');
        while matches!(self.peek(0), Some(b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        if self.peek(0) == Some(b'-') {
            self.at += 1;
            if !document {
                // `<&-` closes a file descriptor.
                return;
            }
        }
        self.skip_blanks();
        let before = self.at;
        let word = self.word(list.reach(), End::Text);
        if document && !word.text.is_empty() && before < self.at {
            self.here.push(Here { delimiter: word.text, tabs, command: None });
        }
    }

    /// Reads the bodies of the here-documents of the line that has ended.
    pub(super) fn here_documents(&mut self) {
        for here in std::mem::take(&mut self.here) {
            let start = self.at;
            let mut end = self.bytes.len();
            while self.at < self.bytes.len() {
                let line_start = self.at;
                self.skip_line();
                let line = self.text[line_start..self.at].trim_end_matches('\r');
                let line = if here.tabs { line.trim_start_matches('\t') } else { line };
                self.at += usize::from(self.at < self.bytes.len());
                if line == here.delimiter {
                    end = line_start;
                    break;
                }
            }
            if let Some(command) =
                here.command.and_then(|index| self.script.commands.get_mut(index))
            {
                command.here = Some(start..end);
            }
        }
    }
}
