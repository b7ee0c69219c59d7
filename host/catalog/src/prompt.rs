//! Writes the block `<available_skills>` for agents, within a budget of tokens.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Catalog, CatalogEntry};
use skillhost_policy::diagnostic::printable;

/// The block, and what did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Prompt {
    /// The block. It says itself what did not fit.
    pub text: String,
    /// Its approximate number of tokens.
    pub tokens: usize,
    /// The number of shortened descriptions.
    pub shortened: usize,
    /// The number of omitted skills.
    pub dropped: usize,
}

/// The shortest description, in characters, that an agent can still choose by: about a dozen words.
const SHORTEST: usize = 80;
/// The longest description that the specification allows.
const LONGEST: usize = 1024;

/// Estimates the number of tokens of a text: one for every four bytes, as in English.
pub fn estimate_tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

impl Catalog {
    /// Writes the block of the skills that agents may find, in at most `budget` tokens. Shortens
    /// descriptions first, then omits the last skills. The block's own tags are always written.
    pub fn prompt(&self, budget: usize) -> Prompt {
        self.write_prompt(budget, false)
    }

    /// Writes the block with the path of each SKILL.md, for agents that read files on this machine.
    pub fn prompt_with_locations(&self, budget: usize) -> Prompt {
        self.write_prompt(budget, true)
    }

    fn write_prompt(&self, budget: usize, locations: bool) -> Prompt {
        let entries = self.entries();
        let listed: Vec<&CatalogEntry> =
            entries.iter().filter(|entry| self.is_for_agents(entry)).collect();
        let write = |length: usize, count: usize| block(&listed, length, count, locations);
        let fits = |prompt: &Prompt| prompt.tokens <= budget;
        let all = listed.len();
        let whole = write(usize::MAX, all);
        if fits(&whole) {
            return whole;
        }
        // Search for the longest descriptions, or else the most skills: if one does not fit, no
        // larger one does.
        if fits(&write(SHORTEST, all)) {
            let length = largest(SHORTEST, LONGEST, |length| fits(&write(length, all)));
            return write(length, all);
        }
        write(SHORTEST, largest(0, all, |count| fits(&write(SHORTEST, count))))
    }
}

impl Prompt {
    /// Describes what did not fit; `None` if everything did.
    pub fn omissions(&self) -> Option<String> {
        let skills = |count: usize| {
            if count == 1 { "1 skill".to_owned() } else { format!("{count} skills") }
        };
        let (short, gone) = (skills(self.shortened), skills(self.dropped));
        match (self.shortened, self.dropped) {
            (0, 0) => None,
            (_, 0) => Some(format!("the descriptions of {short} are shortened")),
            (0, _) => Some(format!("{gone} omitted")),
            _ => Some(format!("the descriptions of {short} are shortened, and {gone} omitted")),
        }
    }
}

/// Returns the largest number between `least` and `most` that fits, or `least`.
fn largest(least: usize, most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (least, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Writes the block of the first `count` skills, with descriptions of at most `length` characters.
fn block(all: &[&CatalogEntry], length: usize, count: usize, locations: bool) -> Prompt {
    let mut prompt = Prompt {
        text: "<available_skills>\n".to_owned(),
        tokens: 0,
        shortened: 0,
        dropped: all.len() - count,
    };
    for entry in &all[..count] {
        let description = shortened(&entry.description, length);
        prompt.shortened += usize::from(description.is_some());
        let description = description.as_deref().unwrap_or(&entry.description);
        let _ = write!(
            prompt.text,
            "<skill><name>{}</name><description>{}</description>",
            xml(&entry.name),
            xml(description)
        );
        if locations {
            let file = entry.instructions().display().to_string();
            let _ = write!(prompt.text, "<location>{}</location>", xml(&file));
        }
        prompt.text += "</skill>\n";
    }
    if let Some(left) = prompt.omissions() {
        let _ = writeln!(prompt.text, "<note>{left}; a search finds every skill</note>");
    }
    prompt.text += "</available_skills>\n";
    prompt.tokens = estimate_tokens(&prompt.text);
    prompt
}

/// Returns a description on one line, in at most `length` characters and without hidden ones.
pub fn summary(description: &str, length: usize) -> String {
    let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = printable(&line);
    if line.chars().count() <= length {
        return line;
    }
    // The ellipsis takes one.
    shortened(&line, length - 1).unwrap_or(line)
}

/// Cuts a description at the end of a word; `None` if it is short enough.
fn shortened(text: &str, length: usize) -> Option<String> {
    let (end, _) = text.char_indices().nth(length)?;
    let start = &text[..end];
    let cut = start
        .rfind(char::is_whitespace)
        .filter(|at| *at > end / 2)
        .map_or(start, |at| &start[..at]);
    Some(format!("{}…", cut.trim_end_matches(|c: char| c.is_whitespace() || ",;:.".contains(c))))
}

/// Escapes text between tags, on one line.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
