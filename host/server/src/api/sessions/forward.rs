//! Sessions of a fleet as an API server sees them: it keeps nothing of them, and forwards each request to
//! the worker that has the session. The token of the client was checked, and stays here.
//!
//! What a worker does not answer is unavailable. Its session is lost once the worker is known to have
//! ended: another process answers at its address, or it can neither be reached nor has it reported for
//! as long as a run would wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER,
};
use http::request::Parts;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::sync::mpsc::channel;
use tokio_rustls::TlsConnector;

use super::super::body::{self, Answer, of_json};
use super::super::fleet::sessions::{FleetSession, SessionPlace};
use super::super::fleet::{Fleet, FleetError};
use super::super::logs::too_many;
use super::super::problem::{Problem, ProblemCode};
use super::super::state::now;
use super::super::tenant::{OpenStream, Tenant};
use super::super::{Answered, ApiShared};
use super::ended;
use super::hosted::{PROCESS, STATUS, TENANT};
use super::records::SessionRecord;
use super::routes::{Part, SessionRoute};
use super::types::{SessionInfo, SessionList, SessionStatus};

/// How long connecting to a worker may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a worker may take to list its sessions. A list has what is recorded of the others.
const LIST: Duration = Duration::from_secs(2);
/// The most bytes of such a list.
const LIST_BYTES: usize = 4 << 20;
/// The most workers that are asked at once.
const ASKED: usize = 16;
/// The most sessions of a list.
const LISTED: usize = 1_000;
/// How many of the workers that offer a place are tried.
const TRIED: usize = 3;
/// How often it is checked whether a worker that answers has fallen silent.
const CHECK: Duration = Duration::from_secs(1);
/// How long a connection may be idle, which is less than workers allow, and the most that are.
const IDLE: (Duration, usize) = (Duration::from_secs(5), 256);
/// The headers of a request that a worker gets, and of an answer that a client gets.
const SENT: [HeaderName; 3] = [CONTENT_TYPE, ACCEPT, HeaderName::from_static("last-event-id")];
const RETURNED: [HeaderName; 6] =
    [CONTENT_TYPE, CONTENT_LENGTH, LOCATION, RETRY_AFTER, ALLOW, CACHE_CONTROL];

type Body = BoxBody<Bytes, hyper::Error>;
type Sender = SendRequest<Body>;

/// The idle connections to workers.
#[derive(Default)]
pub(in super::super) struct Workers {
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    address: String,
    /// What the connection was opened with: it is not used once that has changed.
    config: Arc<ClientConfig>,
    sender: Sender,
    since: Instant,
}

/// Why there is no answer of a worker.
enum NoAnswer {
    /// It cannot be reached: it got nothing.
    Unreachable,
    /// It ended the connection, or fell silent: the request may have had an effect.
    Broken,
    /// Another process is at its address.
    OtherProcess,
    /// It may not have the session.
    Refused(FleetError),
}

impl ApiShared {
    /// Answers a request for sessions of a fleet, whose token may make it.
    pub(super) async fn forward(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        route: SessionRoute,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        // Before the worker gets it: what has had its effect is answered.
        let open = tenant.open_stream().ok_or_else(too_many)?;
        let id = match &route {
            SessionRoute::All if head.method == Method::POST => {
                return self.forward_new(fleet, tenant, open, head, body).await;
            }
            SessionRoute::All => {
                return Ok(of_json(StatusCode::OK, &self.list_in(fleet, tenant).await?));
            }
            SessionRoute::Part(_, Part::Token) => {
                let detail =
                    "a fleet does not serve the sandboxd protocol, so there is no use for a token";
                return Err(Problem::invalid(detail));
            }
            _ => route.session().ok_or_else(Problem::not_found)?,
        };
        let found = fleet.session(&tenant.name, id).await?.ok_or_else(Problem::not_found)?;
        if found.status != SessionStatus::Active {
            let is_asked = matches!(route, SessionRoute::One(_)) && head.method == Method::GET;
            return match is_asked {
                true => Ok(of_json(StatusCode::OK, &info(&found))),
                false => Err(ended(found.status)),
            };
        }
        let mut body = Some(body.boxed());
        let asked = self.ask(fleet, tenant, &found.place, head, &mut body).await;
        let answer = match asked {
            Ok(answer) => answer,
            Err(why) => return Err(self.no_answer(fleet, tenant, &found, why).await),
        };
        // The worker ended it, and could not say so at the time.
        let status = answer.headers().get(STATUS).and_then(|status| status.to_str().ok());
        if let Some(status) = status.and_then(SessionStatus::of_name) {
            fleet.end_session(&tenant.name, &found.id, status, now()).await?;
        }
        Ok(passed(fleet, &tenant.name, open, found.place, answer))
    }

