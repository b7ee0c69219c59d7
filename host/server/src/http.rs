//! Serves MCP over streamable HTTP, and the run API: one listener for `/mcp`, `/v1`, `/healthz` and
//! `/metrics`. A second one, if there is one, serves the `sandboxd` protocol, which speaks HTTP/2 too.
//! `workers` is the listener of a worker, for the API servers of its fleet.
//!
//! A request is checked in this order: its Host and Origin, so that a web page cannot reach a
//! server on loopback through DNS rebinding; its token; the limit on requests; its body, which must
//! arrive in time. Only then does the protocol see it. Idle connections are closed when new ones
//! need room.

mod connections;
mod peer;
mod sessions;
mod stall;
mod tls;
mod workers;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Mcp;
use super::api::Api;
use super::handler::Client;
use super::session::Transport;
use connections::{Connection, Connections};
use sessions::Sessions;
use stall::Stall;

pub use tls::{Tls, TlsFiles};
pub use workers::serve_sessions;

/// The addresses, clients and limits of a server.
#[derive(Clone)]
pub struct HttpOptions {
    /// The token that clients must send (RFC 6750); `None` if none is needed.
    pub token: Option<String>,
    /// Additional Host values to accept, as `name` or `name:port`. Loopback names are always
    /// accepted.
    pub hosts: Vec<String>,
    /// Additional origins of web pages to accept, as `https://name` or `https://name:port`.
    /// Loopback origins are always accepted.
    pub origins: Vec<String>,
    /// The most sessions, and the most concurrent requests without a session.
    pub sessions: usize,
    /// How long a session may be idle.
    pub idle: Duration,
    /// The largest request body, in bytes.
    pub body: usize,
    /// The most connections.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head_within: Duration,
    /// How long a client may take to send the body.
    pub body_within: Duration,
    /// How long a client may take to read anything of an answer.
    pub read_within: Duration,
    /// TLS; without it, connections are in the clear.
    pub tls: Option<Arc<Tls>>,
}

impl Default for HttpOptions {
    /// 64 sessions, idle for at most 5 minutes; bodies of up to 4 MiB; 256 connections; 10 s for a
    /// head, 30 s for a body, and 60 s without reading; no token.
    fn default() -> HttpOptions {
        HttpOptions {
            token: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            sessions: 64,
            idle: Duration::from_secs(300),
            body: 4 << 20,
            connections: 256,
            head_within: Duration::from_secs(10),
            body_within: Duration::from_secs(30),
            read_within: Duration::from_secs(60),
            tls: None,
        }
    }
}

/// How long runs may take to end when the server stops, and how long their answers may take after
/// that.
const RUNS_END: Duration = Duration::from_secs(10);
const ANSWERS_END: Duration = Duration::from_secs(2);

/// The most bytes of a head, and of what is read of a body at once.
const HEAD: usize = 64 << 10;

type Answer = Response<BoxBody<Bytes, Infallible>>;
type SandboxAnswer = Response<tonic::body::Body>;

/// The most calls at once of a connection over HTTP/2.
const CALLS: u32 = 64;
/// How often a connection over HTTP/2 is asked whether it is alive, and how long its answer may take.
const ALIVE: Duration = Duration::from_secs(20);

/// Where clients connect.
pub struct Listeners {
    /// MCP and the run API.
    pub main: TcpListener,
    /// The `sandboxd` protocol, which needs the run API.
    pub sandboxd: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(main: TcpListener) -> Listeners {
        Listeners { main, sandboxd: None }
    }
}

impl Listeners {
    /// Accepts the next connection at any of them.
    async fn accept(&self) -> std::io::Result<(Door, TcpStream, SocketAddr)> {
        let sandboxd = async {
            match &self.sandboxd {
                Some(listener) => accept(listener).await,
                None => std::future::pending().await,
            }
        };
        let (door, accepted) = tokio::select! {
            accepted = accept(&self.main) => (Door::Main, accepted),
            accepted = sandboxd => (Door::Sandboxd, accepted),
        };
        accepted.map(|(stream, peer)| (door, stream, peer))
    }
}

/// Which listener a client has connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Main,
    Sandboxd,
}

