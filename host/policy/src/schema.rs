//! The keys of a policy file. The reader and the JSON schema both use these tables.

use serde_json::{Map, Value, json};

use super::disclosure::Disclosure;
use super::level::PermissionLevel;
use super::require::ScanLevel;
use crate::limits::{Limit, Unit};

/// A key, the shape of its value, and its description.
pub(super) struct Field {
    pub(super) key: &'static str,
    shape: Shape,
    description: &'static str,
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
    Disclosure,
    Tools,
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
    Require,
    Signers,
    Texts,
    Scan,
    ScanLevel,
}

const fn field(key: &'static str, shape: Shape, description: &'static str) -> Field {
    Field { key, shape, description }
}

/// The top-level keys.
pub(super) const TOP: [Field; 16] = [
    field("limits", Shape::Limits, "Limits of every run. They replace the defaults."),
    field(
        "ceiling",
        Shape::Limits,
        "The highest value of each limit. No section, flag or skill exceeds it.",
    ),
    field(
        "authorities",
        Shape::Files,
        "PEM files of certificate authorities that HTTPS trusts in addition to the built-in ones: absolute, below `~/`, or relative to this file.",
    ),
    field(
        "audit",
        Shape::Audit,
        "How long the audit log keeps records (forever by default), and how much text it stores.",
    ),
    field("usage", Shape::On, "Whether usage statistics are collected. They stay on this machine."),
    field(
        "preload",
        Shape::Preload,
        "Skills that are disclosed as `always`, unless a section says something stricter: a list of names, or `suggested` for those that 30 % of recent sessions used.",
    ),
    field(
        "clients",
        Shape::Clients,
        "Who approves the runs that a client requests, by how the client is connected.",
    ),
    field(
        "secrets",
        Shape::Secrets,
        "Values that recordings omit, even in encrypted form. A replay asks for them.",
    ),
    field("record", Shape::Record, "Values that recordings store as plain text."),
    field(
        "default",
        Shape::Default,
        "What every skill may do. A skill with `allowed-tools` gets the part that it requests, any other skill all of it.",
    ),
    field(
        "skill-folders",
        Shape::Files,
        "Folders that the catalogue searches for skills in addition to the standard ones: absolute, below `~/`, or relative to this file.",
    ),
    field(
        "skill-size",
        Shape::Size,
        "The most bytes of a skill's files in total, by default 10 MiB and at most 256 MiB. For each 10 MiB, a skill may have 2,000 files and folders.",
    ),
    DETERMINISTIC,
    SEED,
    START_TIME,
    field(
        "skills",
        Shape::Skills,
        "What some skills may do in addition to `default`, by name or glob (`acme-*`).",
    ),
];

/// The keys of `default`.
pub(super) const DEFAULT: [Field; 9] =
    [ALLOW, DENY, MOUNTS, ENV, METHODS, APPROVAL, STAGE, SYMLINKS, DISCLOSURE];

/// The keys of each of `skills`.
pub(super) const SKILL: [Field; 16] = [
    SOURCE,
    REQUIRE,
    ALLOW,
    DENY,
    MOUNTS,
    ENV,
    METHODS,
    APPROVAL,
    STAGE,
    SYMLINKS,
    DISCLOSURE,
    TOOLS,
    SKILL_LIMITS,
    DETERMINISTIC,
    SEED,
    START_TIME,
];

const SOURCE: Field = field(
    "source",
    Shape::Text,
    "The source of these skills, if they were fetched: a URL or OWNER/REPO, without a tag, or the absolute path of a folder or file. Without it, the section grants nothing to fetched skills; with it, nothing to others.",
);
const REQUIRE: Field = field(
    "require",
    Shape::Require,
    "What these skills must prove before they are loaded. If several sections apply, all of it.",
);
const ALLOW: Field = field(
    "allow",
    Shape::Entries,
    "Entries as in `allowed-tools`: Read(docs/**), Write, Bash(git:*), WebFetch(domain:example.com).",
);
const DENY: Field =
    field("deny", Shape::Entries, "Entries that are denied. They override every `allow`.");
