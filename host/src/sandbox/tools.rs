//! Typed tools: what a component's `skillhost:skill/tools` offers, and calling one with an input that its schema allows.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{Instrument as _, debug_span};
use wasmtime::Store;
use wasmtime::component::Accessor;

use super::Prepared;
use super::state::State;

mod bindings {
    #![allow(missing_docs, unreachable_pub, reason = "generated from WIT, where the documentation is")]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-tools; world tools-guest { export skillhost:skill/tools@0.1.0; }",
        path: "../wit",
        world: "skillhost:host-tools/tools-guest",
        exports: { default: async | store },
    });
}

use bindings::exports::skillhost::skill::tools::{Guest, Tool as GuestTool, ToolError};

/// One typed tool, as an agent is shown it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tool {
    /// 1 to 64 characters of a-z, A-Z, 0-9, `_` and `-`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Value,
    /// JSON Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// What a guest answers, or its own message.
type Answer = Result<Value, String>;

/// Calls a tool, once its input is what the tool's schema says.
pub(super) async fn call(
    store: &mut Store<State>,
    prepared: &Prepared,
    name: &str,
    input: String,
    scripts: &[String],
) -> wasmtime::Result<Answer> {
    let guest = bindings::ToolsGuestPre::new(prepared.pre.clone())?;
    let guest = guest.instantiate_async(&mut *store).instrument(debug_span!("instantiate")).await?;
    store
        .run_concurrent(async |accessor| {
            let tools = guest.skillhost_skill_tools();
            let offered = match offered(accessor, tools).await? {
                Ok(offered) => offered,
                Err(message) => return Ok(Err(message)),
            };
            if let Err(message) = check(&offered, name, &input, scripts) {
                return Ok(Err(message));
            }
            tools.call_call(accessor, name.to_owned(), input).await.map(|result| match result {
                Ok(output) => serde_json::from_str(&output).map_err(|error| format!("the output of `{name}` is no JSON: {error}")),
                Err(ToolError::UnknownTool(name)) => Err(format!("there is no tool `{name}`")),
                Err(ToolError::InvalidInput(message)) => Err(format!("invalid input: {message}")),
                Err(ToolError::Failed(message)) => Err(message),
            })
        })
        .instrument(debug_span!("guest"))
        .await?
}

/// Asks a component for its tools: a JSON array of `Tool`, empty for one that is none of tools.
pub(super) async fn list(store: &mut Store<State>, prepared: &Prepared) -> wasmtime::Result<Answer> {
    if !prepared.exports.tools {
        return Ok(Ok(Value::Array(Vec::new())));
    }
    let guest = bindings::ToolsGuestPre::new(prepared.pre.clone())?.instantiate_async(&mut *store).await?;
    let offered = store.run_concurrent(async |accessor| offered(accessor, guest.skillhost_skill_tools()).await).await??;
    Ok(offered.and_then(|tools| serde_json::to_value(tools).map_err(|error| error.to_string())))
}

async fn offered(accessor: &Accessor<State>, tools: &Guest) -> wasmtime::Result<Result<Vec<Tool>, String>> {
    Ok(tools.call_list_tools(accessor).await?.into_iter().map(Tool::read).collect())
}

impl Tool {
    fn read(tool: GuestTool) -> Result<Tool, String> {
        let schema = |text: &str| serde_json::from_str(text).map_err(|error| format!("the schema of `{}` is no JSON: {error}", tool.name));
        Ok(Tool {
            input_schema: schema(&tool.input_schema)?,
            output_schema: tool.output_schema.as_deref().map(schema).transpose()?,
            name: tool.name,
            description: tool.description,
        })
    }
}

/// That a name is no script either, for one that could have been meant for a script.
pub(super) fn nor(scripts: &[String]) -> String {
    if scripts.is_empty() { String::new() } else { format!("; nor a script of that name; there is: {}", scripts.join(", ")) }
}

/// Whether an input is what a tool takes. The message names each field that is not.
fn check(offered: &[Tool], name: &str, input: &str, scripts: &[String]) -> Result<(), String> {
    let Some(tool) = offered.iter().find(|tool| tool.name == name) else {
        let names: Vec<_> = offered.iter().map(|tool| tool.name.as_str()).collect();
        return Err(format!("there is no tool `{name}`; there is: {}{}", names.join(", "), nor(scripts)));
    };
    let input: Value = serde_json::from_str(input).map_err(|error| format!("the input is no JSON: {error}"))?;
    let schema = jsonschema::validator_for(&tool.input_schema).map_err(|error| format!("the schema of `{name}` is none: {error}"))?;
    let problems: Vec<_> = schema
        .iter_errors(&input)
        .take(10)
        .map(|error| {
            let path = error.instance_path().to_string();
            if path.is_empty() { error.to_string() } else { format!("at {path}: {error}") }
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(format!("invalid input for `{name}`: {}", problems.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn convert() -> Vec<Tool> {
        vec![Tool {
            name: "convert".into(),
            description: "Converts".into(),
            input_schema: json!({
                "type": "object",
                "required": ["input"],
                "additionalProperties": false,
                "properties": { "input": { "type": "string" }, "options": { "type": "object", "properties": { "indent": { "type": "integer" } } } }
            }),
            output_schema: None,
        }]
    }

    #[test]
    fn an_input_that_fits_the_schema_is_let_through() {
        assert_eq!(check(&convert(), "convert", r#"{"input": "a", "options": {"indent": 2}}"#, &[]), Ok(()));
    }

    #[test]
    fn a_wrong_field_is_named_with_its_place() {
        let message = check(&convert(), "convert", r#"{"input": "a", "options": {"indent": "two"}}"#, &[]).unwrap_err();
        assert!(message.contains("at /options/indent") && message.contains("integer"), "{message}");
    }

    #[test]
    fn a_missing_field_an_unknown_one_and_no_json_are_told_apart() {
        let message = |input| check(&convert(), "convert", input, &[]).unwrap_err();
        assert!(message("{}").contains(r#""input" is a required property"#));
        assert!(message(r#"{"input": "a", "inptu": 1}"#).contains("'inptu' was unexpected"));
        assert!(message("{input").contains("no JSON"));
    }

    #[test]
    fn a_tool_that_is_not_there_gets_the_list_of_those_that_are() {
        assert_eq!(check(&convert(), "konvert", "{}", &[]), Err("there is no tool `konvert`; there is: convert".into()));
        let scripts = ["scripts/a.py".to_owned(), "scripts/b.sh".to_owned()];
        let told = "there is no tool `a`; there is: convert; nor a script of that name; there is: scripts/a.py, scripts/b.sh";
        assert_eq!(check(&convert(), "a", "{}", &scripts), Err(told.into()));
    }

    #[test]
    fn a_schema_that_points_elsewhere_fetches_nothing() {
        let mut tools = convert();
        tools[0].input_schema = json!({ "$ref": "http://127.0.0.1:9/schema.json" });
        assert!(check(&tools, "convert", "{}", &[]).is_err());
    }
}
