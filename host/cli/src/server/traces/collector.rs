//! Sends batches of spans over HTTP: one connection for each, on the thread that collects them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use http::header::HOST;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The collector that spans are sent to.
#[derive(Debug)]
pub(super) struct Collector {
    /// Its own event loop: spans do not wait for guests that compute, and the last ones are sent
    /// when the server's event loop has ended.
    runtime: tokio::runtime::Runtime,
    tls: Option<Arc<ClientConfig>>,
    timeout: Duration,
    /// Whether the log says that the collector cannot be reached.
    is_lost: AtomicBool,
}

/// The most bytes of a response, which says how many spans were refused, or nothing.
const RESPONSE_MAX: usize = 64 << 10;

impl Collector {
    /// A collector at a URL, whose certificate the built-in authorities or those in a file must have
    /// issued. Does not connect yet.
    ///
    /// # Errors
    /// Why no spans can be sent there.
    pub(super) fn new(
        url: &str,
        authorities: Option<&str>,
        timeout: Duration,
    ) -> Result<Collector, String> {
        let uri: Uri = url.parse().unwrap_or_default();
        let tls = match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => None,
            (Some("https"), Some(_)) => Some(tls(authorities.map(Path::new))?),
            _ => {
                return Err(
                    "the URL of the collector must start with http:// or https://".to_owned()
                );
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start the event loop: {error}"))?;
        Ok(Collector { runtime, tls, timeout, is_lost: AtomicBool::new(false) })
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // This thread does nothing else, so it may block.
        let sent = self.runtime.block_on(async {
            let sending = tokio::time::timeout(self.timeout, send(self.tls.clone(), request));
            sending.await.unwrap_or_else(|_| {
                Err(format!("no response within {} ms", self.timeout.as_millis()).into())
            })
        });
        let problem = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let was_lost = self.is_lost.swap(problem.is_some(), Relaxed);
        match (problem, was_lost) {
            (Some(error), false) => {
                tracing::warn!(%error, "cannot reach the collector; spans are dropped until it responds")
            }
            (None, true) => tracing::warn!("the collector responds again"),
            (Some(_), true) | (None, false) => {}
        }
        sent
    }
}

async fn send(
    tls: Option<Arc<ClientConfig>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri().clone();
    let host =
        uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    match tls {
        None => exchange(stream, request).await,
        Some(config) => {
            exchange(
                TlsConnector::from(config).connect(ServerName::try_from(host)?, stream).await?,
                request,
            )
            .await
        }
    }
}

async fn exchange<S>(stream: S, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    // Without user name and password.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).parse()?;
    head.headers.insert(HOST, host);
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let (head, body) =
            sender.send_request(Request::from_parts(head, Full::new(body))).await?.into_parts();
        Ok(Response::from_parts(head, Limited::new(body, RESPONSE_MAX).collect().await?.to_bytes()))
    };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        // If the connection ends first, the response has the error.
        _ = connection => answer.await,
    }
}

fn tls(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(file) = authorities {
        let failed =
            |error: String| format!("OTEL_EXPORTER_OTLP_CERTIFICATE={}: {error}", file.display());
        for certificate in
            CertificateDer::pem_file_iter(file).map_err(|error| failed(error.to_string()))?
        {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
    }
    let config =
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}
