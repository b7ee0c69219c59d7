//! Remembers texts between runs, and recalls those that match a question.

pub mod index;
pub mod memory;

use index::Index;
use memory::{Entry, Memory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::{fs, state};
use std::time::UNIX_EPOCH;

const FILE: &str = "memory.json";

/// Limits of one recall: the number of files, and the bytes of each.
const FILES_MAX: usize = 2_000;
const BYTES_MAX: u64 = 1 << 20;

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
    /// Also search the notes in this file or folder (Markdown, text and JSON), such as
    /// `/workspace/notes`.
    path: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct RecallOutput {
    /// The results, the best first.
    found: Vec<SearchResult>,
    /// The number of texts that were searched.
    searched: usize,
}

#[derive(Serialize, JsonSchema)]
struct SearchResult {
    /// The number of a remembered text. Missing for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// The source of the text.
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
    if let Some(path) = &input.path {
        for (name, text) in saved(path).await? {
            texts.extend(
                index::parts(&text)
                    .into_iter()
                    .map(|part| (None, Some(name.clone()), part.to_owned())),
            );
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
    Ok(RecallOutput { found: found.collect(), searched: texts.len() })
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

/// Reads a file, or all files of the supported types below a folder, with their names.
async fn saved(path: &str) -> Result<Vec<(String, String)>, String> {
    let mut todo = vec![path.trim_end_matches('/').to_owned()];
    let mut texts = Vec::new();
    while let Some(path) = todo.pop() {
        let about = fs::metadata(&path).await.map_err(|error| error.to_string())?;
        if about.is_dir() {
            let entries = fs::read_dir(&path).await.map_err(|error| error.to_string())?;
            todo.extend(entries.iter().rev().map(|entry| format!("{path}/{}", entry.file_name())));
        } else if about.is_file()
            && about.len() <= BYTES_MAX
            && [".md", ".txt", ".json", ".jsonl"].iter().any(|end| path.ends_with(end))
        {
            if texts.len() == FILES_MAX {
                return Err(format!("there are more than {FILES_MAX} files: use a smaller folder"));
            }
            let bytes = fs::read(&path).await.map_err(|error| error.to_string())?;
            texts.push((path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    Ok(texts)
}
