//! What a policy file may say: the tables that both its reader and its JSON schema are made from.

use serde_json::{Map, Value, json};

use super::approval::Level;
use crate::limits::{Limit, Unit};

/// A key, what stands under it, and what it means.
pub(super) struct Field {
    pub(super) key: &'static str,
    shape: Shape,
    meaning: &'static str,
}

#[derive(Clone, Copy)]
enum Shape {
    Limits,
    Files,
    Secrets,
    Record,
    Names,
    Default,
    Skills,
    Entries,
    Mounts,
    Env,
    Methods,
    Text,
    Mode,
    Flag,
    Level,
    Seed,
    Time,
    Audit,
    Age,
    Size,
    Detail,
    On,
    Preload,
    Clients,
    Client,
    Ask,
}

const fn field(key: &'static str, shape: Shape, meaning: &'static str) -> Field {
    Field { key, shape, meaning }
}

/// The file's own keys.
pub(super) const TOP: [Field; 14] = [
    field("limits", Shape::Limits, "The bounds of every invocation, in place of the defaults."),
    field(
        "authorities",
        Shape::Files,
        "PEM files of certificate authorities that HTTPS trusts beside the built-in ones: absolute, below `~/`, or relative to this file.",
    ),
    field(
        "audit",
        Shape::Audit,
        "How long the audit log keeps records, for ever where nothing is said; and what it keeps of texts.",
    ),
    field(
        "usage",
        Shape::On,
        "Whether it is counted, on this machine alone, how agents use skills.",
    ),
    field(
        "preload",
        Shape::Preload,
        "Skills whose tools an agent's session has from its start: `suggested`, those that 30 % of the last sessions used; or a list of names.",
    ),
    field(
        "clients",
        Shape::Clients,
        "Who answers what an agent's client asks for, by how the client is connected.",
    ),
    field(
        "secrets",
        Shape::Secrets,
        "Whose values no recording holds, not even encrypted: a replay asks for them.",
    ),
    field("record", Shape::Record, "What recordings store."),
    field(
        "default",
        Shape::Default,
        "What every skill may do: all of it without `allowed-tools`, else the part that these ask for.",
    ),
    field(
        "skill-folders",
        Shape::Files,
        "Folders of skills that the catalogue knows beside the standard places: absolute, below `~/`, or relative to this file.",
    ),
    DETERMINISTIC,
    SEED,
    START_TIME,
    field(
        "skills",
        Shape::Skills,
        "What single skills may do beside `default`, by name or glob (`acme-*`).",
    ),
];

/// The keys of `default`.
pub(super) const DEFAULT: [Field; 7] = [ALLOW, DENY, MOUNTS, ENV, METHODS, APPROVAL, STAGE];

/// The keys of each of `skills`.
pub(super) const SKILL: [Field; 11] = [
    ALLOW,
    DENY,
    MOUNTS,
    ENV,
    METHODS,
    APPROVAL,
    STAGE,
    SKILL_LIMITS,
    DETERMINISTIC,
    SEED,
    START_TIME,
];

const ALLOW: Field = field(
    "allow",
    Shape::Entries,
    "Entries as in `allowed-tools`: Read(docs/**), Write, Bash(git:*), WebFetch(domain:example.com).",
);
const DENY: Field =
    field("deny", Shape::Entries, "Entries that are taken away again, whoever allows them.");
const MOUNTS: Field = field("mounts", Shape::Mounts, "Host folders to show.");
const ENV: Field = field(
    "env",
    Shape::Env,
    "Variables to set: NAME for the host's own value, NAME=value for another.",
);
const METHODS: Field = field(
    "methods",
    Shape::Methods,
    "The HTTP methods that may be used; all but CONNECT and TRACE where nothing is said.",
);
const APPROVAL: Field = field(
    "approval",
    Shape::Level,
    "What has to happen before something runs; the strictest of the sections that apply holds, and nothing raises it.",
);
const STAGE: Field = field(
    "stage",
    Shape::Flag,
    "Whether writes are kept aside, shown, and made only when they are approved.",
);
const SKILL_LIMITS: Field = field(
    "limits",
    Shape::Limits,
    "Bounds of these skills; of several that apply, the smallest holds.",
);

const DETERMINISTIC: Field = field(
    "deterministic",
    Shape::Flag,
    "Whether runs are deterministic: the same bytes and the same fuel on every machine.",
);
const SEED: Field = field(
    "seed",
    Shape::Seed,
    "Where a deterministic run's random numbers come from; 0 where nothing is said.",
);
const START_TIME: Field = field(
    "start-time",
    Shape::Time,
    "When a deterministic run starts, for its guests; 2026-01-01T00:00:00Z where nothing is said.",
);

/// The keys of `audit`.
pub(super) const AUDIT: [Field; 3] = [
    field("keep", Shape::Age, "Records older than this go."),
    field("keep-size", Shape::Size, "The oldest records go until the rest takes at most this."),
    field(
        "detail",
        Shape::Detail,
        "What is kept of arguments, paths and messages: digests by the log's key (the default), or text as well.",
    ),
];

