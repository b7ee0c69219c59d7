//! The paths of sessions, below `/v1/sessions`.

use std::sync::Arc;
use std::time::Duration;

use http::header::LOCATION;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use hyper::body::Incoming;

use super::super::body::{self, Answer, of_json};
use super::super::logs::{Position, too_many};
use super::super::problem::Problem;
use super::super::routes::{Query, id_of};
use super::super::state::StreamName;
use super::super::tenant::Tenant;
use super::super::tenants::Scope;
use super::super::uploads::blocking;
use super::super::{Answered, ApiShared};
use super::Session;
use super::programs::stream_named;
use super::types::{ProgramRequest, RestoreRequest, SessionRequest, SessionStatus, SignalRequest};

/// What a path of a session names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum SessionRoute {
    All,
    One(String),
    Part(String, Part),
    Program(String, String, ProgramPart),
}

/// A part of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Part {
    Programs,
    File,
    Files,
    Watch,
    Diff,
    Apply,
    Drop,
    Fork,
    Snapshot,
    Restore,
    Token,
}

/// A part of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum ProgramPart {
    Info,
    Wait,
    Result,
    Logs,
    Stdin,
    Signal,
    Stream(StreamName),
}

type Methods = &'static [(Method, Option<Scope>)];

impl SessionRoute {
    /// Parses what follows `/v1/sessions`.
    pub(in super::super) fn parse(parts: &[&str]) -> Option<SessionRoute> {
        Some(match parts {
            [] => SessionRoute::All,
            [id] => SessionRoute::One(id_of(id)?),
            [id, part] => {
                let part = match *part {
                    "programs" => Part::Programs,
                    "file" => Part::File,
                    "files" => Part::Files,
                    "watch" => Part::Watch,
                    "diff" => Part::Diff,
                    "apply" => Part::Apply,
                    "drop" => Part::Drop,
                    "fork" => Part::Fork,
                    "snapshot" => Part::Snapshot,
                    "restore" => Part::Restore,
                    "token" => Part::Token,
                    _ => return None,
                };
                SessionRoute::Part(id_of(id)?, part)
            }
            [id, "programs", program, rest @ ..] => {
                let part = match rest {
                    [] => ProgramPart::Info,
                    ["wait"] => ProgramPart::Wait,
                    ["result"] => ProgramPart::Result,
                    ["logs"] => ProgramPart::Logs,
                    ["stdin"] => ProgramPart::Stdin,
                    ["signal"] => ProgramPart::Signal,
                    [name] => ProgramPart::Stream(stream_named(name)?),
                    _ => return None,
                };
                SessionRoute::Program(id_of(id)?, id_of(program)?, part)
            }
            _ => return None,
        })
    }

    /// Returns the id of the session.
    pub(super) fn session(&self) -> Option<&str> {
        match self {
            SessionRoute::All => None,
            SessionRoute::One(id) | SessionRoute::Part(id, _) | SessionRoute::Program(id, ..) => {
                Some(id)
            }
        }
    }

    /// Returns the methods, and the scope that each needs. What changes a session needs `run`.
    pub(in super::super) fn methods(&self) -> Methods {
        const READ: Methods = &[(Method::GET, Some(Scope::Read))];
        const RUN: Methods = &[(Method::POST, Some(Scope::Run))];
        const BOTH: Methods = &[(Method::GET, Some(Scope::Read)), (Method::POST, Some(Scope::Run))];
        match self {
            SessionRoute::All | SessionRoute::Part(_, Part::Programs) => BOTH,
            SessionRoute::One(_) => {
                &[(Method::GET, Some(Scope::Read)), (Method::DELETE, Some(Scope::Run))]
            }
            SessionRoute::Part(_, Part::File) => &[
                (Method::GET, Some(Scope::Read)),
                (Method::PUT, Some(Scope::Run)),
                (Method::DELETE, Some(Scope::Run)),
            ],
            SessionRoute::Part(_, Part::Files | Part::Watch | Part::Diff) => READ,
            SessionRoute::Part(..) => RUN,
            SessionRoute::Program(_, _, ProgramPart::Stdin | ProgramPart::Signal) => RUN,
            SessionRoute::Program(..) => READ,
        }
    }
}

impl ApiShared {
    /// Answers a request for a session, whose token may make it.
    pub(in super::super) async fn answer_session(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        route: SessionRoute,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        match &self.options.fleet {
            Some(fleet) => self.forward(fleet, tenant, route, head, body).await,
            None => self.answer_here(tenant, route, head, body).await,
        }
    }

    /// Answers a request for a session of this process.
    pub(super) async fn answer_here(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        route: SessionRoute,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        match route {
            SessionRoute::All if head.method == Method::POST => {
                let request: SessionRequest = self.read_json(tenant, body).await?;
                let (api, owner) = (self.clone(), tenant.clone());
                let open = tenant.open_stream().ok_or_else(too_many)?;
                let create = move |id| async move {
                    api.fetch_for_session(&owner, &request).await?;
                    blocking(move || {
                        let _open = open;
                        api.create_session(&owner, request, id)
                    })
                    .await
                };
                let info = self.new_session(tenant, create).await?;
                Ok(created(&info.id, &info))
            }
            SessionRoute::All => Ok(of_json(StatusCode::OK, &tenant.sessions.list())),
            SessionRoute::One(id) if head.method == Method::DELETE => {
                let session = tenant.sessions.get(&id)?;
                let info = self.end_session(tenant, &session, SessionStatus::Ended).await?;
                Ok(of_json(StatusCode::OK, &info))
            }
            SessionRoute::One(id) => Ok(of_json(StatusCode::OK, &tenant.sessions.describe(&id)?)),
            SessionRoute::Part(id, part) => {
                let session = tenant.sessions.get(&id)?;
                self.answer_part(tenant, &session, part, head, body).await
            }
            SessionRoute::Program(id, program, part) => {
                let session = tenant.sessions.get(&id)?;
                self.answer_program(tenant, &session, &program, part, head, body).await
            }
        }
    }

