//! The `sandboxd` protocol of kubernetes-sigs/agent-sandbox: gRPC for programs, and REST for files. A
//! sandbox is a session, which the token of a request names: one server is many sandboxes.
//!
//! The contract is `process.v1` and `filesystem.v1` of the commit
//! `2fd412d55ecae90861a101a5424a75473de97c36`. `messages` has its messages, `process` runs programs, and
//! `files` reads and writes files. Requests are checked in this order: their token, their size, and then
//! what they say.

mod files;
mod messages;
mod process;

use std::sync::{Arc, PoisonError};

use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tonic::Status;
use tonic::body::Body;

use super::super::problem::{Problem, ProblemCode};
use super::super::routes::{bearer, id_of};
use super::super::submit::closing;
use super::super::tenant::Tenant;
use super::super::{Answered, Api, ApiShared};
use super::Session;
use super::types::SandboxToken;

/// The start of every token. The id of the session and the secret follow.
const PREFIX: &str = "shs_";
/// The hex digits of an id and of a secret.
const DIGITS: (usize, usize) = (32, 64);

type SandboxAnswer = Response<Body>;

/// The sandbox of a request.
#[derive(Clone)]
struct Sandbox {
    api: Arc<ApiShared>,
    tenant: Arc<Tenant>,
    session: Arc<Session>,
}

impl Api {
    /// Answers a request of the protocol.
    pub(crate) async fn answer_sandboxd(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let token = bearer(&head.headers);
        // Not needed any more, and what is removed cannot end up in a log.
        head.headers.remove(AUTHORIZATION);
        let is_grpc = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !is_grpc && head.method == Method::GET && head.uri.path() == "/v1/health" {
            return self.health();
        }
        let sandbox = match self.sandbox_of(token.as_deref()) {
            Ok(sandbox) => sandbox,
            Err(problem) if is_grpc => return status_of(&problem).into_http(),
            Err(problem) => return refusal(&problem, &head),
        };
        let (tenant, session) = (sandbox.tenant.clone(), sandbox.session.clone());
        let answered = async {
            match is_grpc {
                true => process::answer(sandbox, head, body).await,
                false => match files::answer(sandbox, &head, body).await {
                    Ok(answer) => answer,
                    Err(problem) => refusal(&problem, &head),
                },
            }
        };
        tokio::select! {
            biased;
            // Removing a tenant from the file ends its open calls and uploads.
            () = tenant.removed.cancelled() => gone(is_grpc),
            answer = answered => {
                session.touch();
                answer
            }
        }
    }

    fn health(&self) -> SandboxAnswer {
        if self.0.closing.is_cancelled() {
            return of_problem(&closing());
        }
        let uptime = self.0.started.elapsed().as_secs();
        of_json(StatusCode::OK, &json!({ "status": "ok", "uptime_seconds": uptime }))
    }

    /// Returns the sandbox that a token names. What is wrong with a token is not said.
    fn sandbox_of(&self, token: Option<&str>) -> Answered<Sandbox> {
        let api = &self.0;
        let known = token.and_then(|token| {
            let (id, _) = token.strip_prefix(PREFIX)?.split_at_checked(DIGITS.0)?;
            let id = id_of(id)?;
            api.tenants()
                .into_iter()
                .find_map(|tenant| Some((tenant.sessions.active(&id)?, tenant)))
        });
        let shown: [u8; 32] = Sha256::digest(token.unwrap_or_default().as_bytes()).into();
        let digest = known.as_ref().and_then(|(session, _)| session.token_digest());
        // All bytes are compared, so that the time taken reveals nothing of the digest.
        let differs =
            shown.iter().zip(digest.unwrap_or_default()).fold(0, |all, (a, b)| all | (a ^ b));
        match known {
            Some((session, tenant)) if digest.is_some() && differs == 0 => {
                if api.closing.is_cancelled() {
                    return Err(closing());
                }
                session.touch();
                Ok(Sandbox { api: api.clone(), tenant, session })
            }
            _ => Err(unknown()),
        }
    }
}