/// Checks requests before the protocol sees them.
struct Front {
    mcp: Mcp,
    api: Option<Api>,
    options: HttpOptions,
    token: Option<[u8; 32]>,
    /// Limits requests without a session.
    alone: Arc<Semaphore>,
    protocol: StreamableHttpService<Client, Sessions>,
}

/// Serves until `stop` resolves. Then accepts nothing new, waits for runs to end, and closes. If
/// `stop_now` resolves meanwhile, waits no longer.
pub async fn serve(
    mcp: Mcp,
    api: Option<Api>,
    listeners: impl Into<Listeners>,
    options: HttpOptions,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) {
    let (closing, listeners) = (CancellationToken::new(), listeners.into());
    let (head_within, read_within) = (options.head_within, options.read_within);
    let tls = options.tls.clone();
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(options.idle);
    let sessions = Arc::new(Sessions::new(sessions, options.sessions));
    // The front has already checked Host and Origin, for all paths.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(options.body)
        .with_cancellation_token(closing.clone());
    let client = { move |mcp: &Mcp| mcp.client(Transport::Http) };
    let of = mcp.clone();
    let protocol = StreamableHttpService::new(move || Ok(client(&of)), sessions, config);
    let token = options.token.as_deref().map(digest);
    let connections = Connections::new(options.connections);
    if let Some(api) = &api {
        api.share_connections(options.connections);
    }
    let alone = Arc::new(Semaphore::new(options.sessions));
    let front = Arc::new(Front { mcp, api, options, token, alone, protocol });
    if let Some(api) = &front.api {
        api.start();
    }
    let graceful = GracefulShutdown::new();
    let shared_user = Arc::new(peer::SharedUser::default());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = async {
                let (door, stream, peer) = listeners.accept().await?;
                if let Ok(own) = stream.local_addr() {
                    let shared_user = shared_user.clone();
                    tokio::task::spawn_blocking(move || shared_user.check(peer, own));
                }
                // If all connections are busy, this one waits here, and further ones in the
                // kernel's queue.
                Ok::<_, std::io::Error>((door, stream, connections.admit().await))
            } => accepted,
        };
        let (door, stream, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The process may be out of descriptors; some will be released.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let stream = Stall::new(stream, read_within);
        let (front, watcher) = (front.clone(), graceful.watcher());
        let tls = tls.as_ref().map(|tls| tls.acceptor(door));
        tokio::spawn(async move {
            let attended = async {
                match tls {
                    None => front.attend(door, stream, &place, watcher).await,
                    Some(tls) => {
                        match tokio::time::timeout(head_within, tls.accept(stream)).await {
                            Ok(Ok(stream)) => front.attend(door, stream, &place, watcher).await,
                            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                            Err(_) => tracing::debug!("a TLS handshake took too long"),
                        }
                    }
                }
            };
            tokio::select! {
                () = attended => {}
                () = place.evicted() => tracing::debug!("closed an idle connection to make room"),
            }
        });
    }
    drop(listeners);
    tracing::info!("stopping: waiting for runs to end");
    let close = async {
        let api = async {
            if let Some(api) = &front.api {
                api.close().await;
            }
        };
        let agents = async {
            if let Some(api) = front.mcp.agent_places() {
                api.close().await;
            }
        };
        futures::join!(api, agents, front.mcp.0.service.close());
    };
    let closed = tokio::select! {
        // Closed first, so that no further run begins.
        biased;
        closed = tokio::time::timeout(RUNS_END, close) => closed.is_ok(),
        () = stop_now => false,
    };
    if !closed {
        tracing::warn!("interrupting the remaining runs");
    }
    // Gives the answers of the last runs time to be sent.
    tokio::time::sleep(Duration::from_millis(100)).await;
    closing.cancel();
    if tokio::time::timeout(ANSWERS_END, graceful.shutdown()).await.is_err() {
        tracing::warn!("closing the remaining connections");
    }
}

/// Adds metrics to others, before the mark of their end.
fn with_more(metrics: String, more: &str) -> String {
    const END: &str = "# EOF\n";
    match metrics.strip_suffix(END) {
        Some(all) => format!("{all}{more}{END}"),
        None => metrics + more,
    }
}

/// Accepts a connection whose answers leave at once. Otherwise the kernel holds the second write of
/// an answer back until the client acknowledges the first, which takes clients 40 ms.
async fn accept(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer))
}

