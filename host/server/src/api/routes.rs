//! The paths of the run API. A request is checked in this order: its path and method, its token, the
//! scope of the token, and then what it sends.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;

use super::body::{self, Answer, of_json, of_problem};
use super::fleet::Fetched;
use super::logs::{Position, too_many};
use super::problem::{Problem, ProblemCode};
use super::sessions::routes::SessionRoute;
use super::state::{StreamName, hex_of, now};
use super::submit::closing;
use super::tenant::{OpenStream, Tenant};
use super::tenants::Scope;
use super::types::RunSubmission;
use super::uploads::{blocking, of_flooding_tenant, of_tenant};
use super::{Answered, Api, ApiShared, openapi};
use crate::skills::decoded;
use skillhost_ledger::runs::{RunFilter, RunStatus};

/// The most runs of a page, and the number without `limit`.
const PAGE: (u32, u32) = (1000, 100);
/// How long an answer waits that asks a client to come back later. A client that ignores this takes less
/// of the processor from others.
const REFUSED: Duration = Duration::from_millis(100);

/// The description of the API, made once.
static OPEN_API: LazyLock<Bytes> =
    LazyLock::new(|| serde_json::to_vec(&openapi::document()).unwrap_or_default().into());

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    Runs,
    Run(String),
    Wait(String),
    Result(String),
    Logs(String),
    Cancel(String),
    Stream(String, StreamName),
    Blob(String),
    Skills,
    Session(SessionRoute),
    OpenApi,
}

/// Returns an id, if the text is one.
pub(super) fn id_of(text: &str) -> Option<String> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 32 && text.bytes().all(is_hex)).then(|| text.to_owned())
}

impl Route {
    fn parse(path: &str) -> Option<Route> {
        let parts: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
        Some(match parts.as_slice() {
            ["openapi.json"] => Route::OpenApi,
            ["runs"] => Route::Runs,
            ["runs", run] => Route::Run(id_of(run)?),
            ["runs", run, part] => {
                let run = id_of(run)?;
                match *part {
                    "wait" => Route::Wait(run),
                    "result" => Route::Result(run),
                    "logs" => Route::Logs(run),
                    "cancel" => Route::Cancel(run),
                    "stdout" => Route::Stream(run, StreamName::Stdout),
                    "stderr" => Route::Stream(run, StreamName::Stderr),
                    _ => return None,
                }
            }
            // Some clients encode the colon.
            ["blobs", digest] => Route::Blob(decoded(digest)?),
            ["skills"] => Route::Skills,
            ["sessions", rest @ ..] => Route::Session(SessionRoute::parse(rest)?),
            _ => return None,
        })
    }

    /// Returns the methods of the path, and the scope that each needs.
    fn methods(&self) -> &'static [(Method, Option<Scope>)] {
        const READ: &[(Method, Option<Scope>)] = &[(Method::GET, Some(Scope::Read))];
        match self {
            Route::OpenApi => &[(Method::GET, None)],
            Route::Runs => &[(Method::GET, Some(Scope::Read)), (Method::POST, Some(Scope::Run))],
            Route::Cancel(_) => &[(Method::POST, Some(Scope::Run))],
            Route::Blob(_) => &[
                (Method::GET, Some(Scope::Read)),
                (Method::HEAD, Some(Scope::Upload)),
                (Method::PUT, Some(Scope::Upload)),
            ],
            Route::Skills => &[(Method::POST, Some(Scope::Upload))],
            Route::Session(route) => route.methods(),
            _ => READ,
        }
    }
}

