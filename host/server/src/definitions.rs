//! Tool definitions: three to start with, two more once a skill is active, and those of each activated
//! skill.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use serde_json::{Value, json};

use skillhost_catalog::{CatalogEntry, SkillRuntime};
use skillhost_sandbox::Tool;

pub(super) const DISCOVER: &str = "discover_skills";
pub(super) const ACTIVATE: &str = "activate_skill";
pub(super) const READ: &str = "read_skill_file";
pub(super) const RUN: &str = "run_skill";
pub(super) const DEACTIVATE: &str = "deactivate_skill";

/// The tools that a session starts with. Every client pays for them in each conversation: keep them
/// short.
pub(super) fn discovery() -> Vec<Definition> {
    let text = json!({ "type": "string" });
    vec![
        looks(
            DISCOVER,
            "Find installed skills for a task. Returns names and descriptions; activate the one that fits.",
            json!({ "query": text, "category": { "type": "string", "description": "a tag, all or active" } }),
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
            "Read a file that a skill's instructions mention.",
            json!({ "name": text, "path": text, "range": { "type": "string", "description": "lines, such as 1-50" } }),
            &["name", "path"],
        ),
    ]
}

/// The tool that runs programs of activated skills. `from_start` are the skills that are active from
/// the start, which no answer has mentioned.
pub(super) fn run(from_start: &[&str]) -> Definition {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let input = json!({
        "name": text("the skill"),
        "program": text("a script's path in the skill, or a command such as python3 or jq; default: the skill's own program"),
        "args": { "type": "array", "items": { "type": "string" } },
        "stdin": { "type": "string" },
        "files": {
            "type": "object",
            "additionalProperties": { "type": "string" },
            "description": "text files to create in /workspace first, by path",
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
            "stdout": text("truncated if long; stdout_uri has all of it"),
            "stdout_bytes": counted("total size"),
            "stdout_uri": { "type": "string" },
            "stderr": { "type": "string" },
            "stderr_bytes": counted("total size"),
            "stderr_uri": { "type": "string" },
            "files": { "type": "array", "items": { "type": "object" }, "description": "files written: path, size, uri" },
            "changes": { "type": "array", "items": { "type": "object" }, "description": "staged writes" },
            "diff": text("staged writes as a diff; applied only if the text says so"),
            "diff_uri": { "type": "string" },
            "denials": { "type": "array", "items": { "type": "object" }, "description": "refused attempts: what, rule, fix" },
            "usage": { "type": "object" },
        },
    });
    let mut description =
        "Run a program of an activated skill in a sandbox. Paths: /skill (its files), /workspace (yours), /tmp.".to_owned();
    if !from_start.is_empty() {
        description += &format!(
            " Already active: {}; {ACTIVATE} returns their instructions.",
            from_start.join(", ")
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

/// The tool that removes a skill's tools from the session.
pub(super) fn deactivate() -> Definition {
    looks(
        DEACTIVATE,
        "Remove an activated skill's tools.",
        json!({ "name": { "type": "string" } }),
        &["name"],
    )
}

/// The definition of a skill's typed tool.
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

/// Returns the size of a tool list, in bytes.
pub(super) fn bytes(definitions: &[Definition]) -> u64 {
    definitions
        .iter()
        .filter_map(|definition| serde_json::to_string(definition).ok())
        .map(|text| text.len() as u64)
        .sum()
}

/// Returns the size, in bytes, of the definition that a skill would have in a list of all skills'
/// tools: a tool with its name and description, and the parameters of [`run`] if it has programs.
/// Does not count its typed tools, which are unknown until it is compiled.
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
    // Escaping in JSON would add some bytes. Ignoring it does not exaggerate the figure.
    let description = entry.description.len() + 2;
    let parameters = if entry.runtimes.contains(SkillRuntime::Instructions) {
        r#"{"type":"object"}"#.len() as u64
    } else {
        *PARAMETERS
    };
    (frame + description) as u64 + parameters
}

/// Returns the size of the definitions of these skills, in bytes.
pub(super) fn whole(entries: &[CatalogEntry]) -> u64 {
    entries.iter().map(weight).sum()
}

/// Returns the name under which a typed tool is listed.
pub(super) fn name(skill: &str, tool: &str) -> String {
    format!("{skill}.{tool}")
}

/// Checks whether a schema describes an object: before revision 2026-07-28, structured content had
/// to be one.
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

/// Returns a schema as an object. Any other value accepts every object.
pub(super) fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::new(JsonObject::from_iter([("type".to_owned(), json!("object"))])),
    }
}
