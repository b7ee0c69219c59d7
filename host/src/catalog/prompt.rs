//! The block `<available_skills>` that agents are given, within a budget of tokens.

use super::{Catalog, Entry};

/// The block, and what had to be left out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The block.
    pub text: String,
    /// Skills whose description was shortened.
    pub shortened: usize,
    /// Skills that are not in it.
    pub dropped: usize,
}

/// About as many tokens as a text has: one for four bytes, which is what English takes.
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

impl Catalog {
    /// The block of the enabled skills, in at most so many tokens.
    pub fn prompt(&self, budget: usize) -> Prompt {
        let entries = self.entries();
        let enabled: Vec<&Entry> = entries.iter().filter(|entry| self.is_enabled(entry)).collect();
        let mut text = "<available_skills>\n".to_owned();
        let mut dropped = 0;
        for entry in enabled {
            let line = format!("<skill>\n<name>{}</name>\n<description>{}</description>\n</skill>\n", entry.name, entry.description);
            if tokens(&text) + tokens(&line) + 20 > budget {
                dropped += 1;
            } else {
                text += &line;
            }
        }
        text += "</available_skills>\n";
        Prompt { text, shortened: 0, dropped }
    }
}
