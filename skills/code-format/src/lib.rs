//! Formats source code and data files, by the formatters that others use.

pub mod language;
pub mod rust;

use language::Language;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillhost_guest::fs;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FormatInput {
    /// The text to format. Give either this or `path`.
    text: Option<String>,
    /// The file to format. Give either this or `text`.
    path: Option<String>,
    /// What it is written in; told by the path's extension without.
    language: Option<Language>,
    /// Write the file where formatting changes it, rather than return the text.
    #[serde(default)]
    write: bool,
}

#[derive(Serialize, JsonSchema)]
struct Formatted {
    /// What it is written in.
    language: Language,
    /// Whether formatting changes anything.
    changed: bool,
    /// The formatted text, where it was not written to the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Formats JSON, TOML, YAML, SQL or Rust. What does not parse is not touched, and told with its
/// place.
#[skillhost_guest::tool]
async fn format(input: FormatInput) -> Result<Formatted, String> {
    let (before, language) = source(input.text, input.path.as_deref(), input.language).await?;
    let after = language.format(&before)?;
    let changed = after != before;
    match (input.write, input.path) {
        (false, _) => Ok(Formatted { language, changed, text: Some(after) }),
        (true, Some(path)) => {
            if changed {
                fs::write(&path, &after).await.map_err(|error| error.to_string())?;
            }
            Ok(Formatted { language, changed, text: None })
        }
        (true, None) => Err("`write` needs `path`".into()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckInput {
    /// The files to look at.
    paths: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Checked {
    files: Vec<FileChecked>,
}

#[derive(Serialize, JsonSchema)]
struct FileChecked {
    path: String,
    /// Whether it is formatted already; without it, it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    formatted: Option<bool>,
    /// Why it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Tells which files are not formatted. Nothing is changed.
#[skillhost_guest::tool]
async fn check(input: CheckInput) -> Result<Checked, String> {
    let mut files = Vec::new();
    for path in input.paths {
        let formatted = async {
            let (before, language) = source(None, Some(&path), None).await?;
            Ok(language.format(&before)? == before)
        };
        let (formatted, error) = match formatted.await {
            Ok(formatted) => (Some(formatted), None),
            Err::<_, String>(error) => (None, Some(error)),
        };
        files.push(FileChecked { path, formatted, error });
    }
    Ok(Checked { files })
}

skillhost_guest::tools!(format, check);

async fn source(
    text: Option<String>,
    path: Option<&str>,
    language: Option<Language>,
) -> Result<(String, Language), String> {
    let known = || "name its `language`: json, toml, yaml, sql or rust".to_owned();
    match (text, path) {
        (Some(text), None) => Ok((text, language.ok_or_else(known)?)),
        (None, Some(path)) => {
            let language = language
                .or_else(|| Language::of(path))
                .ok_or_else(|| format!("{path}: {}", known()))?;
            Ok((fs::read_to_string(path).await.map_err(|error| error.to_string())?, language))
        }
        _ => Err("give either `text` or `path`".into()),
    }
}