    /// Creates a session on one of the workers that offer a place.
    async fn forward_new(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        open: OpenStream,
        head: &Parts,
        body: Incoming,
    ) -> Answered<Answer> {
        let mut body = Some(body.boxed());
        for place in fleet.places(&tenant.name).await?.into_iter().take(TRIED) {
            match self.ask(fleet, tenant, &place, head, &mut body).await {
                Ok(answer) => return Ok(passed(fleet, &tenant.name, open, place, answer)),
                // It has not got the body either.
                Err(_) if body.is_some() => {}
                Err(_) => {
                    let detail = "the worker ended while it created the session: list the sessions before you create another one";
                    return Err(unavailable(detail));
                }
            }
        }
        Err(unavailable(
            "no worker of the fleet has a place for a session of this tenant: start workers with `--sessions`",
        ))
    }

    /// Lists the sessions of a tenant: what is recorded, and of those that live what their workers say.
    async fn list_in(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
    ) -> Answered<SessionList> {
        let mut found = fleet.sessions(&tenant.name, LISTED).await?;
        let mut live = BTreeMap::new();
        let mut places: Vec<SessionPlace> = found
            .iter()
            .filter(|session| session.status == SessionStatus::Active)
            .map(|session| session.place.clone())
            .collect();
        places.sort_unstable();
        places.dedup();
        let asked = futures::stream::iter(places).map(|place| async move {
            let listed = self.listed_by(fleet, tenant, &place).await;
            (place, listed)
        });
        let mut asked = std::pin::pin!(asked.buffer_unordered(ASKED));
        while let Some((place, listed)) = asked.next().await {
            match listed {
                Ok(sessions) => {
                    live.extend(sessions.into_iter().map(|info| (info.id.clone(), info)))
                }
                Err(why) => {
                    let at = |session: &&mut FleetSession| {
                        session.status == SessionStatus::Active && session.place == place
                    };
                    if self.has_ended(fleet, tenant, &place, &why) {
                        for session in found.iter_mut().filter(at) {
                            self.lose(fleet, tenant, session).await?;
                        }
                    }
                }
            }
        }
        let sessions = found.iter().map(|session| match live.remove(&session.id) {
            Some(live) if session.status == SessionStatus::Active => live,
            _ => info(session),
        });
        Ok(SessionList { sessions: sessions.collect() })
    }

    /// Returns the sessions of a tenant that a worker has.
    async fn listed_by(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        place: &SessionPlace,
    ) -> Result<Vec<SessionInfo>, NoAnswer> {
        let request = Request::builder().method(Method::GET).uri("/v1/sessions").body(());
        let (head, ()) = request.map_err(|_| NoAnswer::Unreachable)?.into_parts();
        let mut body = Some(Empty::new().map_err(|never| match never {}).boxed());
        let listed = async {
            let answer = self.ask(fleet, tenant, place, &head, &mut body).await?;
            let listed = Limited::new(answer.into_body(), LIST_BYTES).collect().await;
            listed.map_err(|_| NoAnswer::Broken)
        };
        let listed = tokio::time::timeout(LIST, listed).await.map_err(|_| NoAnswer::Unreachable)?;
        let list: SessionList =
            serde_json::from_slice(&listed?.to_bytes()).map_err(|_| NoAnswer::Broken)?;
        Ok(list.sessions)
    }

    /// Loses the sessions of workers that have ended, so that they no longer count.
    pub(in super::super) async fn lose_sessions(self: &Arc<Self>) {
        let Some(fleet) = &self.options.fleet else { return };
        for tenant in self.tenants() {
            if let Err(problem) = self.lose_sessions_of(fleet, &tenant).await {
                tracing::debug!(
                    tenant = tenant.name,
                    problem.detail,
                    "cannot look at the sessions"
                );
            }
        }
    }

