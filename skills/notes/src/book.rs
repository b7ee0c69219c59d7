//! All notes, in the form in which they are stored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Characters of a title derived from a text, and of an excerpt.
const SHORT: usize = 80;

/// All notes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Book {
    /// The last number assigned. Numbers are not reused.
    last: u64,
    notes: Vec<Note>,
}

/// One note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Its number.
    pub id: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// Tags, in lower case and sorted.
    pub tags: Vec<String>,
    /// The time when it was saved, in UTC.
    pub created: String,
    /// The time of the last change, in UTC.
    pub updated: String,
}

/// A note without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Summary {
    /// Its number.
    pub id: u64,
    /// Its title.
    pub title: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The time of the last change, in UTC.
    pub updated: String,
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchResult {
    /// The note.
    #[serde(flatten)]
    pub note: Summary,
    /// The line of the text that contains most of the words.
    pub excerpt: String,
}

impl Book {
    /// Saves a new note. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the text is empty.
    pub fn save(
        &mut self,
        title: Option<String>,
        text: String,
        tags: Vec<String>,
        now: i64,
    ) -> Result<Note, String> {
        if text.trim().is_empty() {
            return Err("the text of the note is empty".into());
        }
        self.last += 1;
        let first = || {
            short(
                text.lines()
                    .map(|line| line.trim_start_matches('#').trim())
                    .find(|line| !line.is_empty())
                    .unwrap_or_default(),
            )
        };
        let title = title
            .map(|title| title.trim().to_owned())
            .filter(|title| !title.is_empty())
            .unwrap_or_else(first);
        let note = Note {
            id: self.last,
            title,
            text,
            tags: tidy(tags),
            created: timestamp(now),
            updated: timestamp(now),
        };
        self.notes.push(note.clone());
        Ok(note)
    }

    /// Changes the given fields.
    ///
    /// # Errors
    /// Returns an error if there is no such note, or nothing to change.
    pub fn update(
        &mut self,
        id: u64,
        title: Option<String>,
        text: Option<String>,
        tags: Option<Vec<String>>,
        now: i64,
    ) -> Result<Note, String> {
        if title.is_none() && text.is_none() && tags.is_none() {
            return Err("nothing to change: set `title`, `text` or `tags`".into());
        }
        let note = self.notes.iter_mut().find(|note| note.id == id).ok_or_else(|| missing(id))?;
        note.title = title.unwrap_or_else(|| note.title.clone());
        note.text = text.unwrap_or_else(|| note.text.clone());
        note.tags = tags.map_or_else(|| note.tags.clone(), tidy);
        note.updated = timestamp(now);
        Ok(note.clone())
    }

    /// Returns a note.
    ///
    /// # Errors
    /// Returns an error if there is no such note.
    pub fn get(&self, id: u64) -> Result<&Note, String> {
        self.notes.iter().find(|note| note.id == id).ok_or_else(|| missing(id))
    }

    /// Deletes a note and returns it.
    ///
    /// # Errors
    /// Returns an error if there is no such note.
    pub fn delete(&mut self, id: u64) -> Result<Note, String> {
        let at = self.notes.iter().position(|note| note.id == id).ok_or_else(|| missing(id))?;
        Ok(self.notes.remove(at))
    }

    /// Lists notes, optionally those with a tag, the last changed first. Also returns how many were
    /// left out.
    pub fn list(&self, tag: Option<&str>, limit: usize) -> (Vec<Summary>, usize) {
        let tag = tag.map(str::to_lowercase);
        let has = |note: &&Note| tag.as_ref().is_none_or(|tag| note.tags.contains(tag));
        let found = self.by_time().into_iter().filter(has);
        let all: Vec<Summary> = found.map(summary).collect();
        let more = all.len().saturating_sub(limit);
        (all.into_iter().take(limit).collect(), more)
    }

