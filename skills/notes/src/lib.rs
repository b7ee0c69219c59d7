//! Keeps notes between runs.

pub mod book;

use std::time::UNIX_EPOCH;

use book::{Book, Note, SearchResult, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::state;

const FILE: &str = "notes.json";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveInput {
    /// The text of the note.
    text: String,
    /// The title; by default the first line of the text.
    title: Option<String>,
    /// Words for finding the note, such as `project-x`.
    #[serde(default)]
    tags: Vec<String>,
}

/// Saves a new note. Use it for anything to be remembered beyond this session.
#[skillhost_guest::tool]
async fn save(input: SaveInput) -> Result<Note, String> {
    change(|book| book.save(input.title, input.text, input.tags, now())).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateInput {
    /// The number of the note.
    id: u64,
    /// The new text; unchanged by default.
    text: Option<String>,
    /// The new title; unchanged by default.
    title: Option<String>,
    /// The new tags, which replace the old ones; unchanged by default.
    tags: Option<Vec<String>>,
}

/// Changes parts of a note.
#[skillhost_guest::tool]
async fn update(input: UpdateInput) -> Result<Note, String> {
    change(|book| book.update(input.id, input.title, input.text, input.tags, now())).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdInput {
    /// The number of the note, as shown by `list` and `search`.
    id: u64,
}

/// Reads a whole note.
#[skillhost_guest::tool]
async fn read(input: IdInput) -> Result<Note, String> {
    Ok(load().await?.get(input.id)?.clone())
}

/// Deletes a note permanently, and returns it.
#[skillhost_guest::tool]
async fn delete(input: IdInput) -> Result<Note, String> {
    change(|book| book.delete(input.id)).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// List only notes with this tag.
    tag: Option<String>,
    /// Maximum number of notes; 50 by default.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct NoteList {
    notes: Vec<Summary>,
    /// The number of notes that were left out.
    more: usize,
}

/// Lists notes without their text, the last changed first.
#[skillhost_guest::tool]
async fn list(input: ListInput) -> Result<NoteList, String> {
    let (notes, more) = load().await?.list(input.tag.as_deref(), input.limit.unwrap_or(50));
    Ok(NoteList { notes, more })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    /// Words that must all occur in the title, the text or the tags, in any order and case.
    query: String,
    /// Maximum number of notes; 20 by default.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct SearchOutput {
    notes: Vec<SearchResult>,
}

/// Finds notes that contain all the words, each with the matching line.
#[skillhost_guest::tool]
async fn search(input: SearchInput) -> Result<SearchOutput, String> {
    Ok(SearchOutput { notes: load().await?.search(&input.query, input.limit.unwrap_or(20)) })
}

skillhost_guest::tools!(save, update, read, list, search, delete);

async fn load() -> Result<Book, String> {
    state::load(FILE).await.map_err(|error| error.to_string())
}

async fn change<T>(act: impl FnOnce(&mut Book) -> Result<T, String>) -> Result<T, String> {
    let mut book = load().await?;
    let result = act(&mut book)?;
    state::store(FILE, &book).await.map_err(|error| error.to_string())?;
    Ok(result)
}

fn now() -> i64 {
    skillhost_guest::time::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