/// The parameters of a query.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(head: &Parts, known: &[&str]) -> Answered<Query> {
        let text = head.uri.query().unwrap_or_default();
        let mut found = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let pair = decoded(name).zip(decoded(&value.replace('+', " ")));
            let (name, value) =
                pair.ok_or_else(|| Problem::invalid("the query is not percent-encoded UTF-8"))?;
            if !known.contains(&&*name) {
                let detail = format!("this path has the parameters {}", known.join(", "));
                return Err(Problem::invalid(detail));
            }
            found.push((name, value));
        }
        Ok(Query(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(super) fn parsed<T: std::str::FromStr>(&self, name: &str) -> Answered<Option<T>> {
        let parse = |text: &str| {
            text.parse().map_err(|_| Problem::invalid(format!("`{name}` is not a valid value")))
        };
        self.get(name).map(parse).transpose()
    }
}

impl Api {
    /// Answers a request for a path that starts with `/v1/`.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (mut head, body) = request.into_parts();
        let token = bearer(&head.headers);
        // Not needed any more, and what is removed cannot end up in a log.
        head.headers.remove(AUTHORIZATION);
        let mut answer = match self.route(&head, token.as_deref(), body).await {
            Ok(answer) => answer,
            Err(problem) => {
                if problem.code.status() == StatusCode::TOO_MANY_REQUESTS {
                    tokio::time::sleep(REFUSED).await;
                }
                let allow = Route::parse(head.uri.path())
                    .filter(|_| problem.code == ProblemCode::MethodNotAllowed);
                let mut answer = of_problem(&problem);
                if let Some(route) = allow {
                    let names: Vec<&str> =
                        route.methods().iter().map(|(method, _)| method.as_str()).collect();
                    if let Ok(names) = HeaderValue::from_str(&names.join(", ")) {
                        answer.headers_mut().insert(ALLOW, names);
                    }
                }
                answer
            }
        };
        // What a run printed must not be taken for a page of this server.
        let headers = answer.headers_mut();
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        answer
    }

    async fn route(&self, head: &Parts, token: Option<&str>, body: Incoming) -> Answered<Answer> {
        let api = &self.0;
        let route = Route::parse(head.uri.path());
        if route == Some(Route::OpenApi) && head.method == Method::GET {
            return Ok(body::of_bytes(StatusCode::OK, "application/json", OPEN_API.clone()));
        }
        // A client without a token does not learn which paths exist.
        let (tenant, bearer) = api.tenant_of(token).ok_or_else(|| {
            let detail = "send `Authorization: Bearer TOKEN` with a token of this server";
            Problem::new(ProblemCode::Unauthorized, detail)
        })?;
        let route = route.ok_or_else(Problem::not_found)?;
        let method = route.methods().iter().find(|(method, _)| *method == head.method);
        let Some((_, scope)) = method else {
            let detail = "the header `Allow` lists the methods of this path";
            return Err(Problem::new(ProblemCode::MethodNotAllowed, detail));
        };
        if let Some(scope) = scope.filter(|scope| !bearer.has(*scope)) {
            let name = format!("{scope:?}").to_lowercase();
            let detail = format!("this needs a token with the scope `{name}`");
            return Err(Problem::new(ProblemCode::ScopeMissing, detail));
        }
        if api.closing.is_cancelled() {
            return Err(closing());
        }
        tokio::select! {
            biased;
            // Removing a tenant from the file ends its open waits and uploads.
            () = tenant.removed.cancelled() => {
                Err(Problem::new(ProblemCode::Unauthorized, "the tenant was removed"))
            }
            answer = api.answer(&tenant, route, head, body) => answer,
        }
    }
}

