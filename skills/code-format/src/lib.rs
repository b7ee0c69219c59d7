//! Formats source code and data files with established formatters.

pub mod language;
pub mod nesting;
pub mod rust;
pub mod web;

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
    /// The language. By default, the extension of the path determines it.
    language: Option<Language>,
    /// Write the file if formatting changes it, instead of returning the text.
    #[serde(default)]
    write: bool,
}

#[derive(Serialize, JsonSchema)]
struct FormatOutput {
    /// The language of the text.
    language: Language,
    /// Whether formatting changed the text.
    changed: bool,
    /// The formatted text, unless it was written to the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Formats JSON, TOML, YAML, SQL, Rust, Markdown, HTML, CSS or shell scripts. If a text does not parse, it is not changed, and the
/// error has the position.
#[skillhost_guest::tool]
async fn format(input: FormatInput) -> Result<FormatOutput, String> {
    let (before, language) = source(input.text, input.path.as_deref(), input.language).await?;
    let after = language.format(&before)?;
    let changed = after != before;
    match (input.write, input.path) {
        (false, _) => Ok(FormatOutput { language, changed, text: Some(after) }),
        (true, Some(path)) => {
            if changed {
                fs::write(&path, &after).await.map_err(|error| error.to_string())?;
            }
            Ok(FormatOutput { language, changed, text: None })
        }
        (true, None) => Err("`write` needs `path`".into()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckInput {
    /// The files to check.
    paths: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct CheckOutput {
    files: Vec<FileStatus>,
}

#[derive(Serialize, JsonSchema)]
struct FileStatus {
    path: String,
    /// Whether the file is formatted. Missing if that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    formatted: Option<bool>,
    /// The reason why it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Reports which files are not formatted. Changes nothing.
#[skillhost_guest::tool]
async fn check(input: CheckInput) -> Result<CheckOutput, String> {
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
        files.push(FileStatus { path, formatted, error });
    }
    Ok(CheckOutput { files })
}

skillhost_guest::tools!(format, check);

async fn source(
    text: Option<String>,
    path: Option<&str>,
    language: Option<Language>,
) -> Result<(String, Language), String> {
    let known =
        || "set `language` to json, toml, yaml, sql, rust, markdown, html, css or shell".to_owned();
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
