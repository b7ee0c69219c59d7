//! The operations of sessions.

use serde_json::{Value, json};

use super::super::problem::ProblemCode;
use super::super::sessions::types::{
    FileList, ProgramRequest, RestoreRequest, SandboxToken, SessionChanges, SessionInfo,
    SessionList, SessionRequest, SignalRequest, SnapshotInfo, WatchEvent, WrittenFile,
};
use super::super::types::{RunInfo, RunList, RunResult, Tree};
use super::{BYTES, JSON, Operation, Parameter, Schemas, content};

const ID: Parameter = ("path", "id", "string", "The id of the session.");
const PROGRAM: Parameter = ("path", "program", "string", "The id of the program.");
const PATH: Parameter = (
    "query",
    "path",
    "string",
    "A path in `/workspace`, or an absolute path in `/workspace` or `/tmp`.",
);
const RECURSIVE: Parameter =
    ("query", "recursive", "boolean", "Whether everything below a folder is meant.");
const LAST_EVENT: Parameter =
    ("header", "Last-Event-ID", "string", "Continue after the event with this id.");

/// What an operation on a session that exists may answer besides the common problems.
const ENDED: &[ProblemCode] = &[ProblemCode::SessionEnded];
/// What an operation may answer that needs the files to stand still.
const ALONE: &[ProblemCode] = &[
    ProblemCode::SessionEnded,
    ProblemCode::SessionBusy,
    ProblemCode::SessionDisk,
    ProblemCode::SessionQuota,
    ProblemCode::StorageQuota,
    ProblemCode::CpuQuota,
    ProblemCode::BytesQuota,
    ProblemCode::FileConflict,
    ProblemCode::FileDenied,
    ProblemCode::InvalidRequest,
];

/// Returns the operations.
pub(super) fn operations(schemas: &mut Schemas) -> Vec<Operation> {
    let mut all = life(schemas);
    all.extend(programs(schemas));
    all.extend(streams(schemas));
    all.extend(files(schemas));
    all.extend(changes(schemas));
    all
}

/// Creates, lists and ends sessions.
fn life(schemas: &mut Schemas) -> Vec<Operation> {
    let session = schemas.written::<SessionInfo>();
    // What a blob that a session starts from contains.
    schemas.read::<Tree>();
    vec![
        Operation {
            body: Some(content(&[(JSON, schemas.read::<SessionRequest>())])),
            answers: vec![(201, "The session was created.", JSON, session.clone())],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::NoSkill,
                ProblemCode::SkillInvalid,
                ProblemCode::BlobsMissing,
                ProblemCode::SessionQuota,
                ProblemCode::SessionDisk,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::StorageQuota,
            ],
            ..post("/v1/sessions", "createSession", "Create a session", &[])
        },
        Operation {
            answers: vec![(200, "The sessions.", JSON, schemas.written::<SessionList>())],
            ..get("/v1/sessions", "listSessions", "List sessions, the latest first", &[])
        },
        Operation {
            answers: vec![(200, "The session.", JSON, session.clone())],
            ..get("/v1/sessions/{id}", "getSession", "Get where a session is in its life", &[ID])
        },
        Operation {
            method: "delete",
            answers: vec![(200, "The session has ended.", JSON, session)],
            problems: ENDED,
            ..post("/v1/sessions/{id}", "endSession", "End a session and its programs", &[ID])
        },
        Operation {
            answers: vec![(200, "The token.", JSON, schemas.written::<SandboxToken>())],
            problems: &[ProblemCode::InvalidRequest, ProblemCode::SessionEnded],
            ..post(
                "/v1/sessions/{id}/token",
                "issueToken",
                "Give a session a token for the sandboxd protocol, in place of the one that it had",
                &[ID],
            )
        },
    ]
}