impl Front {
    /// Serves a connection until it ends or the server stops.
    async fn attend(
        self: Arc<Front>,
        door: Door,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: &Arc<Connection>,
        watcher: Watcher,
    ) {
        let (stream, place) = (TokioIo::new(stream), place.clone());
        let head_within = self.options.head_within;
        let ended = match door {
            Door::Main => {
                let service = service_fn(move |request| {
                    let (front, in_flight) = (self.clone(), place.request());
                    async move { Ok::<_, Infallible>(held(front.answer(request).await, in_flight)) }
                });
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new());
                builder.header_read_timeout(head_within).max_buf_size(HEAD);
                watcher
                    .watch(builder.serve_connection(stream, service))
                    .await
                    .map_err(|error| error.to_string())
            }
            Door::Sandboxd => {
                let service = service_fn(move |request| {
                    let (front, in_flight) = (self.clone(), place.request());
                    async move {
                        let answer = front.answer_sandboxd(request).await;
                        Ok::<_, Infallible>(held_too(answer, in_flight))
                    }
                });
                let mut builder = auto::Builder::new(TokioExecutor::new());
                let mut one = builder.http1();
                one.timer(TokioTimer::new()).header_read_timeout(head_within).max_buf_size(HEAD);
                let mut two = builder.http2();
                two.timer(TokioTimer::new())
                    .max_concurrent_streams(CALLS)
                    .max_header_list_size(16 << 10)
                    .keep_alive_interval(ALIVE)
                    .keep_alive_timeout(ALIVE);
                watcher
                    .watch(builder.serve_connection(stream, service))
                    .await
                    .map_err(|error| error.to_string())
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection failed");
        }
    }

    async fn answer_sandboxd(&self, request: Request<Incoming>) -> SandboxAnswer {
        // A probe asks by the address of this machine, and learns nothing but that it is alive.
        let is_probe = request.method() == Method::GET && request.uri().path() == "/v1/health";
        let meant = if is_probe { Ok(()) } else { self.is_meant(&request) };
        match (meant, &self.api) {
            (Ok(()), Some(api)) => api.answer_sandboxd(request).await,
            (Err(why), _) => {
                tracing::warn!(why, "refused a request");
                said(StatusCode::FORBIDDEN, why).map(tonic::body::Body::new)
            }
            (Ok(()), None) => {
                said(StatusCode::NOT_FOUND, "the run API is off\n").map(tonic::body::Body::new)
            }
        }
    }

    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        if let Err(why) = self.is_meant(&request) {
            tracing::warn!(why, "refused a request");
            return said(StatusCode::FORBIDDEN, why);
        }
        let path = request.uri().path();
        if path == "/healthz" {
            return said(StatusCode::OK, "ok\n");
        }
        if let Some(api) = self.api.as_ref().filter(|_| path.starts_with("/v1/")) {
            return api.answer(request).await;
        }
        if !self.is_known(request.headers()) {
            let mut answer = said(
                StatusCode::UNAUTHORIZED,
                "bearer token required: the server printed it when it started\n",
            );
            answer.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            return answer;
        }
        // Not needed any more, and what is removed cannot end up in a log.
        request.headers_mut().remove(AUTHORIZATION);
        let path = request.uri().path();
        match path {
            "/mcp" | "/" => self.protocol(request).await,
            "/metrics" if request.method() == Method::GET => {
                let fleet = self.api.as_ref().map(Api::fleet_metrics).unwrap_or_default();
                let mut answer = said(StatusCode::OK, &with_more(self.mcp.metrics(), &fleet));
                answer.headers_mut().insert(
                    CONTENT_TYPE,
                    http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
                );
                answer
            }
            _ => said(
                StatusCode::NOT_FOUND,
                "not found: the paths are /mcp, /v1, /metrics and /healthz\n",
            ),
        }
    }

    /// Checks whether a request is meant for this server, rather than sent by a web page through
    /// DNS rebinding.
    fn is_meant(&self, request: &Request<Incoming>) -> Result<(), &'static str> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            // In HTTP/2 it is the authority.
            (None, None) if request.version() == Version::HTTP_2 => "",
            _ => return Err("exactly one Host header is required\n"),
        };
        // The request's own authority, if it has one, takes precedence (RFC 9112, 3.2.2).
        let host = request.uri().authority().map_or(host, |authority| authority.as_str());
        if !is_loopback(host) && !self.options.hosts.iter().any(|known| matches_host(known, host)) {
            return Err("this Host is not allowed\n");
        }
        for origin in request.headers().get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let own = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"))
                .is_some_and(is_loopback);
            if !own && !self.options.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
            {
                return Err("this Origin is not allowed\n");
            }
        }
        Ok(())
    }

    /// Checks the client's token. Compares all bytes of the digests, so that the time taken reveals
    /// nothing.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '));
        let shown = shown
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, token)| token.trim());
        digest(shown).iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// Passes a request to the protocol, if there is room for it and its body arrives in time.
    async fn protocol(&self, request: Request<Incoming>) -> Answer {
        let has_session = request.headers().contains_key("mcp-session-id");
        let alone = match request.method() {
            &Method::POST if !has_session => match self.alone.clone().try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => {
                    return said(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "too many requests without a session; try again later\n",
                    );
                }
            },
            _ => None,
        };
        let (head, body) = request.into_parts();
        let body = match tokio::time::timeout(
            self.options.body_within,
            Limited::new(body, self.options.body).collect(),
        )
        .await
        {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return said(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
            }
            Ok(Err(_)) => return said(StatusCode::BAD_REQUEST, "the body ended early\n"),
            Err(_) => {
                return said(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time\n");
            }
        };
        // Otherwise the protocol's library answers 415 to a body that is not JSON.
        if head.method == Method::POST
            && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&body)
        {
            return said(
                StatusCode::BAD_REQUEST,
                &format!("the body is not valid JSON: {error}\n"),
            );
        }
        let request = Request::from_parts(head, Full::new(body));
        let (answer, refused) = sessions::watched(self.protocol.handle(request)).await;
        if refused {
            return said(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!(
                    "too many open sessions (limit {}); try again later\n",
                    self.options.sessions
                ),
            );
        }
        held(answer, alone)
    }
}

