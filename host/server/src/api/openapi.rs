//! The description of the run API as OpenAPI 3.1, made from the types that the server reads and writes.

mod sessions;

use std::collections::BTreeMap;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::problem::{Problem, ProblemCode};
use super::types::{BlobInfo, RunInfo, RunList, RunResult, RunSubmission, SkillInfo, SkillUpload};

/// Collects the schemas that operations name.
struct Schemas {
    /// What the server reads.
    read: SchemaGenerator,
    /// What it writes.
    written: SchemaGenerator,
}

/// An operation of the API.
struct Operation {
    path: &'static str,
    method: &'static str,
    id: &'static str,
    summary: &'static str,
    scope: Option<&'static str>,
    parameters: &'static [Parameter],
    body: Option<Value>,
    /// The answers without an error: status, description, content type and schema.
    answers: Vec<(u16, &'static str, &'static str, Value)>,
    problems: &'static [ProblemCode],
}

/// A parameter: its place, its name, its JSON type and what it means.
type Parameter = (&'static str, &'static str, &'static str, &'static str);

const ID: Parameter = ("path", "id", "string", "The id of the run.");
const DIGEST: Parameter =
    ("path", "digest", "string", "The digest of the blob: `sha256:` and 64 hex digits.");
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// The problems that every operation with a token may have.
const COMMON: [ProblemCode; 8] = [
    ProblemCode::Unauthorized,
    ProblemCode::ScopeMissing,
    ProblemCode::NotFound,
    ProblemCode::MethodNotAllowed,
    ProblemCode::Closing,
    ProblemCode::FleetUnavailable,
    ProblemCode::ResultUntrusted,
    ProblemCode::Internal,
];

/// The problems that every operation of sessions may have besides, in a fleet.
const SESSIONS: [ProblemCode; 2] = [ProblemCode::SessionUnavailable, ProblemCode::TooManyStreams];

/// Returns the document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .with_transform(RecursiveTransform(list_names));
    let mut schemas = Schemas {
        read: settings.clone().for_deserialize().into_generator(),
        written: settings.for_serialize().into_generator(),
    };
    let problem = schemas.written::<Problem>();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for operation in operations(&mut schemas) {
        let item = operation.item(&problem);
        paths.entry(operation.path).or_default().insert(operation.method.to_owned(), item);
    }
    let mut definitions = schemas.read.take_definitions(true);
    definitions.extend(schemas.written.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "skillhost run API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Submits runs of skills, follows them and gets their results; and sessions, in which programs run on the same files.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": definitions,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Turns alternatives that are names into a list of names, whose description says what each means.
/// Generators of clients make an enumeration of it, and not as many types as there are names.
fn list_names(schema: &mut Schema) {
    let Some(Value::Array(alternatives)) = schema.get("oneOf") else { return };
    let named = |one: &Value| Some((one.get("const")?.as_str()?.to_owned(), text_of(one)));
    let Some(names) = alternatives.iter().map(named).collect::<Option<Vec<_>>>() else { return };
    let mut description = text_of(schema.as_value());
    for (name, meaning) in names.iter().filter(|(_, meaning)| !meaning.is_empty()) {
        description += &format!("\n\n`{name}`: {meaning}");
    }
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), names.into_iter().map(|(name, _)| name).collect());
    schema.insert("description".into(), description.trim_start().into());
}

fn text_of(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = submission(schemas);
    all.extend(progress(schemas));
    all.extend(uploads(schemas));
    all.extend(sessions::operations(schemas));
    all
}

