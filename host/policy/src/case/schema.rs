//! The JSON schema of `case.yaml`, for editors.

use serde_json::{Value, json};

/// Returns the JSON schema of a test case.
pub fn schema() -> Value {
    // A number or a boolean counts as the text that the file has.
    let text = json!({ "type": ["string", "number", "boolean"] });
    let texts = json!({ "type": "array", "items": text });
    let table = |properties: Value, description: &str| {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
            "description": description,
        })
    };
    let one = |key: &str, value: Value, description: &str| {
        let mut one = table(json!({ key: value }), description);
        one["required"] = json!([key]);
        one
    };
    let content = vec![
        text.clone(),
        one("contains", json!({ "anyOf": [text, texts] }), "A text that contains all of these."),
        one("sha256", json!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" }), "A digest."),
    ];
    let mut file = content.clone();
    file.push(one("removed", json!({ "const": true }), "The file was removed."));
    file.push(one("link", text.clone(), "A symlink to this target."));
    let described = |schema: &Value, description: &str| {
        let mut schema = schema.clone();
        schema["description"] = description.into();
        schema
    };
    let content = json!({ "anyOf": content });
    let expect = json!({
        "exit": { "type": "integer", "minimum": 0, "maximum": 255, "description": "The exit code of `skillhost run`; 0 by default." },
        "stdout": described(&content, "The standard output; empty by default."),
        "stderr": described(&content, "The standard error; empty by default."),
        "result": { "description": "The result of a typed tool." },
        "error": described(&content, "The error of a typed tool."),
        "files": {
            "type": "object",
            "additionalProperties": { "anyOf": file },
            "description": "The files of the workspace that the run created, changed or removed, by path.",
        },
        "denials": described(&texts, "What the sandbox refused, in any order."),
    });
    let keys = json!({
        "description": described(&text, "What the case is about."),
        "script": described(&text, "Run this script of the skill, by path or name."),
        "tool": described(&text, "Call this typed tool."),
        "input": { "type": "object", "description": "The input of the tool; `{}` by default." },
        "command": described(&text, "Run this command in the shell."),
        "args": described(&texts, "The arguments."),
        "stdin": described(&text, "The standard input; empty by default."),
        "workspace": {
            "type": "object",
            "additionalProperties": text,
            "description": "Files that the run finds in its workspace, by path.",
        },
        "expect": table(expect, "What the run must give. What is not mentioned must be empty."),
    });
    let mut schema = table(keys, "A test case of a skill. It grants nothing.");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("skillhost test case");
    schema
}