const MOUNTS: Field = field("mounts", Shape::Mounts, "Host folders to mount.");
const ENV: Field = field(
    "env",
    Shape::Env,
    "Environment variables: NAME passes the host's value, NAME=value sets a different one.",
);
const METHODS: Field = field(
    "methods",
    Shape::Methods,
    "The HTTP methods that may be used. By default, all but CONNECT and TRACE.",
);
const APPROVAL: Field = field(
    "approval",
    Shape::Level,
    "The permission level. The strictest level of the sections that apply is used, and nothing raises it.",
);
const STAGE: Field = field(
    "stage",
    Shape::Flag,
    "Whether writes are staged: shown first, and applied only after approval.",
);
const SYMLINKS: Field = field(
    "symlinks",
    Shape::Flag,
    "Whether symlinks may be created in mounted folders of the host. They must be relative and stay inside the folder. In /tmp and in overlays, symlinks can always be created.",
);
const DISCLOSURE: Field = field(
    "disclosure",
    Shape::Disclosure,
    "What agents see of the skill. `always`: a session has its tools from the start. `deferred` (the default): an agent finds and activates it. `hidden`: to agents it does not exist. The strictest value of the sections that apply is used.",
);
const TOOLS: Field = field(
    "tools",
    Shape::Tools,
    "The same for single typed tools, by name. The strictest value for the tool and its skill is used.",
);
const SKILL_LIMITS: Field = field(
    "limits",
    Shape::Limits,
    "Limits of these skills. If several sections apply, the smallest is used.",
);

const DETERMINISTIC: Field = field(
    "deterministic",
    Shape::Flag,
    "Whether runs are deterministic: the same output and fuel on every machine.",
);
const SEED: Field =
    field("seed", Shape::Seed, "The seed of randomness in deterministic runs. The default is 0.");
const START_TIME: Field = field(
    "start-time",
    Shape::Time,
    "The time that guests of a deterministic run see at the start. The default is 2026-01-01T00:00:00Z.",
);

/// The keys of `require`.
pub(super) const REQUIRE_KEYS: [Field; 3] = [
    field(
        "signed-by",
        Shape::Signers,
        "Who must have signed every file; one of them is enough. A key is `sha256:` and the digest of its SPKI form, or the `SHA256:` fingerprint of an SSH key.",
    ),
    field(
        "source",
        Shape::Texts,
        "The sources that the skill may be fetched from, written as in `source`.",
    ),
    field("scan", Shape::Scan, "A scan of exactly these files, as SARIF of any scanner."),
];

/// The keys of one of `signed-by`.
pub(super) const SIGNER: [Field; 2] = [
    field(
        "issuer",
        Shape::Text,
        "The OIDC issuer of a keyless signature, compared exactly; for a certificate of your own authority, `sha256:` and the digest of the authority's certificate.",
    ),
    field("identity", Shape::Text, "The address or URI in the certificate, compared exactly."),
];

/// The keys of `scan`.
pub(super) const SCAN: [Field; 2] = [
    field("max-severity", Shape::ScanLevel, "The worst level that a finding may have."),
    field(
        "reports",
        Shape::Files,
        "SARIF files: absolute, below `~/`, or relative to this file. Only a run that names the skill's digest counts.",
    ),
];

/// The keys of `audit`.
pub(super) const AUDIT: [Field; 3] = [
    field("keep", Shape::Age, "Delete records that are older than this."),
    field(
        "keep-size",
        Shape::Size,
        "Delete the oldest records until the rest takes at most this size.",
    ),
    field(
        "detail",
        Shape::Detail,
        "How arguments, paths and messages are stored: as keyed digests (the default), or as text too.",
    ),
];

/// The keys of `clients`: how a client is connected.
pub(super) const CLIENTS: [Field; 2] = [
    field("stdio", Shape::Client, "The client that started `skillhost mcp`."),
    field(
        "http",
        Shape::Client,
        "Clients that present the token of `skillhost serve`; never a client without it.",
    ),
];