/// Submits and lists runs.
fn submission(schemas: &mut Schemas) -> Vec<Operation> {
    let run = schemas.written::<RunInfo>();
    vec![
        Operation {
            path: "/v1/runs",
            method: "post",
            id: "submitRun",
            summary: "Submit a run",
            scope: Some("run"),
            parameters: &[(
                "header",
                "Idempotency-Key",
                "string",
                "The same request with the same key is answered with the same run for 24 hours.",
            )],
            body: Some(content(&[(JSON, schemas.read::<RunSubmission>())])),
            answers: vec![
                (202, "The run was accepted.", JSON, run.clone()),
                (200, "The run was submitted before, under this key.", JSON, run),
            ],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::KeyConflict,
                ProblemCode::NoSkill,
                ProblemCode::BlobsMissing,
                ProblemCode::QueueFull,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::StorageQuota,
            ],
        },
        Operation {
            path: "/v1/runs",
            method: "get",
            id: "listRuns",
            summary: "List runs, the latest first",
            scope: Some("read"),
            parameters: &[
                ("query", "status", "string", "Only runs with this status."),
                ("query", "skill", "string", "Only runs of this skill, as it was submitted."),
                ("query", "cursor", "string", "Continue after the page with this `next`."),
                ("query", "limit", "integer", "The most runs, 1 to 1000; by default 100."),
            ],
            body: None,
            answers: vec![(200, "The runs.", JSON, schemas.written::<RunList>())],
            problems: &[ProblemCode::InvalidRequest],
        },
    ]
}

/// Follows runs, and ends them.
fn progress(schemas: &mut Schemas) -> Vec<Operation> {
    let run = schemas.written::<RunInfo>();
    vec![
        Operation {
            path: "/v1/runs/{id}",
            method: "get",
            id: "getRun",
            summary: "Get the status of a run",
            scope: Some("read"),
            parameters: &[ID],
            body: None,
            answers: vec![(200, "The run.", JSON, run.clone())],
            problems: &[],
        },
        Operation {
            path: "/v1/runs/{id}/wait",
            method: "get",
            id: "waitForRun",
            summary: "Wait until a run has ended",
            scope: Some("read"),
            parameters: &[ID, ("query", "timeout", "integer", "Seconds to wait, at most 60.")],
            body: None,
            answers: vec![(200, "The run, which may not have ended.", JSON, run.clone())],
            problems: &[ProblemCode::InvalidRequest, ProblemCode::TooManyStreams],
        },
        Operation {
            path: "/v1/runs/{id}/result",
            method: "get",
            id: "getResult",
            summary: "Get the result of a run that has ended",
            scope: Some("read"),
            parameters: &[ID],
            body: None,
            answers: vec![(200, "The result.", JSON, schemas.written::<RunResult>())],
            problems: &[ProblemCode::NotEnded],
        },
        Operation {
            path: "/v1/runs/{id}/logs",
            method: "get",
            id: "followRun",
            summary: "Follow the output of a run",
            scope: Some("read"),
            parameters: &[
                ID,
                ("header", "Last-Event-ID", "string", "Continue after the event with this id."),
            ],
            body: None,
            answers: vec![(
                200,
                "Events `stdout` and `stderr` with the output as a JSON string (or an object with `base64`), and `end` with the run.",
                "text/event-stream",
                json!({ "type": "string" }),
            )],
            problems: &[ProblemCode::InvalidRequest, ProblemCode::TooManyStreams],
        },
        Operation {
            path: "/v1/runs/{id}/cancel",
            method: "post",
            id: "cancelRun",
            summary: "Cancel a run",
            scope: Some("run"),
            parameters: &[ID],
            body: None,
            answers: vec![
                (200, "The run has ended.", JSON, run.clone()),
                (202, "The run is about to end.", JSON, run),
            ],
            problems: &[],
        },
        stream("/v1/runs/{id}/stdout", "getStdout", "Get all of the standard output so far"),
        stream("/v1/runs/{id}/stderr", "getStderr", "Get all of the standard error so far"),
    ]
}