/// Runs programs.
fn programs(schemas: &mut Schemas) -> Vec<Operation> {
    let (run, result) = (schemas.written::<RunInfo>(), schemas.written::<RunResult>());
    vec![
        Operation {
            body: Some(content(&[(JSON, schemas.read::<ProgramRequest>())])),
            answers: vec![
                (200, "The program has ended.", JSON, result.clone()),
                (202, "The program was started.", JSON, result.clone()),
            ],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::SessionEnded,
                ProblemCode::QueueFull,
                ProblemCode::TooManyStreams,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::StorageQuota,
            ],
            ..post("/v1/sessions/{id}/programs", "startProgram", "Run a program", &[ID])
        },
        Operation {
            answers: vec![(200, "The programs.", JSON, schemas.written::<RunList>())],
            problems: ENDED,
            ..get(
                "/v1/sessions/{id}/programs",
                "listPrograms",
                "List programs, the latest first",
                &[ID],
            )
        },
        Operation {
            answers: vec![(200, "The program.", JSON, run.clone())],
            problems: ENDED,
            ..get(
                "/v1/sessions/{id}/programs/{program}",
                "getProgram",
                "Get the status of a program",
                &[ID, PROGRAM],
            )
        },
        Operation {
            answers: vec![(200, "The program, which may not have ended.", JSON, run)],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::SessionEnded,
                ProblemCode::TooManyStreams,
            ],
            ..get(
                "/v1/sessions/{id}/programs/{program}/wait",
                "waitForProgram",
                "Wait until a program has ended",
                &[ID, PROGRAM, ("query", "timeout", "integer", "Seconds to wait, at most 60.")],
            )
        },
        Operation {
            answers: vec![(200, "The result.", JSON, result)],
            problems: &[ProblemCode::SessionEnded, ProblemCode::NotEnded],
            ..get(
                "/v1/sessions/{id}/programs/{program}/result",
                "getProgramResult",
                "Get the result of a program that has ended",
                &[ID, PROGRAM],
            )
        },
    ]
}

/// Follows programs, sends them input and ends them.
fn streams(schemas: &mut Schemas) -> Vec<Operation> {
    let run = schemas.written::<RunInfo>();
    vec![
        Operation {
            answers: vec![(200, "Events as those of a run.", EVENTS, json!({ "type": "string" }))],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::SessionEnded,
                ProblemCode::TooManyStreams,
            ],
            ..get(
                "/v1/sessions/{id}/programs/{program}/logs",
                "followProgram",
                "Follow the output of a program",
                &[ID, PROGRAM, LAST_EVENT],
            )
        },
        stream(
            "/v1/sessions/{id}/programs/{program}/stdout",
            "getProgramStdout",
            "Get the standard output so far",
        ),
        stream(
            "/v1/sessions/{id}/programs/{program}/stderr",
            "getProgramStderr",
            "Get the standard error so far",
        ),
        Operation {
            body: Some(content(&[(BYTES, json!({}))])),
            answers: vec![(200, "The program has, or will read, the bytes.", JSON, run.clone())],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::SessionEnded,
                ProblemCode::ProgramEnded,
                ProblemCode::TooManyStreams,
            ],
            ..post(
                "/v1/sessions/{id}/programs/{program}/stdin",
                "writeStdin",
                "Send standard input, which the program reads as it arrives",
                &[
                    ID,
                    PROGRAM,
                    ("query", "end", "boolean", "Whether the input ends with these bytes."),
                ],
            )
        },
        Operation {
            body: Some(content(&[(JSON, schemas.read::<SignalRequest>())])),
            answers: vec![
                (200, "The program has ended.", JSON, run.clone()),
                (202, "The program is about to end.", JSON, run),
            ],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::SessionEnded,
            ],
            ..post(
                "/v1/sessions/{id}/programs/{program}/signal",
                "signalProgram",
                "End a program by a signal",
                &[ID, PROGRAM],
            )
        },
    ]
}

/// Reads, writes and watches files.
fn files(schemas: &mut Schemas) -> Vec<Operation> {
    const FILE: &[ProblemCode] = &[
        ProblemCode::InvalidRequest,
        ProblemCode::SessionEnded,
        ProblemCode::FileDenied,
        ProblemCode::FileConflict,
        ProblemCode::TooManyStreams,
    ];
    // What the event `change` of a watch has.
    schemas.written::<WatchEvent>();
    vec![
        Operation {
            answers: vec![(200, "The bytes.", BYTES, json!({}))],
            problems: FILE,
            ..get("/v1/sessions/{id}/file", "readFile", "Read a file", &[ID, PATH])
        },
        Operation {
            method: "put",
            body: Some(content(&[(BYTES, json!({}))])),
            answers: vec![(200, "The file is written.", JSON, schemas.written::<WrittenFile>())],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::SessionEnded,
                ProblemCode::SessionDisk,
                ProblemCode::FileDenied,
                ProblemCode::FileConflict,
                ProblemCode::StorageQuota,
                ProblemCode::CpuQuota,
                ProblemCode::BytesQuota,
                ProblemCode::TooManyStreams,
            ],
            ..post(
                "/v1/sessions/{id}/file",
                "writeFile",
                "Write a file, and the folders above it",
                &[ID, PATH],
            )
        },
        Operation {
            method: "delete",
            answers: vec![(200, "The entry is gone.", JSON, schemas.written::<SessionInfo>())],
            problems: FILE,
            ..post(
                "/v1/sessions/{id}/file",
                "removeFile",
                "Remove a file or a folder",
                &[ID, PATH, RECURSIVE],
            )
        },
        Operation {
            answers: vec![(200, "The entries.", JSON, schemas.written::<FileList>())],
            problems: FILE,
            ..get("/v1/sessions/{id}/files", "listFiles", "List a folder", &[ID, PATH, RECURSIVE])
        },
        Operation {
            answers: vec![(
                200,
                "Events `start`, then `change` with a `WatchEvent`, and `missed` if there were more changes than are kept: list the files again.",
                EVENTS,
                json!({ "type": "string" }),
            )],
            problems: &[
                ProblemCode::InvalidRequest,
                ProblemCode::SessionEnded,
                ProblemCode::TooManyStreams,
            ],
            ..get(
                "/v1/sessions/{id}/watch",
                "watchFiles",
                "Follow changes in `/workspace`",
                &[ID, LAST_EVENT],
            )
        },
    ]
}