/// Keeps a value alive until the body of the answer has been sent, or is dropped.
fn held(mut answer: Answer, what: impl Send + Sync + 'static) -> Answer {
    // The wrapper hides the length of the body.
    if let Some(length) = answer.body().size_hint().exact() {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    answer.map(|body| {
        let keep = move |frame| {
            let _ = &what;
            frame
        };
        body.map_frame(keep).boxed()
    })
}

/// The same for an answer of the `sandboxd` protocol.
fn held_too(answer: SandboxAnswer, what: impl Send + 'static) -> SandboxAnswer {
    // An answer without a body has to stay one: its status is in its head.
    if answer.body().is_end_stream() {
        return answer;
    }
    answer.map(|body| {
        let keep = move |frame| {
            let _ = &what;
            frame
        };
        tonic::body::Body::new(body.map_frame(keep))
    })
}

/// Checks whether a Host is a loopback name or address, with any port.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.contains(':') =>
        {
            name
        }
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Compares a Host: `name` matches any port, `name:port` only that one.
fn matches_host(known: &str, host: &str) -> bool {
    known.eq_ignore_ascii_case(host)
        || (!known.contains(':')
            && host.rsplit_once(':').is_some_and(|(name, _)| known.eq_ignore_ascii_case(name)))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn said(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_are_sent_immediately() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::join!(client, accept(&listener));
        assert!(accepted.unwrap().0.nodelay().unwrap());
    }

    #[test]
    fn only_loopback_names_are_loopback() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.0.0.1:8765",
            "127.9.9.9:1",
            "[::1]:80",
            "[::1]",
            "::1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "example.com",
            "localhost.example.com:80",
            "127.0.0.1.example.com",
            "10.0.0.1:80",
            "localhost:x",
            "[::2]:1",
            "0.0.0.0:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn allowed_hosts_match_with_or_without_port() {
        assert!(
            matches_host("box.example", "box.example:8765")
                && matches_host("Box.example", "box.example")
        );
        assert!(
            matches_host("box.example:1", "box.example:1")
                && !matches_host("box.example:1", "box.example:2")
        );
        assert!(
            !matches_host("box.example", "evil-box.example:1")
                && !matches_host("box.example", "evil.example")
        );
    }
}