/// Uploads files and skills.
fn uploads(schemas: &mut Schemas) -> Vec<Operation> {
    let bytes = json!({});
    vec![
        Operation {
            path: "/v1/blobs/{digest}",
            method: "put",
            id: "putBlob",
            summary: "Upload a file",
            scope: Some("upload"),
            parameters: &[DIGEST],
            body: Some(content(&[(BYTES, bytes.clone())])),
            answers: vec![(200, "The blob is stored.", JSON, schemas.written::<BlobInfo>())],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::DigestMismatch,
                ProblemCode::StorageQuota,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::TooManyStreams,
            ],
        },
        Operation {
            path: "/v1/blobs/{digest}",
            method: "get",
            id: "getBlob",
            summary: "Get a file that was uploaded, or that a run wrote",
            scope: Some("read"),
            parameters: &[DIGEST],
            body: None,
            answers: vec![(200, "The bytes.", BYTES, bytes.clone())],
            problems: &[ProblemCode::TooManyStreams],
        },
        Operation {
            path: "/v1/blobs/{digest}",
            method: "head",
            id: "hasBlob",
            summary: "Check whether a file is there, and keep it from expiring",
            scope: Some("upload"),
            parameters: &[DIGEST],
            body: None,
            answers: vec![(200, "It is there.", BYTES, bytes.clone())],
            problems: &[],
        },
        Operation {
            path: "/v1/skills",
            method: "post",
            id: "putSkill",
            summary: "Upload a skill, as a list of blobs or as an archive",
            scope: Some("upload"),
            parameters: &[],
            body: Some(content(&[
                (JSON, schemas.read::<SkillUpload>()),
                ("application/gzip", bytes.clone()),
                ("application/zip", bytes.clone()),
                ("application/zstd", bytes),
            ])),
            answers: vec![(201, "The skill is stored.", JSON, schemas.written::<SkillInfo>())],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::UnsupportedMediaType,
                ProblemCode::SkillInvalid,
                ProblemCode::BlobsMissing,
                ProblemCode::StorageQuota,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::TooManyStreams,
            ],
        },
        Operation {
            path: "/v1/openapi.json",
            method: "get",
            id: "getOpenApi",
            summary: "Get this document",
            scope: None,
            parameters: &[],
            body: None,
            answers: vec![(200, "This document.", JSON, json!({ "type": "object" }))],
            problems: &[],
        },
    ]
}

fn stream(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation {
        path,
        method: "get",
        id,
        summary,
        scope: Some("read"),
        parameters: &[ID],
        body: None,
        answers: vec![(200, "The bytes.", BYTES, json!({}))],
        problems: &[ProblemCode::TooManyStreams],
    }
}

impl Operation {
    fn item(&self, problem: &Value) -> Value {
        let mut responses = Map::new();
        for (status, description, kind, schema) in &self.answers {
            let answer = json!({ "description": description, "content": content(&[(*kind, schema.clone())])["content"] });
            responses.insert(status.to_string(), answer);
        }
        let mut problems: BTreeMap<u16, Vec<String>> = BTreeMap::new();
        let common = if self.scope.is_some() { &COMMON[..] } else { &[] };
        let sessions = if self.path.starts_with("/v1/sessions") { &SESSIONS[..] } else { &[] };
        for code in common.iter().chain(sessions).chain(self.problems) {
            let names = problems.entry(code.status().as_u16()).or_default();
            let name = format!("`{}`", code.name());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for (status, codes) in problems {
            let content = content(&[("application/problem+json", problem.clone())]);
            let answer = json!({ "description": codes.join(", "), "content": content["content"] });
            responses.insert(status.to_string(), answer);
        }
        let parameters: Vec<Value> = self
            .parameters
            .iter()
            .map(|(place, name, kind, description)| {
                json!({ "in": place, "name": name, "required": *place == "path", "description": description, "schema": { "type": kind } })
            })
            .collect();
        let mut item = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = &self.body {
            item["requestBody"] = body.clone();
        }
        match self.scope {
            Some(scope) => item["description"] = json!(format!("Needs the scope `{scope}`.")),
            None => item["security"] = json!([]),
        }
        item
    }
}

fn content(kinds: &[(&str, Value)]) -> Value {
    let kinds: Map<String, Value> = kinds
        .iter()
        .map(|(kind, schema)| ((*kind).to_owned(), json!({ "schema": schema })))
        .collect();
    json!({ "required": true, "content": kinds })
}

impl Schemas {
    fn read<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    fn written<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }
}
