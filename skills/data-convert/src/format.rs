//! The formats and their detection.

use schemars::JsonSchema;
use serde::Deserialize;

/// A data format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON; may have several values.
    Json,
    /// JSON Lines: one value per line.
    Jsonl,
    /// YAML 1.2; may have several documents.
    Yaml,
    /// TOML 1.1.
    Toml,
    /// Comma-separated values, with column names in the first row.
    Csv,
    /// Tab-separated values, with column names in the first row.
    Tsv,
}

impl Format {
    /// Returns the format with this name.
    ///
    /// # Errors
    /// Returns a list of the valid names.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let path = format!("x.{}", name.to_ascii_lowercase());
        Self::from_path(&path).ok_or_else(|| {
            format!("unknown format {name:?}: use json, jsonl, yaml, toml, csv or tsv")
        })
    }

    /// Returns the format for the extension of a file name, if it is known.
    pub fn from_path(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "json" | "geojson" | "ipynb" => Self::Json,
            "jsonl" | "ndjson" => Self::Jsonl,
            "yaml" | "yml" => Self::Yaml,
            "toml" => Self::Toml,
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            _ => return None,
        })
    }

    /// Guesses the format of a text. If several are possible, returns the most common one.
    pub fn from_content(content: &[u8]) -> Self {
        let start = &content[..content.len().min(4096)];
        let text = String::from_utf8_lossy(start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start));
        let Some(line) =
            text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
        else {
            return Self::Yaml;
        };
        if is_toml_header(line) || is_toml_assignment(line) {
            return Self::Toml;
        }
        if line.starts_with(['{', '[']) {
            return Self::Json;
        }
        // Quoted fields may contain anything. A key's colon ends the line or is followed by a
        // space.
        let yaml = line.starts_with("---")
            || line.starts_with("- ")
            || line.starts_with('%')
            || line.ends_with(':')
            || line.contains(": ");
        match line {
            _ if yaml => Self::Yaml,
            _ if line.contains('\t') => Self::Tsv,
            _ if line.contains(',') => Self::Csv,
            _ => Self::Yaml,
        }
    }
}

/// Recognises `[table]` and `[[tables]]`. JSON arrays of numbers, strings and literals do not
/// match.
fn is_toml_header(line: &str) -> bool {
    let inner = line.split('#').next().unwrap_or_default().trim_end();
    let Some(inner) = inner.strip_prefix('[').and_then(|l| l.strip_suffix(']')) else {
        return false;
    };
    let name = inner.strip_prefix('[').and_then(|l| l.strip_suffix(']')).unwrap_or(inner);
    is_key(name)
        && !["true", "false", "null"].contains(&name)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_toml_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| is_key(key.trim_end()))
}

fn is_key(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_takes_precedence() {
        assert_eq!(Format::from_path("a/b.YML"), Some(Format::Yaml));
        assert_eq!(Format::from_path("rows.ndjson"), Some(Format::Jsonl));
        assert_eq!(Format::from_path("README"), None);
        assert_eq!(Format::from_name("TOML"), Ok(Format::Toml));
        assert!(Format::from_name("xml").unwrap_err().contains("use json, jsonl, yaml"));
    }

    #[test]
    fn content_decides_without_an_extension() {
        let cases = [
            ("{\"a\": 1}", Format::Json),
            ("\u{feff}\n [1, 2]", Format::Json),
            ("[true]", Format::Json),
            ("# c\n[package]\nname = 'x'", Format::Toml),
            ("[[bin]] # c", Format::Toml),
            ("a.b = 1", Format::Toml),
            ("a: 1", Format::Yaml),
            ("---\nx", Format::Yaml),
            ("- a, b", Format::Yaml),
            ("items:\n- 1", Format::Yaml),
            ("id,name\n1,x", Format::Csv),
            ("id\tname, first\n", Format::Tsv),
            ("", Format::Yaml),
            ("42", Format::Yaml),
        ];
        for (content, format) in cases {
            assert_eq!(Format::from_content(content.as_bytes()), format, "{content}");
        }
    }
}
