//! Typed tools: the code behind `#[tool]` and `tools!`.

use std::fmt::Display;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::toolbox::exports::skillhost::skill::tools as wit;
use crate::entry::install_panic_hook;
use crate::stream::finish_all;

/// A tool, implemented by `#[tool]`.
#[allow(async_fn_in_trait, reason = "nothing here is Send")]
pub trait Tool {
    /// 1 to 64 characters of a-z, 0-9, `_` and `-`.
    const NAME: &'static str;
    /// The doc comment of the function.
    const DESCRIPTION: &'static str;
    /// The input, whose schema becomes the tool's input schema.
    type Input: DeserializeOwned + JsonSchema;
    /// The output, whose schema becomes the tool's output schema.
    type Output: Serialize + JsonSchema;
    /// The error, whose message is returned to the caller.
    type Error: Display;

    /// Calls the function.
    async fn call(input: Self::Input) -> Result<Self::Output, Self::Error>;
}

/// Gives access to the type parameters of the `Result` that a tool returns, through any alias.
pub trait ToolResult {
    /// The type of `Ok`.
    type Output;
    /// The type of `Err`.
    type Error;
}

impl<T, E> ToolResult for Result<T, E> {
    type Output = T;
    type Error = E;
}

/// Returns the description of a tool for `list-tools`.
pub fn describe<T: Tool>() -> wit::Tool {
    wit::Tool {
        name: T::NAME.into(),
        description: T::DESCRIPTION.into(),
        input_schema: SchemaSettings::default()
            .into_generator()
            .into_root_schema_for::<T::Input>()
            .as_value()
            .to_string(),
        // The schema of the serialised form: a field that is skipped when empty is not required.
        output_schema: Some(
            SchemaSettings::default()
                .for_serialize()
                .into_generator()
                .into_root_schema_for::<T::Output>()
                .as_value()
                .to_string(),
        ),
    }
}

/// Calls a tool with a JSON input and returns its JSON output.
pub async fn call<T: Tool>(input: &str) -> Result<String, wit::ToolError> {
    install_panic_hook();
    let input = parse(input).map_err(wit::ToolError::InvalidInput)?;
    let result = T::call(input).await.map_err(|error| format!("{error:#}"));
    finish_all().await.map_err(|error| wit::ToolError::Failed(error.to_string()))?;
    let output = result.map_err(wit::ToolError::Failed)?;
    serde_json::to_string(&output).map_err(|error| {
        wit::ToolError::Failed(format!("the output cannot be written as JSON: {error}"))
    })
}

/// Returns the error for an unknown tool name.
pub fn unknown(name: String) -> wit::ToolError {
    wit::ToolError::UnknownTool(name)
}

/// Fails the build if two tools have the same name.
pub const fn assert_distinct(names: &[&str]) {
    let mut one = 0;
    while one < names.len() {
        let mut other = one + 1;
        while other < names.len() {
            assert!(
                !equal(names[one].as_bytes(), names[other].as_bytes()),
                "two tools have the same name"
            );
            other += 1;
        }
        one += 1;
    }
}

fn parse<T: DeserializeOwned>(input: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(input);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        match error.path().to_string().as_str() {
            "." | "?" => error.inner().to_string(),
            path => format!("{path}: {}", error.inner()),
        }
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(value)
}

const fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Input {
        #[expect(dead_code, reason = "only parsed")]
        rows: Vec<Row>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Row {
        #[expect(dead_code, reason = "only parsed")]
        count: u32,
    }

    fn message(input: &str) -> String {
        parse::<Input>(input).unwrap_err()
    }

    #[test]
    fn invalid_input_names_the_field() {
        assert_eq!(
            message(r#"{"rows": [{"count": 1}, {"count": "two"}]}"#),
            r#"rows[1].count: invalid type: string "two", expected u32 at line 1 column 39"#
        );
    }

    #[test]
    fn missing_field_names_its_parent() {
        assert_eq!(
            message(r#"{"rows": [{}]}"#),
            "rows[0]: missing field `count` at line 1 column 12"
        );
        assert_eq!(message("{}"), "missing field `rows` at line 1 column 2");
    }

    #[test]
    fn trailing_text_is_an_error() {
        assert_eq!(message(r#"{"rows": []} x"#), "trailing characters at line 1 column 14");
    }

    #[test]
    fn prefixes_of_names_are_distinct() {
        assert_distinct(&["a", "ab", "b"]);
    }

    #[test]
    #[should_panic(expected = "two tools have the same name")]
    fn duplicate_names_are_refused() {
        assert_distinct(&["a", "b", "a"]);
    }
}