/// The keys of one of `clients`.
pub(super) const CLIENT: [Field; 1] = [field(
    "ask",
    Shape::Ask,
    "Who approves its runs: the operator, or the client's user. Staged writes always need the operator.",
)];

/// The values of `ask`.
pub(super) const ASK: [&str; 2] = ["operator", "client"];

/// The keys of one of `mounts`.
pub(super) const MOUNT: [Field; 3] = [
    field("host", Shape::Text, "The folder: absolute, below `~/`, or relative to this file."),
    field(
        "guest",
        Shape::Text,
        "The path in the guest: absolute, such as /data, and not inside another mount.",
    ),
    field(
        "mode",
        Shape::Mode,
        "read (the default), write, or overlay: writes do not change the host folder.",
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
    "Variables and header fields whose values recordings store as plain text. By default, the values of variables, cookies and authorization are encrypted.",
)];

/// The values of `mode` of a mount.
pub(super) const MODES: [&str; 3] = ["read", "write", "overlay"];

/// The HTTP methods that can be granted. CONNECT would open a tunnel, and TRACE echoes request
/// headers.
pub(super) const METHOD_NAMES: [&str; 7] =
    ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"];

/// Returns the JSON schema of a policy file.
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
        Shape::Require => table(&REQUIRE_KEYS, &[]),
        Shape::Signers => json!({
            "type": "array",
            "minItems": 1,
            "items": {
                "oneOf": [
                    { "type": "string", "pattern": "^(sha256:[0-9a-f]{64}|SHA256:[A-Za-z0-9+/]{43})$" },
                    table(&SIGNER, &["issuer", "identity"]),
                ],
            },
        }),
        Shape::Texts => json!({ "type": "array", "items": { "type": "string", "minLength": 1 } }),
        Shape::Scan => table(&SCAN, &["max-severity"]),
        Shape::ScanLevel => json!({ "enum": ScanLevel::ALL.map(ScanLevel::name) }),
        Shape::Ask => json!({ "enum": ASK, "default": ASK[0] }),
        Shape::Preload => json!({
            "oneOf": [{ "const": "suggested" }, { "type": "array", "items": { "type": "string", "pattern": "^[a-z0-9-]+$" } }],
        }),
        Shape::Level => json!({ "enum": PermissionLevel::ALL.map(PermissionLevel::name) }),
        Shape::Disclosure => json!({ "enum": Disclosure::ALL.map(Disclosure::name) }),
        Shape::Tools => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,64}$" },
            "additionalProperties": {
                "enum": Disclosure::ALL.map(Disclosure::name),
                "description": "What agents see of the tool of this name.",
            },
        }),
        Shape::Seed => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        Shape::Audit => table(&AUDIT, &[]),
        Shape::Detail => json!({ "enum": ["digests", "text"] }),
        Shape::Age => json!({ "type": "string", "examples": ["90d", "12h"] }),
        Shape::Size => json!({ "type": ["string", "integer"], "minimum": 0, "examples": ["1GiB"] }),
        Shape::Time => {
            json!({ "type": "string", "format": "date-time", "examples": ["2026-01-01T00:00:00Z"] })
        }
    };
    schema["description"] = json!(field.description);
    schema
}

fn limits() -> Value {
    let value = |limit: Limit| match limit.unit() {
        Unit::Time => json!({ "type": "string", "examples": ["500ms", "30s", "5m"] }),
        Unit::Size => {
            json!({ "type": ["string", "integer"], "minimum": 0, "examples": ["64KiB", "256MiB", 4096] })
        }
        Unit::Percent => json!({ "type": "string", "examples": ["50%", "200%"] }),
        Unit::Rate => json!({ "type": "string", "examples": ["2/s", "30/min"] }),
        Unit::Count => {
            json!({ "type": ["integer", "string"], "minimum": 0, "examples": [1000, "1_000_000"] })
        }
    };
    let properties: Map<String, Value> =
        Limit::ALL.into_iter().map(|l| (l.key().to_owned(), value(l))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}
