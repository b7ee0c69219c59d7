//! The input of a run: an approval for one run is bound to its digest, and the operator reads it.

use serde_json::json;

use skillhost_policy::diagnostic::printable;
use skillhost_skill::runtime;

/// The input of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct RunInput<'a> {
    /// The command line for the shell, or a tool's input.
    pub text: Option<&'a str>,
    /// The program's arguments.
    pub args: &'a [String],
    /// Standard input.
    pub stdin: StdinInput<'a>,
    /// Files that are put into the run's folder: paths and contents.
    pub files: &'a [(&'a str, &'a str)],
}

/// The standard input of a run.
#[derive(Debug, Clone, Copy)]
pub enum StdinInput<'a> {
    /// These bytes.
    Whole(&'a [u8]),
    /// A stream that has not been read yet. An approval covers whatever it contains.
    Unread,
}

impl Default for StdinInput<'_> {
    fn default() -> Self {
        StdinInput::Whole(&[])
    }
}

/// The most bytes of each part to show.
const SHOWN: usize = 1_000;
/// The most arguments and files to show.
const LISTED: usize = 20;

impl RunInput<'_> {
    /// Returns one digest over the whole input.
    pub(super) fn digest(&self) -> String {
        let digest = |text: &str| runtime::digest(text.as_bytes());
        let stdin = match self.stdin {
            StdinInput::Whole(bytes) => Some(runtime::digest(bytes)),
            StdinInput::Unread => None,
        };
        let files: Vec<_> = self.files.iter().map(|(path, text)| (path, digest(text))).collect();
        digest(
            &json!({ "text": self.text, "args": self.args, "stdin": stdin, "files": files })
                .to_string(),
        )
    }

    /// Returns the input as lines for a person. The text is untrusted: each part stays on one line,
    /// without control characters.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.text.map(|text| format!("text: {}", start(text.as_bytes()))));
        if !self.args.is_empty() {
            let words: Vec<String> = self
                .args
                .iter()
                .take(LISTED)
                .map(|word| format!("\"{}\"", start(word.as_bytes())))
                .collect();
            lines.push(format!("arguments: {}{}", words.join(" "), more(self.args.len())));
        }
        match self.stdin {
            StdinInput::Whole([]) => {}
            StdinInput::Whole(bytes) => lines.push(format!("stdin: {}", start(bytes))),
            StdinInput::Unread => lines.push(
                "stdin: a stream that has not been read; the approval covers whatever it contains"
                    .into(),
            ),
        }
        let files = self.files.iter().take(LISTED);
        lines.extend(
            files.map(|(path, text)| {
                format!("file {}: {}", printable(path), start(text.as_bytes()))
            }),
        );
        if self.files.len() > LISTED {
            lines.push(format!("files:{}", more(self.files.len())));
        }
        lines
    }
}

/// Shows the start of some bytes, and their number and digest if there are more.
fn start(bytes: &[u8]) -> String {
    let shown = printable(&String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]));
    if bytes.len() > SHOWN {
        format!("{shown} ... ({} bytes, {})", bytes.len(), runtime::digest(bytes))
    } else {
        shown
    }
}

fn more(count: usize) -> String {
    if count > LISTED { format!(" and {} more", count - LISTED) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_an_input_changes_its_digest() {
        let args = ["a".to_owned(), "b".to_owned()];
        let joined = ["a b".to_owned()];
        let inputs = [
            RunInput::default(),
            RunInput { text: Some(""), ..RunInput::default() },
            RunInput { text: Some("a"), ..RunInput::default() },
            RunInput { args: &args, ..RunInput::default() },
            RunInput { args: &joined, ..RunInput::default() },
            RunInput { stdin: StdinInput::Whole(b"a"), ..RunInput::default() },
            RunInput { stdin: StdinInput::Unread, ..RunInput::default() },
            RunInput { files: &[("a", "b")], ..RunInput::default() },
            RunInput { files: &[("a", "c")], ..RunInput::default() },
        ];
        let digests: std::collections::BTreeSet<String> =
            inputs.iter().map(RunInput::digest).collect();
        assert_eq!(digests.len(), inputs.len());
        assert_eq!(inputs[3].digest(), RunInput { args: &args, ..RunInput::default() }.digest());
    }

    #[test]
    fn inputs_are_shown_escaped_and_bounded() {
        let args = ["--to".to_owned(), "x\u{1b}[8m\ny".to_owned()];
        let long = "z".repeat(5_000);
        let input = RunInput {
            text: Some("curl\n\u{202e}x"),
            args: &args,
            stdin: StdinInput::Whole(long.as_bytes()),
            files: &[("a\n", "b")],
        };
        let lines = input.lines();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line.len() < 1_300 && !line.contains(['\n', '\u{1b}', '\u{202e}'])),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("arguments: \"--to\" \"x")
                && lines[2].contains("(5000 bytes, sha256:"),
            "{lines:?}"
        );
        assert_eq!(RunInput { stdin: StdinInput::Unread, ..RunInput::default() }.lines().len(), 1);
    }
}