    async fn lose_sessions_of(
        self: &Arc<Self>,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
    ) -> Answered<()> {
        for id in fleet.silent_sessions(&tenant.name).await? {
            let Some(mut session) = fleet.session(&tenant.name, &id).await? else { continue };
            if let Err(why) = self.listed_by(fleet, tenant, &session.place).await
                && self.has_ended(fleet, tenant, &session.place, &why)
            {
                self.lose(fleet, tenant, &mut session).await?;
            }
        }
        Ok(())
    }

    /// Says why there is no answer, and loses the session if its worker has ended.
    async fn no_answer(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        session: &FleetSession,
        why: NoAnswer,
    ) -> Problem {
        if self.has_ended(fleet, tenant, &session.place, &why) {
            return match self.lose(fleet, tenant, &mut session.clone()).await {
                Ok(()) => ended(SessionStatus::Lost),
                Err(problem) => problem,
            };
        }
        match why {
            NoAnswer::Refused(error) => error.into(),
            NoAnswer::Broken => unavailable(
                "the worker of the session stopped answering; the request may have had an effect",
            ),
            NoAnswer::Unreachable | NoAnswer::OtherProcess => {
                unavailable("the worker of the session does not answer; the request had no effect")
            }
        }
    }

    /// Checks whether the process of a worker that has not answered has ended.
    fn has_ended(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        place: &SessionPlace,
        why: &NoAnswer,
    ) -> bool {
        match why {
            NoAnswer::OtherProcess => true,
            NoAnswer::Unreachable => fleet.is_silent(&tenant.name, place),
            NoAnswer::Broken | NoAnswer::Refused(_) => false,
        }
    }

    async fn lose(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Tenant,
        session: &mut FleetSession,
    ) -> Answered<()> {
        let (id, worker, now) = (&session.id, &session.place.worker, now());
        tracing::warn!(tenant = tenant.name, session = id, worker, "the session is lost");
        fleet.end_session(&tenant.name, id, SessionStatus::Lost, now).await?;
        (session.status, session.ended) = (SessionStatus::Lost, Some(now));
        Ok(())
    }

    /// Sends a request to a worker. Takes the body once it is connected.
    async fn ask(
        &self,
        fleet: &Arc<dyn Fleet>,
        tenant: &Arc<Tenant>,
        place: &SessionPlace,
        head: &Parts,
        body: &mut Option<Body>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let (config, name) =
            fleet.connector(&tenant.name, &place.worker).map_err(NoAnswer::Refused)?;
        loop {
            let idle = self.workers.take(&place.address, &config);
            let is_new = idle.is_none();
            let mut sender = match idle {
                Some(sender) => sender,
                None => connect(place, config.clone(), name.clone()).await?,
            };
            let request = of_worker(&tenant.name, place, head, &name.to_str(), body.take())?;
            let sending = sender.try_send_request(request);
            let answer = tokio::select! {
                answer = tokio::time::timeout(self.options.bounds.stream, sending) => {
                    answer.map_err(|_| NoAnswer::Broken)?
                }
                () = silence(fleet, &tenant.name, place) => return Err(NoAnswer::Broken),
            };
            match answer {
                // It does not know this server yet, or not any more.
                Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                    return Err(NoAnswer::Unreachable);
                }
                Ok(answer) => {
                    let process = answer.headers().get(PROCESS).map(|value| value.as_bytes());
                    if process != Some(place.process.as_bytes()) {
                        return Err(NoAnswer::OtherProcess);
                    }
                    self.keep(place.address.clone(), config, sender);
                    return Ok(answer);
                }
                Err(mut error) => match error.take_message() {
                    // The worker had closed an idle connection.
                    Some(request) if !is_new => *body = Some(request.into_body()),
                    Some(request) => {
                        *body = Some(request.into_body());
                        return Err(NoAnswer::Unreachable);
                    }
                    None => return Err(NoAnswer::Broken),
                },
            }
        }
    }

    /// Keeps a connection for another request, once the answer to this one has been read.
    fn keep(&self, address: String, config: Arc<ClientConfig>, mut sender: Sender) {
        let (workers, within) = (self.workers.clone(), self.options.bounds.stream);
        tokio::spawn(async move {
            if let Ok(Ok(())) = tokio::time::timeout(within, sender.ready()).await {
                workers.put(Idle { address, config, sender, since: Instant::now() });
            }
        });
    }
}

