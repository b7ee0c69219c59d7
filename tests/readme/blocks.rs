//! A Markdown file parsed into code blocks and tables, and reassembled.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use crate::cli::repository;

/// A Markdown file of the repository.
pub struct Document {
    path: PathBuf,
    pub lines: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Clone)]
pub struct Block {
    /// The info string after the fence: `console`, `yaml`.
    pub lang: String,
    /// The lines between the fences, as indices into the document.
    pub inner: Range<usize>,
    /// The text of those lines.
    pub text: String,
    /// Why no test runs it: `<!-- not run: REASON -->` on the line above the fence.
    pub not_run: Option<String>,
    /// The file that the block contains: `<!-- file: PATH -->` on the line above the fence.
    pub file: Option<String>,
}

impl Block {
    /// Whether the tests run its commands.
    pub fn is_run(&self) -> bool {
        self.lang == "console" && self.not_run.is_none()
    }
}

/// A command of a console block: the line or lines after `$ `, and the output that the document
/// shows below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// The shown output, as indices into the document.
    pub shown: Range<usize>,
}

impl Document {
    pub fn read(name: &str) -> Document {
        let path = repository("").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        Document { path, lines: text.lines().map(str::to_owned).collect() }
    }

    pub fn write(&self) {
        fs::write(&self.path, self.lines.join("\n") + "\n").unwrap();
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < self.lines.len() {
            if let Some(lang) = self.lines[at].strip_prefix("```") {
                let rest = &self.lines[at + 1..];
                let length = rest
                    .iter()
                    .position(|l| l == "```")
                    .unwrap_or_else(|| panic!("line {}: the block has no end", at + 1));
                let above = at.checked_sub(1).map_or("", |i| self.lines[i].as_str());
                let comment = |start: &str| {
                    let text = above.strip_prefix(start)?.strip_suffix(" -->")?;
                    Some(text.to_owned())
                };
                let text = rest[..length].join("\n") + "\n";
                blocks.push(Block {
                    lang: lang.to_owned(),
                    inner: at + 1..at + 1 + length,
                    text,
                    not_run: comment("<!-- not run: "),
                    file: comment("<!-- file: "),
                });
                at += length + 1;
            }
            at += 1;
        }
        blocks
    }

    /// Returns the commands of a console block. A line that ends in `\` continues on the next.
    pub fn steps(&self, block: &Block) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut continues = false;
        for at in block.inner.clone() {
            let line = self.lines[at].as_str();
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (_, Some(step)) if continues => {
                    step.command.push_str(&format!("\n{line}"));
                    step.shown = at + 1..at + 1;
                }
                (Some(command), _) => {
                    steps.push(Step { command: command.to_owned(), shown: at + 1..at + 1 })
                }
                (None, Some(step)) => step.shown.end = at + 1,
                (None, None) => panic!("line {}: a console block begins with `$ `", at + 1),
            }
            continues = line.ends_with('\\') && steps.last().is_some_and(|s| s.shown.is_empty());
        }
        steps
    }

    /// Returns the rows of the first table with this first column heading, as cells, without
    /// heading and rule.
    pub fn table(&self, head: &str) -> Vec<Vec<String>> {
        let start = self.lines.iter().position(|l| cells(l).is_some_and(|c| c[0] == head));
        let start = start.unwrap_or_else(|| {
            panic!("{}: no table whose first column is `{head}`", self.path.display())
        });
        self.lines[start + 2..].iter().map_while(|l| cells(l)).collect()
    }

    /// Returns the rows of every table whose last column heading begins with `head`, without
    /// heading and rule.
    pub fn tables(&self, head: &str) -> Vec<Vec<Vec<String>>> {
        let heads = self.lines.windows(2).enumerate().filter(|(_, pair)| {
            pair[1].starts_with("|--")
                && cells(&pair[0])
                    .is_some_and(|cells| cells.last().is_some_and(|cell| cell.starts_with(head)))
        });
        heads
            .map(|(at, _)| self.lines[at + 2..].iter().map_while(|line| cells(line)).collect())
            .collect()
    }
}

/// The pages of the book, sorted. The Markdown of example skills is no page.
pub fn pages() -> Vec<String> {
    fn collect(folder: &str, pages: &mut Vec<String>) {
        for entry in fs::read_dir(repository(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().into_string().unwrap());
            if name == "docs/examples" {
                continue;
            }
            if entry.path().is_dir() {
                collect(&name, pages);
            } else if name.ends_with(".md") {
                pages.push(name);
            }
        }
    }
    let mut pages = Vec::new();
    collect("docs", &mut pages);
    pages.sort();
    pages
}

/// Returns the cells of a table's row; `None` for any other line.
fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(inner.split(" | ").map(|cell| cell.trim().to_owned()).collect())
}

/// Returns the text between backticks.
pub fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Checks whether an output matches the shown text: a line `...` stands for any lines, `...` within
/// a line for any text.
pub fn matches(shown: &[&str], output: &[&str]) -> bool {
    match (shown.split_first(), output.split_first()) {
        (None, None) => true,
        (Some((&"...", rest)), _) => (0..=output.len()).any(|skip| matches(rest, &output[skip..])),
        (Some((line, rest)), Some((first, others))) => {
            line_matches(line, first) && matches(rest, others)
        }
        _ => false,
    }
}

fn line_matches(shown: &str, line: &str) -> bool {
    let Some((head, tail)) = shown.split_once("...") else { return shown == line };
    let Some(rest) = line.strip_prefix(head) else { return false };
    (0..=rest.len())
        .filter(|at| rest.is_char_boundary(*at))
        .any(|at| line_matches(tail, &rest[at..]))
}

#[test]
fn only_three_dots_match_anything() {
    let m = |shown: &str, output: &str| {
        matches(&shown.lines().collect::<Vec<_>>(), &output.lines().collect::<Vec<_>>())
    };
    assert!(
        m("a\n...\nd", "a\nb\nc\nd")
            && m("a\n...", "a")
            && m("in ... s", "in 1.5 s")
            && m("x...", "x")
    );
    assert!(
        !m("a\n...\nd", "a\nb")
            && !m("in ... s", "in 1.5 ms")
            && !m("a", "a\nb")
            && !m("a\nb", "a")
            && !m("", "a")
    );
}
