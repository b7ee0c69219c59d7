//! The server over streamable HTTP: one listener for the protocol (`/mcp`), `/healthz` and `/metrics`.
//!
//! A request is looked at in this order: its Host and Origin, so that no web page reaches a server on loopback by a name of its own; its
//! token; the room that there is. Only then does the protocol see it.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Mcp;
use super::handler::Client;
use super::session::Transport;

/// How the server is reached, and by whom.
#[derive(Clone)]
pub struct HttpOptions {
    /// What a client has to show (RFC 6750); `None`: nothing.
    pub token: Option<String>,
    /// Names that requests may give as their Host, beside those of loopback: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Origins of web pages that may ask, beside those of loopback: `https://name` or `https://name:port`.
    pub origins: Vec<String>,
    /// Sessions at once.
    pub sessions: usize,
    /// A session that is silent for that long is over.
    pub idle: Duration,
    /// Bytes of a request's body.
    pub body: usize,
    /// Connections at once.
    pub connections: usize,
}

impl Default for HttpOptions {
    /// 64 sessions of at most 5 minutes of silence, bodies of 4 MiB, 256 connections; no token.
    fn default() -> HttpOptions {
        let idle = Duration::from_secs(300);
        HttpOptions { token: None, hosts: Vec::new(), origins: Vec::new(), sessions: 64, idle, body: 4 << 20, connections: 256 }
    }
}

/// How long a client may take to send a request's head.
const HEAD: Duration = Duration::from_secs(10);
/// How long those that run may take to end when the server is stopped, and how long their answers may take then.
const RUNS_END: Duration = Duration::from_secs(10);
const ANSWERS_END: Duration = Duration::from_secs(2);

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A listener's front: what looks at requests before the protocol does.
struct Front {
    mcp: Mcp,
    options: HttpOptions,
    token: Option<[u8; 32]>,
    sessions: Arc<LocalSessionManager>,
    protocol: StreamableHttpService<Client, LocalSessionManager>,
}

/// Serves until `stop` resolves; then takes nothing new, lets what runs end, and closes.
pub async fn serve(mcp: Mcp, listener: TcpListener, options: HttpOptions, stop: impl Future<Output = ()>) {
    let closing = CancellationToken::new();
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(options.idle);
    let sessions = Arc::new(sessions);
    // The front has looked at Host and Origin already, for all paths.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(options.body)
        .with_cancellation_token(closing.clone());
    let client = { move |mcp: &Mcp| mcp.client(Transport::Http) };
    let of = mcp.clone();
    let protocol = StreamableHttpService::new(move || Ok(client(&of)), sessions.clone(), config);
    let token = options.token.as_deref().map(digest);
    let room = Arc::new(Semaphore::new(options.connections));
    let front = Arc::new(Front { mcp, options, token, sessions, protocol });
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = async {
                // Without room for it a connection waits in the kernel's queue.
                let place = room.clone().acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
        };
        let (Ok(place), accepted) = accepted else { break };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, for instance: others are given back.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let front = front.clone();
        let service = service_fn(move |request| {
            let front = front.clone();
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        let connection =
            http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(HEAD).serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended by a fault");
            }
            drop(place);
        });
    }
    drop(listener);
    tracing::info!("stopping: what runs may end");
    if tokio::time::timeout(RUNS_END, front.mcp.0.service.close()).await.is_err() {
        tracing::warn!("what still runs is interrupted");
    }
    // The answers of what has just ended are on their way.
    tokio::time::sleep(Duration::from_millis(100)).await;
    closing.cancel();
    if tokio::time::timeout(ANSWERS_END, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections are cut");
    }
}

impl Front {
    async fn answer(&self, mut request: Request<Incoming>) -> Answer {
        if let Err(why) = self.is_meant(&request) {
            tracing::warn!(why, "a request was refused");
            return said(StatusCode::FORBIDDEN, why);
        }
        let path = request.uri().path();
        if path == "/healthz" {
            return said(StatusCode::OK, "ok\n");
        }
        if !self.is_known(request.headers()) {
            let mut answer = said(StatusCode::UNAUTHORIZED, "a bearer token is needed: the server printed it when it started\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, http::HeaderValue::from_static("Bearer"));
            return answer;
        }
        // Nobody needs it any more, and what is not there is in no log.
        request.headers_mut().remove(AUTHORIZATION);
        let path = request.uri().path();
        match path {
            "/mcp" | "/" if self.is_full(request.headers(), request.method()).await => {
                said(StatusCode::SERVICE_UNAVAILABLE, "as many sessions are open as may; try again later\n")
            }
            "/mcp" | "/" => self.protocol.handle(request).await,
            "/metrics" if request.method() == Method::GET => {
                let mut answer = said(StatusCode::OK, &self.mcp.metrics());
                answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
                answer
            }
            _ => said(StatusCode::NOT_FOUND, "there are /mcp, /metrics and /healthz\n"),
        }
    }

    /// Whether a request is meant for this server, and not sent here by a web page that gave its name another address.
    fn is_meant(&self, request: &Request<Incoming>) -> Result<(), &'static str> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => return Err("one Host is needed\n"),
        };
        // A request's own authority, where it has one, is what counts (RFC 9112, 3.2.2).
        let host = request.uri().authority().map_or(host, |authority| authority.as_str());
        if !is_loopback(host) && !self.options.hosts.iter().any(|known| matches_host(known, host)) {
            return Err("this Host is not served here\n");
        }
        for origin in request.headers().get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(is_loopback);
            if !own && !self.options.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
                return Err("this Origin is not served here\n");
            }
        }
        Ok(())
    }

    /// Whether a client has shown the token. What is compared are digests, all of their bytes: how long it takes tells nothing.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
        let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map_or("", |(_, token)| token.trim());
        digest(shown).iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// Whether a request would open a session, and there are as many as may be.
    async fn is_full(&self, headers: &HeaderMap, method: &Method) -> bool {
        let opens = method == Method::POST && !headers.contains_key("mcp-session-id");
        let alone = headers.get("mcp-protocol-version").is_some_and(|version| version.as_bytes() >= b"2026-07-28".as_slice());
        opens && !alone && self.sessions.sessions.read().await.len() >= self.options.sessions
    }
}

/// Whether a Host is one of loopback, with any port.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.contains(':') => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `name` is that name with any port, `name:port` with that one.
fn matches_host(known: &str, host: &str) -> bool {
    known.eq_ignore_ascii_case(host)
        || (!known.contains(':') && host.rsplit_once(':').is_some_and(|(name, _)| known.eq_ignore_ascii_case(name)))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn said(status: StatusCode, text: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_loopback_are_loopback() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8765", "127.9.9.9:1", "[::1]:80", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "example.com", "localhost.example.com:80", "127.0.0.1.example.com", "10.0.0.1:80", "localhost:x", "[::2]:1", "0.0.0.0:80"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_host_is_named_with_or_without_its_port() {
        assert!(matches_host("box.example", "box.example:8765") && matches_host("Box.example", "box.example"));
        assert!(matches_host("box.example:1", "box.example:1") && !matches_host("box.example:1", "box.example:2"));
        assert!(!matches_host("box.example", "evil-box.example:1") && !matches_host("box.example", "evil.example"));
    }
}
