//! Remembers texts between runs, and recalls those that match a question.

pub mod conversations;
pub mod index;
pub mod memory;

use index::Index;
use memory::{Entry, Memory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::{fs, state};
use std::time::UNIX_EPOCH;

const FILE: &str = "memory.json";

/// Limits of one recall: the number of files, the bytes of each, the bytes of one that may be an
/// export of conversations, those of all files, and the number of messages.
const FILES_MAX: usize = 2_000;
const BYTES_MAX: u64 = 1 << 20;
const EXPORT_MAX: u64 = 32 << 20;
const TOTAL_MAX: u64 = 64 << 20;
const MESSAGES_MAX: usize = 100_000;
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
        let saved = saved(path).await?;
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

/// The texts of files, each with its source.
#[derive(Default)]
struct Saved {
    texts: Vec<(String, String)>,
    messages: usize,
    /// What was left out, and why.
    notes: Vec<String>,
}

/// Reads a file, or all files of the supported types below a folder.
async fn saved(path: &str) -> Result<Saved, String> {
    let mut todo = vec![path.trim_end_matches('/').to_owned()];
    let mut saved = Saved::default();
    let (mut files, mut total) = (0, 0);
    while let Some(path) = todo.pop() {
        let about = fs::metadata(&path).await.map_err(|error| error.to_string())?;
        if about.is_dir() {
            let entries = fs::read_dir(&path).await.map_err(|error| error.to_string())?;
            todo.extend(entries.iter().rev().map(|entry| format!("{path}/{}", entry.file_name())));
            continue;
        }
        let kind = FileKind::of(&path).filter(|_| about.is_file());
        let Some(kind) = kind else { continue };
        if about.len() > kind.limit() {
            let limit = kind.limit() >> 20;
            saved.notes.push(format!("{path} is larger than {limit} MiB, and was not searched"));
            continue;
        }
        (files, total) = (files + 1, total + about.len());
        if files > FILES_MAX {
            return Err(format!("there are more than {FILES_MAX} files: use a smaller folder"));
        }
        if total > TOTAL_MAX {
            let limit = TOTAL_MAX >> 20;
            return Err(format!("the files have more than {limit} MiB: use a smaller folder"));
        }
        let bytes = fs::read(&path).await.map_err(|error| error.to_string())?;
        saved.add(&path, kind, &String::from_utf8_lossy(&bytes));
    }
    Ok(saved)
}

impl Saved {
    fn add(&mut self, path: &str, kind: FileKind, text: &str) {
        let room = MESSAGES_MAX - self.messages;
        let export = match kind {
            FileKind::Text => None,
            FileKind::Json => conversations::read(text, false, room),
            FileKind::JsonLines => conversations::read(text, true, room),
        };
        let Some(export) = export else {
            if text.len() as u64 > BYTES_MAX {
                let limit = BYTES_MAX >> 20;
                self.notes.push(format!(
                    "{path} is larger than {limit} MiB and holds no conversations of a known \
                     format, and was not searched"
                ));
            } else {
                self.texts.extend(in_parts(path, text));
            }
            return;
        };
        self.messages += export.messages.len();
        self.notes.extend(export.notes.iter().map(|note| format!("{path}: {note}")));
        for message in export.messages {
            self.texts.extend(in_parts(&format!("{path}: {}", message.source()), &message.text));
        }
    }
}

fn in_parts(source: &str, text: &str) -> Vec<(String, String)> {
    index::parts(text).into_iter().map(|part| (source.to_owned(), part.to_owned())).collect()
}

/// The files that are searched, by their extensions.
#[derive(Clone, Copy)]
enum FileKind {
    Text,
    Json,
    JsonLines,
}

impl FileKind {
    fn of(path: &str) -> Option<FileKind> {
        match path.rsplit_once('.')?.1 {
            "md" | "txt" => Some(FileKind::Text),
            "json" => Some(FileKind::Json),
            "jsonl" => Some(FileKind::JsonLines),
            _ => None,
        }
    }

    fn limit(self) -> u64 {
        match self {
            FileKind::Text => BYTES_MAX,
            FileKind::Json | FileKind::JsonLines => EXPORT_MAX,
        }
    }
}