/// Looks at changes, applies and drops them; forks, stores and restores files.
fn changes(schemas: &mut Schemas) -> Vec<Operation> {
    let (session, changes) =
        (schemas.written::<SessionInfo>(), schemas.written::<SessionChanges>());
    let snapshot = schemas.written::<SnapshotInfo>();
    vec![
        Operation {
            answers: vec![(200, "The changes.", JSON, changes.clone())],
            problems: &[
                ProblemCode::SessionEnded,
                ProblemCode::FileConflict,
                ProblemCode::StorageQuota,
            ],
            ..get(
                "/v1/sessions/{id}/diff",
                "getDiff",
                "Get what the session changed in `/workspace`",
                &[ID],
            )
        },
        Operation {
            answers: vec![(200, "The changes, for the client to apply.", JSON, changes)],
            problems: ALONE,
            ..post(
                "/v1/sessions/{id}/apply",
                "applySession",
                "Get the changes, and start anew from them",
                &[ID],
            )
        },
        Operation {
            answers: vec![(200, "`/workspace` is as at the beginning.", JSON, session.clone())],
            problems: ALONE,
            ..post(
                "/v1/sessions/{id}/drop",
                "dropChanges",
                "Drop the changes of `/workspace`",
                &[ID],
            )
        },
        Operation {
            answers: vec![(201, "The new session.", JSON, session.clone())],
            problems: ALONE,
            ..post(
                "/v1/sessions/{id}/fork",
                "forkSession",
                "Create a session with the same `/workspace`",
                &[ID],
            )
        },
        Operation {
            answers: vec![(200, "The snapshot.", JSON, snapshot)],
            problems: ALONE,
            ..post(
                "/v1/sessions/{id}/snapshot",
                "snapshotSession",
                "Store the files of `/workspace` as a tree",
                &[ID],
            )
        },
        Operation {
            body: Some(content(&[(JSON, schemas.read::<RestoreRequest>())])),
            answers: vec![(200, "`/workspace` has the files of the tree.", JSON, session)],
            problems: &[
                ProblemCode::SessionEnded,
                ProblemCode::SessionBusy,
                ProblemCode::SessionDisk,
                ProblemCode::FileConflict,
                ProblemCode::FileDenied,
                ProblemCode::InvalidRequest,
                ProblemCode::BodyTooLarge,
                ProblemCode::BodyTimeout,
                ProblemCode::BlobsMissing,
            ],
            ..post(
                "/v1/sessions/{id}/restore",
                "restoreSession",
                "Give `/workspace` the files of a tree",
                &[ID],
            )
        },
    ]
}

const EVENTS: &str = "text/event-stream";

fn get(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Operation {
    Operation { method: "get", scope: Some("read"), ..post(path, id, summary, parameters) }
}

fn post(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Operation {
    Operation {
        path,
        method: "post",
        id,
        summary,
        scope: Some("run"),
        parameters,
        body: None,
        answers: Vec::<(u16, &'static str, &'static str, Value)>::new(),
        problems: &[],
    }
}

fn stream(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation {
        answers: vec![(200, "The bytes.", BYTES, json!({}))],
        problems: &[ProblemCode::SessionEnded, ProblemCode::TooManyStreams],
        ..get(path, id, summary, &[ID, PROGRAM])
    }
}