impl ApiShared {
    /// Answers a request whose token may make it.
    async fn answer(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        route: Route,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let api = self;
        let open = || tenant.open_stream().ok_or_else(too_many);
        match route {
            Route::Runs if head.method == Method::POST => api.post_run(tenant, head, body).await,
            Route::Runs => api.get_runs(tenant, head).await,
            Route::Run(id) => Ok(of_json(StatusCode::OK, &api.look(tenant, &id).await?)),
            Route::Wait(id) => api.get_wait(tenant, &id, head).await,
            Route::Result(id) => {
                if let Some(fleet) = &api.options.fleet {
                    let _open = open()?;
                    let result = api.fleet_result(fleet, tenant, &id).await?;
                    return Ok(of_json(StatusCode::OK, &result));
                }
                let (looking, of) = (api.clone(), tenant.clone());
                let result = of_tenant(tenant, move || looking.result(&of, &id)).await?;
                Ok(of_json(StatusCode::OK, &result))
            }
            Route::Logs(id) => {
                let at = Position::of_request(head)?;
                api.logs(tenant, &id, at).await
            }
            Route::Cancel(id) => {
                let run = api.cancel(tenant, &id).await?;
                let status =
                    if run.status.has_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
                Ok(of_json(status, &run))
            }
            Route::Stream(id, stream) => {
                let open = open()?;
                if let Some(fleet) = &api.options.fleet {
                    let output = api.fleet_stream(fleet, tenant, &id, stream).await?;
                    return body::of_fetched(output, open)
                        .map_err(|error| Problem::internal(&error));
                }
                api.look(tenant, &id).await?;
                of_output(tenant, id, stream, open).await
            }
            Route::Blob(digest) if head.method == Method::PUT => {
                let _open = open()?;
                let stored = api.put_blob(tenant, &digest, head, body).await?;
                Ok(of_json(StatusCode::OK, &stored))
            }
            Route::Blob(digest) => {
                hex_of(&digest).ok_or_else(Problem::not_found)?;
                let known = match &api.options.fleet {
                    Some(fleet) => fleet.blob_size(&tenant.name, &digest).await?,
                    None => {
                        let known = || {
                            let known = tenant.state.store.use_blob(&digest, now());
                            known.map_err(|error| Problem::internal(&error))
                        };
                        of_tenant(tenant, known).await?
                    }
                };
                let bytes = known.ok_or_else(Problem::not_found)?;
                if let Some(fleet) = &api.options.fleet
                    && head.method == Method::GET
                    && !api.fetch_blob(fleet, tenant, &digest).await?
                {
                    return Err(Problem::not_found());
                }
                if head.method == Method::HEAD {
                    let kind = "application/octet-stream";
                    let mut answer = body::of_bytes(StatusCode::OK, kind, "");
                    answer.headers_mut().insert(CONTENT_LENGTH, bytes.into());
                    return Ok(answer);
                }
                of_file(tenant.state.blob(&digest), open()?)
            }
            Route::Skills => {
                let _open = open()?;
                let stored = api.put_skill(tenant, head, body).await?;
                Ok(of_json(StatusCode::CREATED, &stored))
            }
            Route::Session(route) => api.answer_session(tenant, route, head, body).await,
            Route::OpenApi => Err(Problem::not_found()),
        }
    }

    async fn post_run(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let mut keys = head.headers.get_all("idempotency-key").iter();
        let key = match (keys.next(), keys.next()) {
            (None, _) => None,
            (Some(key), None) => Some(
                key.to_str()
                    .map_err(|_| Problem::invalid("`Idempotency-Key` is not visible ASCII"))?
                    .to_owned(),
            ),
            _ => return Err(Problem::invalid("`Idempotency-Key` may be sent once")),
        };
        // Its bytes are counted when it is stored.
        let (submission, _): (RunSubmission, u64) =
            body::json(tenant, body, &self.options.bounds).await?;
        // At once: what is refused must not stay in memory while the request waits for the disk.
        self.check(&submission)?;
        // A key may name a run that was accepted.
        if self.options.fleet.is_none() && key.is_none() {
            self.require_room(tenant)?;
        }
        let accepted = match &self.options.fleet {
            Some(fleet) => self.submit_to(fleet, tenant, submission, key).await?,
            None => {
                let (api, of) = (self.clone(), tenant.clone());
                let work = move || api.submit(&of, submission, key.as_deref());
                match self.scheduler.gives_way(&tenant.name) {
                    true => of_flooding_tenant(self, tenant, work).await?,
                    false => of_tenant(tenant, work).await?,
                }
            }
        };
        let status = if accepted.is_repeated { StatusCode::OK } else { StatusCode::ACCEPTED };
        let mut answer = of_json(status, &accepted.run);
        if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{}", accepted.run.id)) {
            answer.headers_mut().insert(LOCATION, location);
        }
        Ok(answer)
    }

    async fn get_runs(self: &Arc<Self>, tenant: &Arc<Tenant>, head: &Parts) -> Answered<Answer> {
        let query = Query::of(head, &["status", "skill", "cursor", "limit"])?;
        let status = match query.get("status") {
            None => None,
            Some(name) => Some(RunStatus::of_name(name).ok_or_else(|| {
                let names = "queued, running, succeeded, failed, cancelled, lost or unknown";
                Problem::invalid(format!("`status` is one of {names}"))
            })?),
        };
        let limit: u32 = query.parsed("limit")?.unwrap_or(PAGE.1);
        if limit == 0 || limit > PAGE.0 {
            return Err(Problem::invalid(format!("`limit` is a number from 1 to {}", PAGE.0)));
        }
        let mut filter =
            RunFilter { status, skill: query.get("skill").map(str::to_owned), before: None, limit };
        if let Some(fleet) = &self.options.fleet {
            let _open = tenant.open_stream().ok_or_else(too_many)?;
            let list = self.fleet_list(fleet, tenant, &filter, query.get("cursor")).await?;
            return Ok(of_json(StatusCode::OK, &list));
        }
        filter.before = query.parsed("cursor")?;
        let (api, of) = (self.clone(), tenant.clone());
        let list = of_tenant(tenant, move || api.list(&of, &filter)).await?;
        Ok(of_json(StatusCode::OK, &list))
    }

    async fn get_wait(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        head: &Parts,
    ) -> Answered<Answer> {
        let query = Query::of(head, &["timeout"])?;
        let most = self.options.bounds.wait;
        let seconds: u64 = query.parsed("timeout")?.unwrap_or(most.as_secs());
        if seconds > most.as_secs() {
            let detail = format!("`timeout` is a number of seconds up to {}", most.as_secs());
            return Err(Problem::invalid(detail));
        }
        let _open = tenant.open_stream().ok_or_else(too_many)?;
        let run = self.wait(tenant, id, Duration::from_secs(seconds)).await?;
        Ok(of_json(StatusCode::OK, &run))
    }
}

