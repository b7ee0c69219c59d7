//! The tools as clients see them: three to begin with, and more for each skill that is activated.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use serde_json::{Value, json};

use skillhost_catalog::{Catalog, CatalogEntry, SkillRuntime};
use skillhost_sandbox::Tool;

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
        looks(
            ACTIVATE,
            "Load a skill's instructions and make its tools available.",
            json!({ "name": text }),
            &["name"],
        ),
        looks(
            READ,
            "Read a file of a skill, as its instructions say.",
            json!({ "name": text, "path": text, "range": { "type": "string", "description": "lines, such as 1-50" } }),
            &["name", "path"],
        ),
    ]
}

/// What runs the programs of an activated skill; `preloaded` are those that were active from the
/// start, which nothing else names.
pub(super) fn run(preloaded: &[&str]) -> Definition {
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
    let mut description =
        "Run a program of an activated skill in a sandbox. Paths: /skill (its files), /workspace (yours), /tmp.".to_owned();
    if !preloaded.is_empty() {
        description += &format!(
            " Active already: {}; {ACTIVATE} has their instructions.",
            preloaded.join(", ")
        );
    }
    let definition = Definition::new(
        RUN,
        description,
        object(json!({ "type": "object", "properties": input, "required": ["name"] })),
    );
    definition.with_raw_output_schema(object(output)).with_annotations(
        ToolAnnotations::new().read_only(false).destructive(true).open_world(true),
    )
}

/// A typed tool of a skill.
pub(super) fn typed(skill: &str, tool: &Tool) -> Definition {
    let definition = Definition::new(
        name(skill, &tool.name),
        tool.description.clone(),
        object(tool.input_schema.clone()),
    );
    match &tool.output_schema {
        Some(schema) if is_object(schema) => {
            definition.with_raw_output_schema(object(schema.clone()))
        }
        _ => definition,
    }
}

/// Bytes of tools, as they are listed.
pub(super) fn bytes(definitions: &[Definition]) -> u64 {
    definitions
        .iter()
        .filter_map(|definition| serde_json::to_string(definition).ok())
        .map(|text| text.len() as u64)
        .sum()
}

/// Bytes of the definition that a skill would have in a list of all skills' tools: a tool of its
/// name and description, with the parameters of [`run`] where it has programs. Its typed tools,
/// known only once it is compiled, are not counted.
pub(super) fn weight(entry: &CatalogEntry) -> u64 {
    static PARAMETERS: LazyLock<u64> = LazyLock::new(|| {
        let mut input = Value::Object((*run(&[]).input_schema).clone());
        if let Some(properties) = input["properties"].as_object_mut() {
            properties.remove("name");
        }
        input.as_object_mut().and_then(|input| input.remove("required"));
        input.to_string().len() as u64
    });
    let frame = r#"{"name":"","description":,"inputSchema":}"#.len() + entry.name.len();
    // What is escaped in JSON takes a byte more each; that makes the figure no larger than it is.
    let description = entry.description.len() + 2;
    let parameters = if entry.runtimes.contains(SkillRuntime::Instructions) {
        r#"{"type":"object"}"#.len() as u64
    } else {
        *PARAMETERS
    };
    (frame + description) as u64 + parameters
}

/// The same of every skill that is not disabled.
pub(super) fn whole(catalog: &Catalog) -> u64 {
    catalog.entries().iter().filter(|entry| catalog.is_enabled(entry)).map(weight).sum()
}

/// What a typed tool is called here.
pub(super) fn name(skill: &str, tool: &str) -> String {
    format!("{skill}.{tool}")
}

/// Whether results of that schema are objects: others cannot be structured content before revision
/// 2026-07-28.
pub(super) fn is_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

fn looks(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
) -> Definition {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Definition::new(name, description, object(schema))
        .with_annotations(ToolAnnotations::new().read_only(true))
}

/// A schema that is none allows nothing to be said against it.
fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))])),
    }
}
