//! Keeps notes from run to run.

pub mod book;

use std::time::UNIX_EPOCH;

use book::{Book, Found, Note, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::state;

const FILE: &str = "notes.json";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveInput {
    /// The text of the note.
    text: String,
    /// Its title; the first line of the text without.
    title: Option<String>,
    /// Words to find it by, such as `project-x`.
    #[serde(default)]
    tags: Vec<String>,
}

/// Saves a new note. Use it when something is to be remembered beyond this session.
#[skillhost_guest::tool]
async fn save(input: SaveInput) -> Result<Note, String> {
    change(|book| book.save(input.title, input.text, input.tags, now())).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateInput {
    /// The note's number.
    id: u64,
    /// The new text; as it was without.
    text: Option<String>,
    /// The new title; as it was without.
    title: Option<String>,
    /// The new tags in place of the old ones; as they were without.
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
    /// The note's number, as `list` and `search` tell it.
    id: u64,
}

/// Reads one note whole.
#[skillhost_guest::tool]
async fn read(input: IdInput) -> Result<Note, String> {
    Ok(load().await?.get(input.id)?.clone())
}

/// Removes a note for good, and returns it.
#[skillhost_guest::tool]
async fn delete(input: IdInput) -> Result<Note, String> {
    change(|book| book.delete(input.id)).await
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// Notes with this tag alone.
    tag: Option<String>,
    /// At most as many; 50 without.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct Listed {
    notes: Vec<Summary>,
    /// How many more there are.
    more: usize,
}

/// Lists notes, those changed last first, without their text.
#[skillhost_guest::tool]
async fn list(input: ListInput) -> Result<Listed, String> {
    let (notes, more) = load().await?.list(input.tag.as_deref(), input.limit.unwrap_or(50));
    Ok(Listed { notes, more })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    /// Words that all must be in the title, the text or the tags, in any order and case.
    query: String,
    /// At most as many; 20 without.
    limit: Option<usize>,
}

#[derive(Serialize, JsonSchema)]
struct SearchOutput {
    notes: Vec<Found>,
}

/// Finds notes that hold all of some words, each with the place where they stand.
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
