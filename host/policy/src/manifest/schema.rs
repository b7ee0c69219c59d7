//! The fields of the frontmatter. The reader and the JSON schema both use this table.

use serde_json::{Map, Value, json};

use super::{MAX_DESCRIPTION, client, fields};
use crate::limits::{Limit, Unit};

/// A field, the shape of its value, and its description.
pub(super) struct Field {
    pub(super) key: &'static str,
    shape: Shape,
    /// Whether it decides what the skill may do.
    is_permission: bool,
    description: &'static str,
}

#[derive(Clone, Copy)]
enum Shape {
    Name,
    /// Text of at most this many characters.
    Text(Option<usize>),
    Metadata,
    Tools,
    Flag,
}

const fn field(key: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { key, shape, is_permission: false, description }
}

const fn permission(key: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { key, shape, is_permission: true, description }
}

/// The fields that the reader knows. It reads no other.
pub(super) const FIELDS: [Field; 10] = [
    field(
        "name",
        Shape::Name,
        "The skill's name, which is also that of its folder: a-z, 0-9 and single hyphens between them.",
    ),
    field(
        "description",
        Shape::Text(Some(MAX_DESCRIPTION)),
        "What the skill does, and when to use it.",
    ),
    field("license", Shape::Text(None), "The name of a licence, or of the file that contains it."),
    field(
        "compatibility",
        Shape::Text(Some(fields::MAX_COMPATIBILITY)),
        "What the skill needs: programs, packages, network.",
    ),
    permission("metadata", Shape::Metadata, "More about the skill. Every value is a string."),
    permission(
        "allowed-tools",
        Shape::Tools,
        "The permissions that the skill requests, separated by spaces: Read(docs/**) Write Bash(git:*) WebFetch(domain:example.com).",
    ),
    permission(
        "disallowed-tools",
        Shape::Tools,
        "Permissions that the skill never gets, even if the policy allows them.",
    ),
    field(
        client::DISABLE_MODEL_INVOCATION,
        Shape::Flag,
        "Whether only the client's user may start the skill, as a prompt.",
    ),
    field(
        client::USER_INVOCABLE,
        Shape::Flag,
        "Whether the client's user may start the skill. With `false`, only agents may.",
    ),
    field(
        client::ARGUMENT_HINT,
        Shape::Text(Some(client::MAX_HINT)),
        "The description of the prompt's argument.",
    ),
];

/// The keys of `metadata` that the host reads, except for limits.
const METADATA: [(&str, &str); 8] = [
    ("component", "The WebAssembly component: its path in the skill."),
    ("settings", "The settings that the skill declares, one per line: `NAME: TYPE = DEFAULT`."),
    (
        "requires",
        "What the skill requires, one per line: `NAME VERSIONS` for another skill, `command NAME`, `python PACKAGE`, `npm PACKAGE`.",
    ),
    (
        "idempotent",
        "With `true`, a second run with the same input does no harm: a fleet may run the skill again even if it may write to the network.",
    ),
    ("version", "The version of the skill. Records of the audit log contain it."),
    ("tags", "Words by which the catalogue finds the skill, separated by commas."),
    ("category", "The category under which the catalogue lists the skill."),
    ("keywords", "More words by which the catalogue finds the skill."),
];

/// Checks whether the reader knows a field.
pub(super) fn is_field(key: &str) -> bool {
    FIELDS.iter().any(|field| field.key == key)
}

/// Returns the fields that decide what a skill may do, or the others.
pub(super) fn keys(are_permissions: bool) -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(move |field| field.is_permission == are_permissions).map(|field| field.key)
}

/// Returns the JSON schema of the frontmatter.
pub fn schema() -> Value {
    let mut properties: Map<String, Value> =
        FIELDS.iter().map(|field| (field.key.to_owned(), shape(field))).collect();
    for (key, client) in client::OTHERS {
        let description = format!("A field of {client}. skillhost ignores it.");
        properties
            .insert(key.to_owned(), json!({ "deprecated": true, "description": description }));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Frontmatter of SKILL.md",
        "description": "The fields of an Agent Skill.",
        "type": "object",
        "properties": properties,
        "required": ["name", "description"],
    })
}

fn shape(field: &Field) -> Value {
    let mut schema = match field.shape {
        Shape::Name => json!({
            "type": "string",
            "maxLength": fields::MAX_NAME,
            "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$",
        }),
        Shape::Text(None) => json!({ "type": "string", "pattern": r"\S" }),
        Shape::Text(Some(most)) => {
            json!({ "type": "string", "maxLength": most, "pattern": r"\S" })
        }
        Shape::Metadata => metadata(),
        Shape::Tools => json!({
            "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" }, "deprecated": true },
            ],
            "examples": ["Read Write(out/**) Bash(python3:*)"],
        }),
        Shape::Flag => json!({ "type": "boolean" }),
    };
    schema["description"] = json!(field.description);
    schema
}

fn metadata() -> Value {
    let text =
        |description: &str| json!({ "type": "string", "description": description.to_owned() });
    let mut properties: Map<String, Value> = METADATA
        .into_iter()
        .map(|(key, description)| (key.to_owned(), text(description)))
        .collect();
    properties["component"]["pattern"] =
        json!(r"^(?!(.*/)?\.{0,2}(/|$))[^\\:\u0000-\u001f\u007f]+$");
    for limit in Limit::ALL.into_iter().filter(|limit| limit.in_manifest()) {
        let mut schema =
            text("The most that the skill needs. It only lowers the operator's limit.");
        schema["examples"] = match limit.unit() {
            Unit::Time => json!(["30s"]),
            Unit::Size => json!(["256MiB"]),
            Unit::Count => json!(["2000000000"]),
            Unit::Percent => json!(["50%"]),
        };
        properties.insert(limit.key().to_owned(), schema);
    }
    json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": { "type": "string" },
    })
}
