//! What is remembered, as it is kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of one text: what is longer is better kept as a file.
const TEXT_MAX: usize = 16 << 10;

/// All that is remembered.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The number that was given last. None is given twice.
    last: u64,
    entries: Vec<Entry>,
}

/// One text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Its number.
    pub id: u64,
    /// The text.
    pub text: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When it was remembered, in seconds since 1970.
    pub time: u64,
}

impl Memory {
    /// Remembers a text. One that is known already keeps its number, and has the new source and
    /// time.
    ///
    /// # Errors
    /// It is empty or too long.
    pub fn remember(
        &mut self,
        text: String,
        source: Option<String>,
        time: u64,
    ) -> Result<Entry, String> {
        let text = text.trim().to_owned();
        if text.is_empty() {
            return Err("there is nothing to remember: the text is empty".into());
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

    /// Forgets one.
    ///
    /// # Errors
    /// There is no such text.
    pub fn forget(&mut self, id: u64) -> Result<Entry, String> {
        let at = self.entries.iter().position(|entry| entry.id == id);
        Ok(self.entries.remove(at.ok_or_else(|| {
            format!("nothing is remembered under {id}; `recall` tells the numbers")
        })?))
    }

    /// All of them, the oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_kept_twice() {
        let mut memory = Memory::default();
        memory.remember(" Anna likes tea. ".into(), Some("chat".into()), 1).unwrap();
        let again = memory.remember("Anna likes tea.".into(), None, 2).unwrap();
        assert_eq!(
            (again.id, again.source.as_deref(), again.time, memory.entries().len()),
            (1, Some("chat"), 2, 1)
        );
        memory.forget(1).unwrap();
        assert!(memory.forget(1).unwrap_err().contains("under 1"));
        assert_eq!(memory.remember("x".into(), None, 3).unwrap().id, 2, "no number twice");
        assert!(
            memory.remember(" ".into(), None, 3).is_err()
                && memory.remember("x".repeat(TEXT_MAX + 1), None, 3).is_err()
        );
    }
}