impl Workers {
    fn take(&self, address: &str, config: &Arc<ClientConfig>) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() < IDLE.0 && !idle.sender.is_closed());
        let is_meant = |idle: &Idle| idle.address == address && Arc::ptr_eq(&idle.config, config);
        let at = idle.iter().rposition(is_meant)?;
        Some(idle.swap_remove(at).sender)
    }

    fn put(&self, new: Idle) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE.1 {
            idle.push(new);
        }
    }
}

/// Passes the answer of a worker on to the client, as it arrives.
fn passed(
    fleet: &Arc<dyn Fleet>,
    tenant: &str,
    open: OpenStream,
    place: SessionPlace,
    answer: Response<Incoming>,
) -> Answer {
    let (head, mut body) = answer.into_parts();
    let (to, parts) = channel(8);
    let (fleet, tenant) = (fleet.clone(), tenant.to_owned());
    tokio::spawn(async move {
        let mut silent = std::pin::pin!(silence(&fleet, &tenant, &place));
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = to.closed() => return,
                () = &mut silent => return,
            };
            // A body that ends early is shorter than its length, which the client notices.
            let Some(Ok(frame)) = frame else { return };
            let Ok(data) = frame.into_data() else { continue };
            if to.send(data).await.is_err() {
                return;
            }
        }
    });
    let mut passed = body::of_stream("application/octet-stream", parts, open);
    *passed.status_mut() = head.status;
    passed.headers_mut().clear();
    for name in RETURNED {
        if let Some(value) = head.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    passed
}

async fn connect(
    place: &SessionPlace,
    config: Arc<ClientConfig>,
    name: rustls::pki_types::ServerName<'static>,
) -> Result<Sender, NoAnswer> {
    let failed = |error: &dyn std::fmt::Display| {
        let (worker, address) = (&place.worker, &place.address);
        tracing::debug!(worker, address, %error, "cannot reach a worker");
        NoAnswer::Unreachable
    };
    let connecting = async {
        let stream = TcpStream::connect(&*place.address).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        let tls = TlsConnector::from(config).connect(name, stream).await;
        let tls = tls.map_err(|error| failed(&error))?;
        http1::handshake(TokioIo::new(tls)).await.map_err(|error| failed(&error))
    };
    let connected = tokio::time::timeout(CONNECT, connecting).await;
    let (sender, connection) = connected.map_err(|error| failed(&error))??;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a worker failed");
        }
    });
    Ok(sender)
}

/// The request that a worker gets: what it needs of the client's, and whose it is.
fn of_worker(
    tenant: &str,
    place: &SessionPlace,
    head: &Parts,
    name: &str,
    body: Option<Body>,
) -> Result<Request<Body>, NoAnswer> {
    let body = body.ok_or(NoAnswer::Broken)?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(head.method.clone())
        .uri(path)
        .header(HOST, name)
        .header(TENANT, tenant)
        .header(PROCESS, &*place.process);
    for name in SENT {
        for value in head.headers.get_all(&name) {
            request = request.header(&name, value);
        }
    }
    // A name that a worker wrote and that is no header.
    request.body(body).map_err(|_| NoAnswer::Unreachable)
}

/// Resolves when a process of a worker has fallen silent.
async fn silence(fleet: &Arc<dyn Fleet>, tenant: &str, place: &SessionPlace) {
    loop {
        tokio::time::sleep(CHECK).await;
        if fleet.is_silent(tenant, place) {
            return;
        }
    }
}

fn unavailable(detail: &str) -> Problem {
    Problem::new(ProblemCode::SessionUnavailable, detail).retry_after(2)
}

fn info(session: &FleetSession) -> SessionInfo {
    let FleetSession { status, skills, parent, created, ended, .. } = session.clone();
    SessionRecord { status, skills, parent, created, ended }.info(&session.id)
}