    async fn answer_part(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        part: Part,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let ok = StatusCode::OK;
        Ok(match part {
            Part::Programs if head.method == Method::POST => {
                // Its bytes are counted with the program, as those of other protocols are.
                let (request, _): (ProgramRequest, u64) =
                    body::json(tenant, body, &self.options.bounds).await?;
                let result = self.start_program(tenant, session, request).await?;
                let status = if result.run.status.has_ended() { ok } else { StatusCode::ACCEPTED };
                of_json(status, &result)
            }
            Part::Programs => {
                let runs = session.programs().iter().rev().map(|program| program.info()).collect();
                of_json(ok, &super::super::types::RunList { runs, next: None })
            }
            Part::File if head.method == Method::PUT => {
                let path = path_of(&Query::of(head, &["path"])?)?;
                of_json(ok, &self.put_file(tenant, session, path, head, body).await?)
            }
            Part::File if head.method == Method::DELETE => {
                let query = Query::of(head, &["path", "recursive"])?;
                let (path, recursive) = (path_of(&query)?, query.parsed("recursive")?);
                self.remove_file(session, path, recursive.unwrap_or(false)).await?;
                of_json(ok, &session.info())
            }
            Part::File => {
                let path = path_of(&Query::of(head, &["path"])?)?;
                self.get_file(tenant, session, path).await?
            }
            Part::Files => {
                let query = Query::of(head, &["path", "recursive"])?;
                let path = query.get("path").unwrap_or_default().to_owned();
                let recursive = query.parsed("recursive")?.unwrap_or(false);
                of_json(ok, &self.list_files(session, path, recursive).await?)
            }
            Part::Watch => {
                let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
                let wrong = |_| {
                    Problem::invalid("`Last-Event-ID` is not the id of an event of this stream")
                };
                let after = last.map(|id| id.parse().map_err(wrong)).transpose()?;
                self.watch_files(tenant, session, after)?
            }
            Part::Diff => of_json(ok, &self.session_diff(tenant, session).await?),
            Part::Apply => of_json(ok, &self.apply_session(tenant, session).await?),
            Part::Drop => of_json(ok, &self.drop_changes(session).await?),
            Part::Fork => {
                let info = self.fork_session(tenant, session).await?;
                created(&info.id, &info)
            }
            Part::Snapshot => of_json(ok, &self.snapshot_session(tenant, session).await?),
            Part::Restore => {
                let RestoreRequest { tree } = self.read_json(tenant, body).await?;
                self.fetch_tree_and_files(tenant, &tree).await?;
                of_json(ok, &self.restore_session(tenant, session, tree).await?)
            }
            Part::Token => of_json(ok, &self.issue_token(session)?),
        })
    }

    async fn answer_program(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        session: &Arc<Session>,
        program: &str,
        part: ProgramPart,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let (program, ok) = (session.program(program)?, StatusCode::OK);
        Ok(match part {
            ProgramPart::Info => of_json(ok, &program.info()),
            ProgramPart::Wait => {
                let most = self.options.bounds.wait.as_secs();
                let seconds = Query::of(head, &["timeout"])?.parsed("timeout")?.unwrap_or(most);
                if seconds > most {
                    let detail = format!("`timeout` is a number of seconds up to {most}");
                    return Err(Problem::invalid(detail));
                }
                let within = Duration::from_secs(seconds);
                of_json(ok, &self.wait_for_program(tenant, &program, within).await?)
            }
            ProgramPart::Result => of_json(ok, &self.program_result(tenant, program).await?),
            ProgramPart::Logs => {
                let at = Position::of_request(head)?;
                self.stream_logs(tenant, &program.id.clone(), Some(program), at)?
            }
            ProgramPart::Stdin => {
                let end = Query::of(head, &["end"])?.parsed("end")?.unwrap_or(false);
                of_json(ok, &self.write_stdin(tenant, &program, body, end).await?)
            }
            ProgramPart::Signal => {
                let (SignalRequest { signal }, bytes) =
                    body::json(tenant, body, &self.options.bounds).await?;
                // At once: a signal must not wait for the disk, and its client may disconnect meanwhile.
                let (info, ()) =
                    tokio::join!(self.signal(&program, signal), tenant.charge(0, bytes));
                let status = if info.status.has_ended() { ok } else { StatusCode::ACCEPTED };
                of_json(status, &info)
            }
            ProgramPart::Stream(stream) => {
                let open = tenant.open_stream().ok_or_else(too_many)?;
                super::super::routes::of_output(tenant, program.id.clone(), stream, open).await?
            }
        })
    }

    /// Reads a body of JSON within the bounds, and counts its bytes.
    async fn read_json<T: serde::de::DeserializeOwned>(
        &self,
        tenant: &Arc<Tenant>,
        body: Incoming,
    ) -> Answered<T> {
        let (value, bytes) = body::json(tenant, body, &self.options.bounds).await?;
        tenant.charge(0, bytes).await;
        Ok(value)
    }
}

fn created(id: &str, info: &impl serde::Serialize) -> Answer {
    let mut answer = of_json(StatusCode::CREATED, info);
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/sessions/{id}")) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn path_of(query: &Query) -> Answered<String> {
    let path = query.get("path").filter(|path| !path.is_empty());
    path.map(str::to_owned).ok_or_else(|| Problem::invalid("name a file: `?path=PATH`"))
}