/// An answer with the bytes of a file; one that is missing is empty to clients who know its run.
pub(super) fn of_file(
    file: std::io::Result<cap_std::fs::File>,
    open: OpenStream,
) -> Answered<Answer> {
    match file {
        Ok(file) => body::of_file(file.into_std(), open).map_err(|error| Problem::internal(&error)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Problem::not_found()),
        Err(error) => Err(Problem::internal(&error)),
    }
}

/// An answer with what a run, or a program of a session, has written to a stream so far.
pub(super) async fn of_output(
    tenant: &Arc<Tenant>,
    id: String,
    stream: StreamName,
    open: OpenStream,
) -> Answered<Answer> {
    let tenant = tenant.clone();
    let output = blocking(move || match tenant.state.output(&id, stream) {
        // It has not started.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Fetched::Bytes(Vec::new()))
        }
        output => output.map_err(|error| Problem::internal(&error)),
    });
    body::of_fetched(output.await?, open).map_err(|error| Problem::internal(&error))
}

/// Returns what a path of sessions names.
pub(super) fn session_route(path: &str) -> Option<SessionRoute> {
    match Route::parse(path)? {
        Route::Session(route) => Some(route),
        _ => None,
    }
}

/// Returns the token of a request (RFC 6750).
pub(super) fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_paths_are_routes() {
        let id = "0123456789abcdef0123456789abcdef";
        let route = |path: &str| Route::parse(path);
        assert_eq!(route("/v1/runs"), Some(Route::Runs));
        assert_eq!(route(&format!("/v1/runs/{id}/logs")), Some(Route::Logs(id.into())));
        for path in [
            "/v1",
            "/v1/",
            "/v1/runs/",
            "/v1/runs/..",
            &format!("/v1/runs/{id}/"),
            &format!("/v1/runs/{id}/other"),
            &format!("/v1/runs/{}", id.to_uppercase()),
            "/v1/blobs/a/b",
            "/v1/sessions/",
            "/v1/sessions/..",
            &format!("/v1/sessions/{id}/other"),
            &format!("/v1/sessions/{id}/programs/x"),
            &format!("/v1/sessions/{id}/programs/{id}/stdin/x"),
            "/v2/runs",
        ] {
            assert_eq!(route(path), None, "{path}");
        }
    }
}
