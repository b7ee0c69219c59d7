//! Remembers texts between runs, and recalls those that match a question.

pub mod conversations;
pub mod index;
pub mod memory;
mod saved;

use index::Index;
use memory::{Entry, Memory};
use saved::{Files, Found, Saved};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::{fs, state};
use std::io;
use std::time::UNIX_EPOCH;

const FILE: &str = "memory.json";

/// The maximum number of notes about what was left out.
const NOTES_MAX: usize = 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RememberInput {
    /// The text to remember, in sentences that make sense without context.
    text: String,
    /// The source, such as a file, an address or a person.
    source: Option<String>,
}

/// Remembers a text for later sessions.
#[skillhost_guest::tool]
async fn remember(input: RememberInput) -> Result<Entry, String> {
    let mut memory = load().await?;
    let now =
        skillhost_guest::time::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let entry = memory.remember(input.text, input.source, now)?;
    store(&memory).await?;
    Ok(entry)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallInput {
    /// The subject, in a few words.
    query: String,
    /// Maximum number of results; 5 by default.
    limit: Option<usize>,
    /// Also search this file or folder, such as `/workspace/notes`: notes (Markdown, text and JSON)
    /// and exported conversations (`conversations.json` of ChatGPT and Claude, JSON Lines with
    /// `role` and `content`).
    path: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RecallOutput {
    /// The results, the best first.
    found: Vec<SearchResult>,
    /// The number of texts that were searched.
    searched: usize,
    /// What was not searched, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct SearchResult {
    /// The number of a remembered text. Missing for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// The source of the text. For a message: the file, the title, the date and the role.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The part of the text that matches the query.
    text: String,
    /// The score, for comparison with the other results.
    score: f64,
}

/// Recalls remembered texts about a subject by full-text search, the best first. Use it before you
/// say that you do not know something.
#[skillhost_guest::tool]
async fn recall(input: RecallInput) -> Result<RecallOutput, String> {
    // Without storage for state there may still be files to search.
    let memory = match (load().await, &input.path) {
        (Ok(memory), _) => memory,
        (Err(_), Some(_)) => Memory::default(),
        (Err(error), None) => return Err(error),
    };
    let mut texts: Vec<(Option<u64>, Option<String>, String)> = memory
        .entries()
        .iter()
        .map(|entry| (Some(entry.id), entry.source.clone(), entry.text.clone()))
        .collect();
    let mut notes = Vec::new();
    if let Some(path) = &input.path {
        let saved = Saved::read(&Host, path).await?;
        texts.extend(saved.texts.into_iter().map(|(source, text)| (None, Some(source), text)));
        notes = saved.notes;
        if notes.len() > NOTES_MAX {
            let more = notes.len() - NOTES_MAX;
            notes.truncate(NOTES_MAX);
            notes.push(format!("and {more} more"));
        }
    }
    let index = Index::of(texts.iter().map(|(_, _, text)| text.as_str()));
    let found =
        index.search(&input.query, input.limit.unwrap_or(5)).into_iter().map(|(at, score)| {
            let (id, source, text) = &texts[at];
            SearchResult {
                id: *id,
                source: source.clone(),
                text: index::excerpt(text, &input.query),
                score: (score * 1000.0).round() / 1000.0,
            }
        });
    Ok(RecallOutput { found: found.collect(), searched: texts.len(), notes })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ForgetInput {
    /// The number, from `remember` or `recall`.
    id: u64,
}

/// Forgets a text permanently, and returns it.
#[skillhost_guest::tool]
async fn forget(input: ForgetInput) -> Result<Entry, String> {
    let mut memory = load().await?;
    let entry = memory.forget(input.id)?;
    store(&memory).await?;
    Ok(entry)
}

skillhost_guest::tools!(remember, recall, forget);

async fn load() -> Result<Memory, String> {
    state::load(FILE).await.map_err(|error| error.to_string())
}

async fn store(memory: &Memory) -> Result<(), String> {
    state::store(FILE, memory).await.map_err(|error| error.to_string())
}

/// The files that the host grants.
struct Host;

impl Files for Host {
    async fn find(&self, path: &str) -> io::Result<Found> {
        let about = fs::metadata(path).await?;
        Ok(if about.is_dir() {
            Found::Folder
        } else if about.is_file() {
            Found::File(about.len())
        } else {
            Found::Other
        })
    }

    async fn list(&self, folder: &str) -> io::Result<Vec<saved::Entry>> {
        let entries = fs::read_dir(folder).await?;
        let entry = |entry: &fs::DirEntry| saved::Entry {
            name: entry.file_name().to_owned(),
            is_folder: entry.is_dir(),
        };
        Ok(entries.iter().map(entry).collect())
    }

    async fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(path).await
    }
}
