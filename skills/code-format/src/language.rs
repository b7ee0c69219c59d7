//! The languages and their formatters.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rust;

/// Maximum columns of a line.
const WIDTH: u32 = 100;

/// A language that can be formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are descriptive")]
pub enum Language {
    Json,
    Toml,
    Yaml,
    Sql,
    Rust,
}

impl Language {
    /// Returns the language for the extension of a path.
    pub fn of(path: &str) -> Option<Language> {
        let name = path.rsplit('/').next()?;
        Some(match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "json" | "jsonc" => Language::Json,
            "toml" => Language::Toml,
            "yaml" | "yml" => Language::Yaml,
            "sql" => Language::Sql,
            "rs" => Language::Rust,
            _ => return None,
        })
    }

    /// Formats a text. A formatted text does not change.
    ///
    /// # Errors
    /// Returns an error if the text does not parse or cannot be formatted without loss.
    pub fn format(self, text: &str) -> Result<String, String> {
        let formatted = match self {
            Language::Json => {
                let config = dprint_plugin_json::configuration::ConfigurationBuilder::new()
                    .line_width(WIDTH)
                    .indent_width(2)
                    .build();
                dprint_plugin_json::format_text(Path::new("x.json"), text, &config)
                    .map(|new| new.unwrap_or_else(|| text.to_owned()))
            }
            .map_err(|error| error.to_string()),
            Language::Toml => {
                // The name of a file without a specific key order.
                let config = dprint_plugin_toml::configuration::ConfigurationBuilder::new()
                    .line_width(WIDTH)
                    .build();
                dprint_plugin_toml::format_text(Path::new("x.toml"), text, &config)
                    .map(|new| new.unwrap_or_else(|| text.to_owned()))
            }
            .map_err(|error| error.to_string()),
            Language::Yaml => pretty_yaml::format_text(text, &Default::default())
                .map_err(|error| error.to_string()),
            Language::Sql => {
                let options =
                    sqlformat::FormatOptions { uppercase: Some(true), ..Default::default() };
                Ok(sqlformat::format(text, &sqlformat::QueryParams::None, &options) + "\n")
            }
            Language::Rust => rust::format(text),
        };
        formatted.map_err(|error| error.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CASES: [(Language, &str, &str); 8] = [
        (
            Language::Json,
            "{\"a\":1.10,  // why\n\"b\":[1,2]}",
            "{\n  \"a\": 1.10, // why\n  \"b\": [1, 2]\n}\n",
        ),
        (Language::Json, "[]", "[]\n"),
        (Language::Toml, "a=1 # one\n[t]\nb = [1,2]\n", "a = 1 # one\n[t]\nb = [1, 2]\n"),
        (
            Language::Yaml,
            "a:   1 # one\nb:\n    - x\n    -   y\n",
            "a: 1 # one\nb:\n  - x\n  - y\n",
        ),
        (
            Language::Sql,
            "select a,b from t where a=1",
            "SELECT\n  a,\n  b\nFROM\n  t\nWHERE\n  a = 1\n",
        ),
        (
            Language::Rust,
            "/// Adds.\npub fn add(a:u8,b:u8)->u8{a+b}",
            "/// Adds.\npub fn add(a: u8, b: u8) -> u8 {\n    a + b\n}\n",
        ),
        (
            Language::Rust,
            "fn main(){let s=\"// no comment\";}",
            "fn main() {\n    let s = \"// no comment\";\n}\n",
        ),
        (Language::Yaml, "k: \"v\"\n", "k: \"v\"\n"),
    ];

    #[test]
    fn each_language_is_formatted_idempotently() {
        for (language, text, formatted) in CASES {
            assert_eq!(language.format(text).as_deref(), Ok(formatted), "{language:?}");
            assert_eq!(language.format(formatted).as_deref(), Ok(formatted), "{language:?}, again");
        }
    }

    #[test]
    fn invalid_text_is_an_error() {
        for (language, text) in [
            (Language::Json, "{\"a\":"),
            (Language::Toml, "a = "),
            (Language::Rust, "fn main( {"),
            (Language::Yaml, "a: [1"),
        ] {
            assert!(language.format(text).is_err(), "{language:?}");
        }
    }

    #[test]
    fn extension_determines_the_language() {
        assert_eq!(
            (Language::of("a/b.YML"), Language::of("src/lib.rs")),
            (Some(Language::Yaml), Some(Language::Rust))
        );
        assert_eq!(
            (Language::of("Makefile"), Language::of("a.py"), Language::of("dir.json/x")),
            (None, None, None)
        );
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(serde_json::Value::from),
            "\\PC{0,12}".prop_map(serde_json::Value::from),
            any::<bool>().prop_map(serde_json::Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::vec(("\\PC{0,6}", inner), 0..4)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #[test]
        fn formatted_json_has_the_same_value(value in json()) {
            let once = Language::Json.format(&value.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&once).unwrap(), value);
            prop_assert_eq!(Language::Json.format(&once).unwrap(), once);
        }
    }
}
