//! The fenced shell blocks of SKILL.md.

use std::ops::Range;

/// The most blocks that are read.
const MAX_BLOCKS: usize = 300;

/// The languages of shell blocks.
const SHELL: [&str; 5] = ["bash", "sh", "shell", "zsh", "shellscript"];
/// The languages of sessions: commands after a prompt, with their output between them.
const SESSION: [&str; 4] = ["console", "shell-session", "terminal", "shellsession"];

/// A shell block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The 1-based line of its opening fence.
    pub(super) line: usize,
    /// The ranges with commands.
    pub(super) parts: Vec<Range<usize>>,
}

/// Returns the shell blocks of a text, from an offset on.
pub(super) fn find(text: &str, from: usize) -> Vec<Block> {
    let first = text[..from].bytes().filter(|b| *b == b'\n').count() + 1;
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<Open> = None;
    let mut at = from;
    for (line_number, line) in (first..).zip(text[from..].split_inclusive('\n')) {
        let range = at..at + line.len();
        at = range.end;
        let trimmed = line.trim().trim_start_matches(['>', ' ']);
        let fence = trimmed
            .bytes()
            .take_while(|b| *b == b'`')
            .count()
            .max(trimmed.bytes().take_while(|b| *b == b'~').count());
        match &mut open {
            Some(block)
                if fence >= block.fence
                    && trimmed.len() == fence
                    && trimmed.starts_with(block.mark) =>
            {
                let block = open.take().and_then(|block| block.shell);
                found.extend(block.filter(|block| !block.parts.is_empty()));
                if found.len() == MAX_BLOCKS {
                    return found;
                }
            }
            Some(block) => block.line(line, range),
            None if fence >= 3 => {
                let language = trimmed[fence..]
                    .trim()
                    .split([' ', '{', ','])
                    .next()
                    .unwrap_or_default()
                    .to_ascii_lowercase();
                let session = SESSION.contains(&language.as_str());
                let shell = (session || SHELL.contains(&language.as_str()))
                    .then(|| Block { line: line_number, parts: Vec::new() });
                let mark = if trimmed.starts_with('`') { '`' } else { '~' };
                open = Some(Open { fence, mark, shell, session, goes_on: false });
            }
            None => {}
        }
    }
    found
}

struct Open {
    fence: usize,
    mark: char,
    shell: Option<Block>,
    session: bool,
    /// Whether the last command of a session ends in a backslash.
    goes_on: bool,
}

impl Open {
    fn line(&mut self, line: &str, range: Range<usize>) {
        let Some(block) = &mut self.shell else { return };
        let command = !self.session || self.goes_on || line.trim_start().starts_with("$ ");
        self.goes_on = self.session && command && line.trim_end().ends_with('\\');
        if !command {
            return;
        }
        match block.parts.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => block.parts.push(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<String> {
        let shown = find(text, 0).into_iter().map(|block| {
            let parts: Vec<&str> = block.parts.iter().map(|part| &text[part.clone()]).collect();
            format!("{} {:?}", block.line, parts)
        });
        shown.collect()
    }

    #[test]
    fn only_shell_blocks_are_found() {
        assert_eq!(
            blocks("# x\n```bash\na\nb\n```\n```python\nc\n```\n~~~sh title\n```\nd\n~~~\n"),
            ["2 [\"a\\nb\\n\"]", "9 [\"```\\nd\\n\"]"]
        );
        assert_eq!(
            blocks("- x\n\n  ````shell {a}\n  ```\n  a\n  ````\n> ```bash\n> b\n> ```\n"),
            ["3 [\"  ```\\n  a\\n\"]", "7 [\"> b\\n\"]"]
        );
        assert_eq!(
            blocks("```\na\n```\n```bash\n```\n```bash\nnever closed"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn sessions_contribute_only_their_commands() {
        assert_eq!(
            blocks("```console\n$ a \\\n  b\nprinted\n$ c\n```\n"),
            ["1 [\"$ a \\\\\\n  b\\n\", \"$ c\\n\"]"]
        );
    }
}
