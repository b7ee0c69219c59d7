//! The tools as clients see them: three to begin with, and more for each skill that is activated.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use serde_json::{Value, json};

use crate::sandbox::Tool;

pub(super) const DISCOVER: &str = "discover_skills";
pub(super) const ACTIVATE: &str = "activate_skill";
pub(super) const READ: &str = "read_skill_file";
pub(super) const RUN: &str = "run_skill";

/// What a session starts with. Every client pays for these in each conversation: keep them short.
pub(super) fn discovery() -> Vec<Definition> {
    let text = json!({ "type": "string" });
    vec![
        looks(
            DISCOVER,
            "Find installed skills for a task. Returns names and descriptions; activate the one that fits.",
            json!({ "query": text, "category": text }),
            &[],
        ),
        looks(ACTIVATE, "Load a skill's instructions and make its tools available.", json!({ "name": text }), &["name"]),
        looks(
            READ,
            "Read a file of a skill, as its instructions say.",
            json!({ "name": text, "path": text, "range": { "type": "string", "description": "lines, such as 1-50" } }),
            &["name", "path"],
        ),
    ]
}

/// What runs the programs of an activated skill.
pub(super) fn run() -> Definition {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let input = json!({
        "name": text("the skill"),
        "program": text("a script's path in the skill, or a command such as python3 or jq; without it the skill's own program"),
        "args": { "type": "array", "items": { "type": "string" } },
        "stdin": { "type": "string" },
        "files": {
            "type": "object",
            "additionalProperties": { "type": "string" },
            "description": "text files to put into /workspace first, by path",
        },
    });
    let counted = |what: &str| json!({ "type": "integer", "description": what });
    let output = json!({
        "type": "object",
        "required": ["status", "exit_code", "stdout", "stderr", "files", "denials", "usage"],
        "properties": {
            "status": text("exited, denied, invalid, failed, limit-hit, trapped, aborted or interrupted"),
            "exit_code": { "type": ["integer", "null"] },
            "message": text("what went wrong"),
            "stdout": text("cut where it is long; stdout_uri is the rest"),
            "stdout_bytes": counted("of all of it"),
            "stdout_uri": { "type": "string" },
            "stderr": { "type": "string" },
            "stderr_bytes": counted("of all of it"),
            "stderr_uri": { "type": "string" },
            "files": { "type": "array", "items": { "type": "object" }, "description": "files written: path, size, uri" },
            "changes": { "type": "array", "items": { "type": "object" }, "description": "what an overlay kept aside" },
            "diff": text("the same as a diff; written only where the text says so"),
            "diff_uri": { "type": "string" },
            "denials": { "type": "array", "items": { "type": "object" }, "description": "what was refused: what, rule, fix" },
            "usage": { "type": "object" },
        },
    });
    let description = "Run a program of an activated skill in a sandbox. Paths: /skill (its files), /workspace (yours), /tmp.";
    let definition = Definition::new(RUN, description, object(json!({ "type": "object", "properties": input, "required": ["name"] })));
    definition
        .with_raw_output_schema(object(output))
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).open_world(true))
}

/// A typed tool of a skill.
pub(super) fn typed(skill: &str, tool: &Tool) -> Definition {
    let definition = Definition::new(name(skill, &tool.name), tool.description.clone(), object(tool.input_schema.clone()));
    match &tool.output_schema {
        Some(schema) if is_object(schema) => definition.with_raw_output_schema(object(schema.clone())),
        _ => definition,
    }
}

/// What a typed tool is called here.
pub(super) fn name(skill: &str, tool: &str) -> String {
    format!("{skill}.{tool}")
}

/// Whether results of that schema are objects: others cannot be structured content before revision 2026-07-28.
pub(super) fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

fn looks(name: &'static str, description: &'static str, properties: Value, required: &[&str]) -> Definition {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Definition::new(name, description, object(schema)).with_annotations(ToolAnnotations::new().read_only(true))
}

/// A schema that is none allows nothing to be said against it.
fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))])),
    }
}