/// The keys of `clients`: what the host knows of one.
pub(super) const CLIENTS: [Field; 2] = [
    field("stdio", Shape::Client, "The client that started `skillhost mcp`."),
    field(
        "http",
        Shape::Client,
        "Whoever shows the token of `skillhost serve`; never a client without one.",
    ),
];

/// The keys of one of `clients`.
pub(super) const CLIENT: [Field; 1] = [field(
    "ask",
    Shape::Ask,
    "Who approves its runs: the operator, or the client's own user. Staged writes are the operator's in any case.",
)];

/// Who is asked, as it is written.
pub(super) const ASK: [&str; 2] = ["operator", "client"];

/// The keys of one of `mounts`.
pub(super) const MOUNT: [Field; 3] = [
    field("host", Shape::Text, "The folder: absolute, below `~/`, or relative to this file."),
    field(
        "guest",
        Shape::Text,
        "Where guests see it: an absolute path such as /data, not inside another mount.",
    ),
    field(
        "mode",
        Shape::Mode,
        "read (the default), write, or overlay: writes are kept aside and the folder stays as it was.",
    ),
];

/// The keys of `secrets`.
pub(super) const SECRETS: [Field; 2] = [
    field("env", Shape::Names, "Names of variables."),
    field("headers", Shape::Names, "Names of HTTP header fields."),
];

/// The keys of `record`.
pub(super) const RECORD: [Field; 1] = [field(
    "plain",
    Shape::Names,
    "Variables and header fields whose values recordings store in clear; those of variables, cookies and authorization are encrypted otherwise.",
)];

/// How a mount may be opened, as it is written.
pub(super) const MODES: [&str; 3] = ["read", "write", "overlay"];

/// The methods that may be granted. CONNECT would open a tunnel, TRACE echoes the request's
/// headers.
pub(super) const METHOD_NAMES: [&str; 7] =
    ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// The JSON schema of a policy file.
pub fn schema() -> Value {
    let mut schema = table(&TOP, &[]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("skillhost policy");
    schema["description"] = json!("What an operator allows Agent Skills to do.");
    schema
}

fn table(fields: &[Field], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|f| (f.key.to_owned(), shape(f))).collect();
    let mut schema =
        json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn shape(field: &Field) -> Value {
    let mut schema = match field.shape {
        Shape::Limits => limits(),
        Shape::Files => json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
        Shape::Secrets => table(&SECRETS, &[]),
        Shape::Record => table(&RECORD, &[]),
        Shape::Names => {
            json!({ "type": "array", "items": { "type": "string", "pattern": "^[A-Za-z0-9_-]+$" } })
        }
        Shape::Default => table(&DEFAULT, &[]),
        Shape::Skills => json!({
            "type": "object",
            "propertyNames": { "pattern": r"^[a-z0-9*?\[\]{},!-]+$" },
            "additionalProperties": table(&SKILL, &[]),
        }),
        Shape::Entries => {
            json!({ "type": "array", "items": { "type": "string", "pattern": r"^\s*[A-Z][A-Za-z]*(\(.+\))?\s*$" } })
        }
        Shape::Mounts => json!({ "type": "array", "items": table(&MOUNT, &["host", "guest"]) }),
        Shape::Env => {
            json!({ "type": "array", "items": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*(=|$)" } })
        }
        Shape::Methods => {
            json!({ "type": "array", "items": { "enum": METHOD_NAMES }, "uniqueItems": true })
        }
        Shape::Text => json!({ "type": "string", "minLength": 1 }),
        Shape::Mode => json!({ "enum": MODES, "default": "read" }),
        Shape::Flag => json!({ "type": "boolean", "default": false }),
        Shape::On => json!({ "type": "boolean", "default": true }),
        Shape::Clients => table(&CLIENTS, &[]),
        Shape::Client => table(&CLIENT, &[]),
        Shape::Ask => json!({ "enum": ASK, "default": ASK[0] }),
        Shape::Preload => json!({
            "oneOf": [{ "const": "suggested" }, { "type": "array", "items": { "type": "string", "pattern": "^[a-z0-9-]+$" } }],
        }),
        Shape::Level => json!({ "enum": Level::ALL.map(Level::name) }),
        Shape::Seed => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        Shape::Audit => table(&AUDIT, &[]),
        Shape::Detail => json!({ "enum": ["digests", "text"] }),
        Shape::Age => json!({ "type": "string", "examples": ["90d", "12h"] }),
        Shape::Size => json!({ "type": ["string", "integer"], "minimum": 0, "examples": ["1GiB"] }),
        Shape::Time => {
            json!({ "type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00Z"] })
        }
    };
    schema["description"] = json!(field.meaning);
    schema
}

fn limits() -> Value {
    let value = |limit: Limit| match limit.unit() {
        Unit::Time => json!({ "type": "string", "examples": ["500ms", "30s", "5m"] }),
        Unit::Size => {
            json!({ "type": ["string", "integer"], "minimum": 0, "examples": ["64KiB", "256MiB", 4096] })
        }
        Unit::Count => {
            json!({ "type": ["integer", "string"], "minimum": 0, "examples": [1000, "1_000_000"] })
        }
    };
    let properties: Map<String, Value> =
        Limit::ALL.into_iter().map(|l| (l.key().to_owned(), value(l))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}