    /// Finds the notes that contain every word, the last changed first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<SearchResult> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let found = |note: &&Note| {
            let all =
                format!("{}\n{}\n{}", note.title, note.text, note.tags.join(" ")).to_lowercase();
            !words.is_empty() && words.iter().all(|word| all.contains(word.as_str()))
        };
        self.by_time()
            .into_iter()
            .filter(found)
            .take(limit)
            .map(|note| SearchResult { note: summary(note), excerpt: excerpt(note, &words) })
            .collect()
    }

    fn by_time(&self) -> Vec<&Note> {
        let mut notes: Vec<&Note> = self.notes.iter().collect();
        notes.sort_by(|a, b| (&b.updated, b.id).cmp(&(&a.updated, a.id)));
        notes
    }
}

fn summary(note: &Note) -> Summary {
    Summary {
        id: note.id,
        title: note.title.clone(),
        tags: note.tags.clone(),
        updated: note.updated.clone(),
    }
}

/// Returns the first line that contains most of the words.
fn excerpt(note: &Note, words: &[String]) -> String {
    let count = |line: &&str| {
        let line = line.to_lowercase();
        words.iter().filter(|word| line.contains(word.as_str())).count()
    };
    short(note.text.lines().rev().max_by_key(count).unwrap_or_default().trim())
}

fn short(text: &str) -> String {
    let mut out: String = text.chars().take(SHORT).collect();
    if text.chars().nth(SHORT).is_some() {
        out.push('…');
    }
    out
}

fn tidy(tags: Vec<String>) -> Vec<String> {
    let mut tags: Vec<String> = tags
        .iter()
        .map(|tag| tag.trim().trim_start_matches('#').to_lowercase())
        .filter(|tag| !tag.is_empty())
        .collect();
    tags.sort();
    tags.dedup();
    tags
}

fn missing(id: u64) -> String {
    format!("there is no note {id}; `list` and `search` show the numbers")
}

fn timestamp(now: i64) -> String {
    jiff::Timestamp::from_second(now).map_or_else(|_| now.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> Book {
        let mut book = Book::default();
        book.save(
            None,
            "# Shopping\nmilk and Brot\n".into(),
            vec!["#Home".into(), "home".into()],
            1_000,
        )
        .unwrap();
        book.save(Some("Release".into()), "ship on friday".into(), vec!["work".into()], 2_000)
            .unwrap();
        book
    }

    #[test]
    fn title_is_derived_and_tags_are_normalised() {
        let book = book();
        let note = book.get(1).unwrap();
        assert_eq!(
            (note.title.as_str(), note.tags.as_slice(), note.created.as_str()),
            ("Shopping", &["home".to_owned()][..], "1970-01-01T00:16:40Z")
        );
        assert!(Book::default().save(None, " \n".into(), vec![], 0).unwrap_err().contains("empty"));
    }

    #[test]
    fn search_requires_all_words_in_any_case() {
        let book = book();
        let ids = |query: &str| {
            book.search(query, 10).iter().map(|found| found.note.id).collect::<Vec<_>>()
        };
        assert_eq!(
            (ids("BROT milk"), ids("home"), ids("milk friday"), ids(" ")),
            (vec![1], vec![1], vec![], vec![])
        );
        assert_eq!(book.search("brot", 10)[0].excerpt, "milk and Brot");
    }

    #[test]
    fn list_is_sorted_by_time_and_counts_the_rest() {
        let mut book = book();
        assert_eq!((book.list(None, 1).0[0].id, book.list(None, 1).1), (2, 1));
        book.update(1, None, Some("bread".into()), None, 3_000).unwrap();
        assert_eq!(book.list(None, 9).0[0].id, 1);
        assert_eq!(book.list(Some("WORK"), 9).0.len(), 1);
    }

    #[test]
    fn numbers_are_not_reused() {
        let mut book = book();
        book.delete(2).unwrap();
        assert_eq!(book.save(None, "x".into(), vec![], 0).unwrap().id, 3);
        assert!(book.get(2).unwrap_err().contains("no note 2"));
        assert!(book.update(1, None, None, None, 0).unwrap_err().contains("nothing to change"));
        let back: Book = serde_json::from_value(serde_json::to_value(&book).unwrap()).unwrap();
        assert_eq!(back.notes, book.notes);
    }
}
