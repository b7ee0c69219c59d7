//! The languages and their formatters.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shuck_formatter::{FormattedSource, IndentStyle, ShellFormatOptions};

use crate::nesting::{Lexis, TooDeep};
use crate::{nesting, rust, web};

/// Maximum columns of a line.
pub(crate) const WIDTH: u32 = 100;

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
    Markdown,
    Html,
    Css,
    Shell,
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
            "md" | "markdown" => Language::Markdown,
            "html" | "htm" => Language::Html,
            "css" => Language::Css,
            "sh" | "bash" => Language::Shell,
            _ => return None,
        })
    }

    /// Formats a text. A formatted text does not change.
    ///
    /// # Errors
    /// Returns an error if the text nests too deeply, does not parse or cannot be formatted without
    /// loss.
    pub fn format(self, text: &str) -> Result<String, String> {
        self.check(text)?;
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
            Language::Markdown => {
                let config = dprint_plugin_markdown::configuration::ConfigurationBuilder::new()
                    .line_width(WIDTH)
                    .build();
                // Code in other languages is left as it is: it may be shown for what it is.
                dprint_plugin_markdown::format_text(text, &config, |_, _, _| Ok(None))
                    .map(|new| new.unwrap_or_else(|| text.to_owned()))
                    .map_err(|error| error.to_string())
            }
            Language::Html => web::html(text),
            Language::Css => web::css(text, WIDTH as usize),
            Language::Shell => {
                let options = ShellFormatOptions::default()
                    .with_indent_style(IndentStyle::Space)
                    .with_indent_width(2);
                match shuck_formatter::format_source(text, None, &options) {
                    Ok(FormattedSource::Unchanged) => Ok(text.to_owned()),
                    Ok(FormattedSource::Formatted(new)) => Ok(new),
                    Err(error) => Err(error.to_string()),
                }
            }
        };
        formatted.map_err(|error| error.trim().to_owned())
    }

    /// Checks that a text can be formatted without exhausting the stack or the memory.
    ///
    /// # Errors
    /// Returns an error if it nests too deeply.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        self.too_deep(text).map_or(Ok(()), |deep| Err(deep.message(text)))
    }

    /// The limits are about half of what the component can format. Of arrays directly in each
    /// other, the formatters of JSON and TOML try all combinations of one line and several.
    fn too_deep(self, text: &str) -> Option<TooDeep> {
        const DATA: Lexis = Lexis {
            open: b"[{",
            quotes: b"\"'",
            comment: ("#", "\n"),
            operators: false,
            arrays: usize::MAX,
        };
        const JSON: Lexis = Lexis { quotes: b"\"", comment: ("//", "\n"), arrays: 12, ..DATA };
        const TOML: Lexis = Lexis { arrays: 12, ..DATA };
        const SQL: Lexis = Lexis { open: b"(", comment: ("--", "\n"), ..DATA };
        const CSS: Lexis = Lexis { open: b"([{", comment: ("/*", "*/"), operators: true, ..DATA };
        // An apostrophe most often begins a lifetime.
        const RUST: Lexis = Lexis { quotes: b"\"", comment: ("//", "\n"), ..CSS };
        match self {
            Language::Json => nesting::brackets(text, JSON, 100),
            Language::Toml => nesting::brackets(text, TOML, 100),
            Language::Yaml => {
                nesting::blocks(text, 200).or_else(|| nesting::brackets(text, DATA, 200))
            }
            Language::Sql => nesting::brackets(text, SQL, 200),
            Language::Rust => nesting::brackets(text, RUST, 150),
            Language::Markdown => {
                nesting::blocks(text, 100).or_else(|| nesting::emphasis(text, 400))
            }
            Language::Html => nesting::elements(text, 200),
            Language::Css => nesting::brackets(text, CSS, 80),
            Language::Shell => nesting::shell(text, 32),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CASES: [(Language, &str, &str); 15] = [
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
        (
            Language::Markdown,
            "Title\n=====\n\n* one\n* two\n\n|a|b|\n|-|-|\n|1|2|\n\n```js\nf( 1)\n```\n",
            "# Title\n\n- one\n- two\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```js\nf( 1)\n```\n",
        ),
        (
            Language::Css,
            "/* why */a{color:RED;margin:0 1px}\n@media (min-width:1px){b{top:0}}",
            "/* why */\na {\n  color: RED;\n  margin: 0 1px;\n}\n@media (min-width: 1px) {\n  b {\n    top: 0;\n  }\n}\n",
        ),
        (
            Language::Html,
            "<!doctype html><ul><li>one</li><li>two</li></ul><style>a{top:0}</style>",
            "<!DOCTYPE html>\n<ul>\n  <li>one</li>\n  <li>two</li>\n</ul>\n<style>\na {\n  top: 0;\n}\n</style>\n",
        ),
        (
            Language::Html,
            "<script>\nlet a = `\n    kept\n  as is`;\n</script>\n<script type=\"application/json\">{\"a\":1}</script>",
            "<script>\nlet a = `\n    kept\n  as is`;\n</script>\n<script type=\"application/json\">\n{ \"a\": 1 }\n</script>\n",
        ),
        (
            Language::Shell,
            "#!/bin/bash\nif [ -f a ];then\necho \"$a\"  # why\nfi\nfor x in 1 2;do echo $x;done\n",
            "#!/bin/bash\nif [ -f a ]; then\n  echo \"$a\" # why\nfi\nfor x in 1 2; do echo $x; done\n",
        ),
        (
            Language::Shell,
            "cat <<EOF\n  $kept\n    as is\nEOF\nf() { :; }\n",
            "cat <<EOF\n  $kept\n    as is\nEOF\nf() { :; }\n",
        ),
        (Language::Markdown, "a  \nb\n\n<b>x</b>\n", "a\\\nb\n\n<b>x</b>\n"),
    ];

    #[test]
    fn each_language_is_formatted_idempotently() {
        for (language, text, formatted) in CASES {
            assert_eq!(language.format(text).as_deref(), Ok(formatted), "{language:?}: {text}");
            assert_eq!(language.format(formatted).as_deref(), Ok(formatted), "again: {formatted}");
        }
    }

    #[test]
    fn invalid_text_is_an_error() {
        for (language, text) in [
            (Language::Json, "{\"a\":"),
            (Language::Toml, "a = "),
            (Language::Rust, "fn main( {"),
            (Language::Yaml, "a: [1"),
            (Language::Html, "<p"),
            (Language::Css, "a {"),
            (Language::Shell, "if true; then"),
        ] {
            assert!(language.format(text).is_err(), "{language:?}");
        }
    }

    /// What a text begins with, what opens and closes a level, and the most levels.
    const DEEP: [(Language, &str, &str, &str, usize); 20] = [
        (Language::Json, "", "[", "]", 12),
        (Language::Json, "", "{\"a\":", "}", 100),
        (Language::Toml, "a = ", "[", "]", 12),
        (Language::Toml, "a = ", "{ a = ", "}", 100),
        (Language::Yaml, "", "[", "]", 200),
        (Language::Yaml, "", "- ", "", 200),
        (Language::Sql, "select ", "(", ")", 200),
        (Language::Rust, "fn f() ", "{", "}", 150),
        (Language::Rust, "type A = ", "A<", ">", 299),
        (Language::Rust, "static A: u8 = ", "! ", "", 599),
        (Language::Rust, "static A: u8 = ", "&mut ", "", 199),
        (Language::Markdown, "", ">", "", 100),
        (Language::Markdown, "", "- ", "", 100),
        (Language::Markdown, "", "*a ", "a*", 400),
        (Language::Html, "", "<b>", "</b>", 200),
        (Language::Css, "", "a{", "}", 80),
        (Language::Css, "", "@media all{", "}", 80),
        (Language::Shell, "", "$(", ")", 32),
        (Language::Shell, "", "{ ", ";}", 32),
        (Language::Shell, "", "time ", "", 32),
    ];

    #[test]
    fn deep_text_is_an_error_before_it_is_parsed() {
        for (language, start, open, close, levels) in DEEP {
            // A parser would find that nothing is closed, if it did not overflow the stack first.
            for text in [open.repeat(20_000), open.repeat(20_000) + &close.repeat(20_000)] {
                let error = language.format(&format!("{start}{text}")).unwrap_err();
                assert!(error.contains("the text nests deeper than "), "{open}: {error}");
                assert!(error.contains(" levels at line 1"), "{open}: {error}");
            }
            let text = |levels| format!("{start}{}", open.repeat(levels));
            assert_eq!(language.check(&text(levels)), Ok(()), "{language:?}: {open}");
            assert!(language.check(&text(levels + 1)).is_err(), "{language:?}: {open}");
        }
        let page = format!("<style>{}{}</style>", "a{".repeat(20_000), "}".repeat(20_000));
        let error = Language::Html.format(&page).unwrap_err();
        assert!(error.contains("nests deeper than 80 levels"), "{error}");
        let text = format!("a: 1\n\nb: {}", "[".repeat(20_000));
        let error = "the text nests deeper than 200 levels at line 3";
        assert_eq!(Language::Yaml.format(&text), Err(error.into()));
    }

    #[test]
    fn texts_with_many_brackets_and_operators_are_not_deep() {
        for (language, text) in [
            (Language::Json, "[\"[[[[{\",\n// it's [[[\n1],\n"),
            (Language::Toml, "a = ['[', \"(\"] # [see\n"),
            (Language::Yaml, "- a: \"[\" # [see\n  b: :(\n"),
            (Language::Sql, "select '(' from a; -- (\n"),
            (Language::Rust, "fn f() { a('(', \"(\") + a::<u8>(-1) }\n/// ----\n"),
            (Language::Markdown, "> - **a** _b_ * c *\n\n*d\n\n"),
            (Language::Html, "<p title='<b>'>a<br><img/></p><!-- <b> -->\n"),
            (Language::Css, "a > b + c { d: calc(1 - -1) } /* (---- */ e { f: g }\n"),
            (Language::Shell, "f() { a \"$(b '(')\" ${c} {d,e}; } # $(\ncase a in b) c;; esac\n"),
        ] {
            assert_eq!(language.check(&text.repeat(1_000)), Ok(()), "{language:?}");
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
