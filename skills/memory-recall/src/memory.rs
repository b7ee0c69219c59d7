//! The remembered texts, in the form in which they are stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum bytes of one text. Longer texts belong in files.
const TEXT_MAX: usize = 16 << 10;

/// All remembered texts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The last number assigned. Numbers are not reused.
    last: u64,
    entries: Vec<Entry>,
}

/// A remembered text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// The text.
    pub text: String,
    /// The source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The time when it was remembered, in seconds since 1970.
    pub time: u64,
}

impl Memory {
    /// Remembers a text. A known text keeps its number, and gets the new source and time.
    ///
    /// # Errors
    /// Returns an error if the text is empty or too long.
    pub fn remember(
        &mut self,
        text: String,
        source: Option<String>,
        time: u64,
    ) -> Result<Entry, String> {
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Err("the text is empty".into());
        }
        if text.len() > TEXT_MAX {
            return Err(format!(
                "the text has {} bytes, and {TEXT_MAX} are kept: split it, or keep it as a file",
                text.len()
            ));
        }
        if let Some(known) = self.entries.iter_mut().find(|entry| entry.text == text) {
            known.source = source.or(known.source.take());
            known.time = time;
            return Ok(known.clone());
        }
        self.last += 1;
        let entry = Entry { id: self.last, text, source, time };
        self.entries.push(entry.clone());
        Ok(entry)
    }

    /// Forgets a text.
    ///
    /// # Errors
    /// Returns an error if there is no text with this number.
    pub fn forget(&mut self, id: u64) -> Result<Entry, String> {
        let at = self.entries.iter().position(|entry| entry.id == id);
        Ok(self.entries.remove(
            at.ok_or_else(|| format!("there is no memory {id}; `recall` lists the numbers"))?,
        ))
    }

    /// Returns all texts, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_text_is_not_stored_twice() {
        let mut memory = Memory::default();
        memory.remember(" Anna likes tea. ".into(), Some("chat".into()), 1).unwrap();
        let again = memory.remember("Anna likes tea.".into(), None, 2).unwrap();
        assert_eq!(
            (again.id, again.source.as_deref(), again.time, memory.entries().len()),
            (1, Some("chat"), 2, 1)
        );
        memory.forget(1).unwrap();
        assert!(memory.forget(1).unwrap_err().contains("no memory 1"));
        assert_eq!(memory.remember("x".into(), None, 3).unwrap().id, 2, "no number twice");
        assert!(
            memory.remember(" ".into(), None, 3).is_err()
                && memory.remember("x".repeat(TEXT_MAX + 1), None, 3).is_err()
        );
    }
}