impl ApiShared {
    /// Gives a session a token, in place of the one that it has.
    pub(super) fn issue_token(&self, session: &Session) -> Answered<SandboxToken> {
        if !self.options.sandboxd {
            let detail =
                "the server was started without `--sandboxd`, so there is no use for a token";
            return Err(Problem::invalid(detail));
        }
        let (one, other) = (rand::random::<u128>(), rand::random::<u128>());
        let token = format!("{PREFIX}{}{one:032x}{other:032x}", session.id);
        *session.token.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Sha256::digest(token.as_bytes()).into());
        Ok(SandboxToken { token })
    }
}

impl Session {
    fn token_digest(&self) -> Option<[u8; 32]> {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown() -> Problem {
    let detail = "send `Authorization: Bearer TOKEN` with the token of a sandbox";
    Problem::new(ProblemCode::Unauthorized, detail)
}

/// The answer to a request whose tenant was removed.
fn gone(is_grpc: bool) -> SandboxAnswer {
    match is_grpc {
        true => status_of(&unknown()).into_http(),
        false => of_problem(&unknown()),
    }
}

/// The answer to a request that failed. One of `HEAD` has no body.
fn refusal(problem: &Problem, head: &Parts) -> SandboxAnswer {
    let answer = of_problem(problem);
    match head.method == Method::HEAD {
        true => answer.map(|_| Body::empty()),
        false => answer,
    }
}

/// A problem as the contract describes errors.
fn of_problem(problem: &Problem) -> SandboxAnswer {
    let status = problem.code.status();
    let mut answer =
        of_json(status, &json!({ "code": name_of(problem.code), "message": problem.detail }));
    if let Some(seconds) = problem.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    answer
}

fn of_json(status: StatusCode, value: &impl Serialize) -> SandboxAnswer {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let mut answer = Response::new(Body::new(Full::from(bytes)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// The code of an error of the REST part.
fn name_of(code: ProblemCode) -> &'static str {
    match code {
        ProblemCode::FileConflict => "CONFLICT",
        code => match grpc_code(code) {
            tonic::Code::NotFound => "NOT_FOUND",
            tonic::Code::PermissionDenied => "PERMISSION_DENIED",
            tonic::Code::InvalidArgument => "INVALID_ARGUMENT",
            tonic::Code::FailedPrecondition => "FAILED_PRECONDITION",
            tonic::Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
            tonic::Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
            tonic::Code::Unauthenticated => "UNAUTHENTICATED",
            tonic::Code::Unavailable => "UNAVAILABLE",
            tonic::Code::Unimplemented => "UNIMPLEMENTED",
            _ => "INTERNAL",
        },
    }
}

fn grpc_code(code: ProblemCode) -> tonic::Code {
    use tonic::Code;
    match code {
        ProblemCode::Unauthorized => Code::Unauthenticated,
        ProblemCode::ScopeMissing | ProblemCode::FileDenied => Code::PermissionDenied,
        ProblemCode::NotFound | ProblemCode::SessionEnded => Code::NotFound,
        ProblemCode::MethodNotAllowed => Code::Unimplemented,
        ProblemCode::InvalidRequest
        | ProblemCode::UnsupportedMediaType
        | ProblemCode::DigestMismatch
        | ProblemCode::BlobsMissing => Code::InvalidArgument,
        ProblemCode::BodyTimeout => Code::DeadlineExceeded,
        ProblemCode::BodyTooLarge
        | ProblemCode::QueueFull
        | ProblemCode::CpuQuota
        | ProblemCode::BytesQuota
        | ProblemCode::StorageQuota
        | ProblemCode::TooManyStreams
        | ProblemCode::SessionQuota
        | ProblemCode::SessionDisk => Code::ResourceExhausted,
        ProblemCode::KeyConflict
        | ProblemCode::NotEnded
        | ProblemCode::NoSkill
        | ProblemCode::SkillInvalid
        | ProblemCode::SessionBusy
        | ProblemCode::FileConflict
        | ProblemCode::ProgramEnded => Code::FailedPrecondition,
        ProblemCode::Closing | ProblemCode::FleetUnavailable | ProblemCode::SessionUnavailable => {
            Code::Unavailable
        }
        ProblemCode::ResultUntrusted | ProblemCode::Internal => Code::Internal,
    }
}

fn status_of(problem: &Problem) -> Status {
    Status::new(grpc_code(problem.code), problem.detail.clone())
}
