//! Errors as `application/problem+json` (RFC 9457), with stable codes.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error that a client gets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` says what is wrong.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong in general.
    pub title: String,
    /// The status code of the answer.
    pub status: u16,
    /// What is wrong, for programs.
    pub code: ProblemCode,
    /// What is wrong in this case, for people.
    pub detail: String,
    /// The digests of blobs that have to be uploaded first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// How many seconds to wait before the next attempt, as in the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// What is wrong, for programs. The codes do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the titles document each variant")]
pub enum ProblemCode {
    Unauthorized,
    ScopeMissing,
    NotFound,
    MethodNotAllowed,
    InvalidRequest,
    BodyTooLarge,
    BodyTimeout,
    UnsupportedMediaType,
    KeyConflict,
    NotEnded,
    NoSkill,
    SkillInvalid,
    BlobsMissing,
    DigestMismatch,
    QueueFull,
    CpuQuota,
    BytesQuota,
    StorageQuota,
    TooManyStreams,
    SessionEnded,
    SessionBusy,
    SessionQuota,
    SessionDisk,
    SessionUnavailable,
    FileDenied,
    FileConflict,
    ProgramEnded,
    Closing,
    FleetUnavailable,
    ResultUntrusted,
    Internal,
}

impl ProblemCode {
    /// All codes, in the order of the documentation.
    pub const ALL: [ProblemCode; 31] = [
        ProblemCode::Unauthorized,
        ProblemCode::ScopeMissing,
        ProblemCode::NotFound,
        ProblemCode::MethodNotAllowed,
        ProblemCode::InvalidRequest,
        ProblemCode::BodyTooLarge,
        ProblemCode::BodyTimeout,
        ProblemCode::UnsupportedMediaType,
        ProblemCode::KeyConflict,
        ProblemCode::NotEnded,
        ProblemCode::NoSkill,
        ProblemCode::SkillInvalid,
        ProblemCode::BlobsMissing,
        ProblemCode::DigestMismatch,
        ProblemCode::QueueFull,
        ProblemCode::CpuQuota,
        ProblemCode::BytesQuota,
        ProblemCode::StorageQuota,
        ProblemCode::TooManyStreams,
        ProblemCode::SessionEnded,
        ProblemCode::SessionBusy,
        ProblemCode::SessionQuota,
        ProblemCode::SessionDisk,
        ProblemCode::SessionUnavailable,
        ProblemCode::FileDenied,
        ProblemCode::FileConflict,
        ProblemCode::ProgramEnded,
        ProblemCode::Closing,
        ProblemCode::FleetUnavailable,
        ProblemCode::ResultUntrusted,
        ProblemCode::Internal,
    ];

    /// Returns the status code.
    pub fn status(self) -> StatusCode {
        match self {
            ProblemCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ProblemCode::ScopeMissing | ProblemCode::FileDenied => StatusCode::FORBIDDEN,
            ProblemCode::NotFound => StatusCode::NOT_FOUND,
            ProblemCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ProblemCode::InvalidRequest => StatusCode::BAD_REQUEST,
            ProblemCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            ProblemCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemCode::KeyConflict
            | ProblemCode::NotEnded
            | ProblemCode::SessionBusy
            | ProblemCode::FileConflict
            | ProblemCode::ProgramEnded => StatusCode::CONFLICT,
            ProblemCode::SessionEnded => StatusCode::GONE,
            ProblemCode::NoSkill
            | ProblemCode::SkillInvalid
            | ProblemCode::BlobsMissing
            | ProblemCode::DigestMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::QueueFull
            | ProblemCode::CpuQuota
            | ProblemCode::BytesQuota
            | ProblemCode::TooManyStreams
            | ProblemCode::SessionQuota => StatusCode::TOO_MANY_REQUESTS,
            ProblemCode::StorageQuota | ProblemCode::SessionDisk => {
                StatusCode::INSUFFICIENT_STORAGE
            }
            ProblemCode::Closing
            | ProblemCode::FleetUnavailable
            | ProblemCode::SessionUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::ResultUntrusted => StatusCode::BAD_GATEWAY,
            ProblemCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the code as one word.
    pub fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Returns what is wrong in general.
    pub fn title(self) -> &'static str {
        match self {
            ProblemCode::Unauthorized => "the token is missing, unknown or expired",
            ProblemCode::ScopeMissing => "the token lacks a scope",
            ProblemCode::NotFound => "there is no such run, session, file or path",
            ProblemCode::MethodNotAllowed => "the path does not have this method",
            ProblemCode::InvalidRequest => "the request is invalid",
            ProblemCode::BodyTooLarge => "the body is too large",
            ProblemCode::BodyTimeout => "the body did not arrive in time",
            ProblemCode::UnsupportedMediaType => "the Content-Type is not supported",
            ProblemCode::KeyConflict => "the idempotency key was used for another request",
            ProblemCode::NotEnded => "the run has not ended",
            ProblemCode::NoSkill => "there is no such skill",
            ProblemCode::SkillInvalid => "the skill cannot be loaded",
            ProblemCode::BlobsMissing => "blobs have to be uploaded first",
            ProblemCode::DigestMismatch => "the body does not have this digest",
            ProblemCode::QueueFull => "too many runs are queued",
            ProblemCode::CpuQuota => "the quota of processor time is used up",
            ProblemCode::BytesQuota => "the quota of bytes is used up",
            ProblemCode::StorageQuota => "the quota of stored bytes is used up",
            ProblemCode::TooManyStreams => "too many streams are open",
            ProblemCode::SessionEnded => "the session has ended",
            ProblemCode::SessionBusy => "programs of the session are running",
            ProblemCode::SessionQuota => "there are too many sessions",
            ProblemCode::SessionDisk => "the files of sessions use too many bytes",
            ProblemCode::SessionUnavailable => "no worker answers for the session",
            ProblemCode::FileDenied => "the rules of the session deny this for the file",
            ProblemCode::FileConflict => "what is at the path does not permit this",
            ProblemCode::ProgramEnded => "the program takes no more input",
            ProblemCode::Closing => "the server is stopping",
            ProblemCode::FleetUnavailable => "the queue of the fleet does not answer",
            ProblemCode::ResultUntrusted => "no worker of the tenant has signed the result",
            ProblemCode::Internal => "the server failed",
        }
    }
}

impl Problem {
    /// Creates a problem with a detail for people.
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Problem {
        Problem {
            kind: "about:blank".into(),
            title: code.title().into(),
            status: code.status().as_u16(),
            code,
            detail: detail.into(),
            missing: Vec::new(),
            retry_after: None,
        }
    }

    /// There is nothing at this path, or it belongs to another tenant: the answer is the same.
    pub(super) fn not_found() -> Problem {
        Problem::new(ProblemCode::NotFound, "check the id, and the path in the documentation")
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(ProblemCode::InvalidRequest, detail)
    }

    /// Logs an error of the host, whose text may name paths of this machine, and hides it.
    pub(super) fn internal(error: &dyn std::fmt::Display) -> Problem {
        tracing::error!(%error, "a request of the run API failed");
        Problem::new(ProblemCode::Internal, "the log of the server says why")
    }

    pub(super) fn retry_after(self, seconds: u64) -> Problem {
        Problem { retry_after: Some(seconds.max(1)), ..self }
    }
}
