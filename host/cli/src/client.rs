//! A client of the run API. What a server sends is bounded before it is parsed, and nothing of it is a
//! path or a command here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_server::api::problem::{Problem, ProblemCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::error::{CliError, Exit};
use crate::event_loop;

/// The environment variable that has the token.
pub(crate) const TOKEN_VARIABLE: &str = "SKILLHOST_TOKEN";
/// The environment variable that names the server.
const SERVER_VARIABLE: &str = "SKILLHOST_SERVER";
/// The most bytes of an answer in JSON.
const ANSWER: usize = 64 << 20;
/// How long a connection may take to open, and an answer to begin.
const CONNECT: Duration = Duration::from_secs(10);
const HEAD: Duration = Duration::from_secs(120);

/// Which server, and with which token.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ClientArgs {
    /// The server [default: $SKILLHOST_SERVER, else http://127.0.0.1:8765]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Read the token from this file [default: $SKILLHOST_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the certificates of these authorities, in PEM, instead of the built-in ones
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Present this certificate to the server, in PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
}

/// A connection to a server.
pub(crate) struct Client {
    pub(crate) runtime: Runtime,
    host: String,
    port: u16,
    tls: Option<tokio_rustls::TlsConnector>,
    token: Option<String>,
}

/// Why a request has no result.
pub(crate) enum ClientError {
    /// The server says what is wrong.
    Problem(Box<Problem>),
    /// There is no usable answer.
    Other(CliError),
}

impl From<CliError> for ClientError {
    fn from(error: CliError) -> ClientError {
        ClientError::Other(error)
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> CliError {
        match error {
            ClientError::Other(error) => error,
            ClientError::Problem(problem) => {
                let Problem { title, detail, code, .. } = *problem;
                let exit = match code {
                    ProblemCode::Unauthorized
                    | ProblemCode::ScopeMissing
                    | ProblemCode::FileDenied => Exit::Denied,
                    ProblemCode::NotFound
                    | ProblemCode::InvalidRequest
                    | ProblemCode::KeyConflict
                    | ProblemCode::NotEnded
                    | ProblemCode::NoSkill
                    | ProblemCode::SessionEnded
                    | ProblemCode::SessionBusy
                    | ProblemCode::FileConflict
                    | ProblemCode::ProgramEnded => Exit::Usage,
                    ProblemCode::SkillInvalid => Exit::Invalid,
                    _ => Exit::Io,
                };
                let message = format!("the server refused: {}", printable(&title));
                CliError {
                    details: Some(Box::new(serde_json::json!({ "code": code.name() }))),
                    ..CliError::new(exit, message).fix(printable(&detail))
                }
            }
        }
    }
}

impl ClientArgs {
    /// Prepares a client. Does not connect yet.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let url = self.server.clone().or_else(|| variable(SERVER_VARIABLE));
        let url = url.unwrap_or_else(|| "http://127.0.0.1:8765".to_owned());
        let wrong = |why: &str| {
            CliError::usage(format!("--server {}: {why}", quoted(&url)))
                .fix("name it as http://HOST:PORT or https://HOST")
        };
        let uri: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong("not an http or https URL")),
        };
        let host = uri.host().ok_or_else(|| wrong("it has no host"))?.to_owned();
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it must have no path"));
        }
        let token = match &self.token_file {
            Some(file) => Some(read_token(file)?),
            None => variable(TOKEN_VARIABLE),
        };
        let bare = host.trim_matches(['[', ']']);
        let is_local = bare == "localhost"
            || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if token.is_some() && !is_secure && !is_local {
            return Err(wrong("a token is sent over https only, except to this machine"));
        }
        let tls = if is_secure { Some(self.connector()?) } else { None };
        let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
        Ok(Client { runtime: event_loop::one_thread()?, host, port, tls, token })
    }
}

impl Client {
    /// Sends a request with a JSON body or none, and parses the JSON of the answer.
    pub(crate) fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let bytes = match body {
            Some(body) => serde_json::to_vec(body)
                .map_err(|error| CliError::io("write the request", error))?,
            None => Vec::new(),
        };
        let kind = body.map(|_| "application/json");
        let answer = self.bytes(method, path, headers, kind, bytes.into(), ANSWER)?;
        Ok(serde_json::from_slice(&answer).map_err(|error| unreadable(&error))?)
    }

    /// Sends a request, and returns the body of a successful answer.
    pub(crate) fn bytes(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        kind: Option<&str>,
        body: Bytes,
        most: usize,
    ) -> Result<Bytes, ClientError> {
        self.runtime.block_on(async {
            let answer = self.send(method, path, headers, kind, body).await?;
            let status = answer.status();
            let read = Limited::new(answer.into_body(), most).collect().await;
            let bytes = read.map_err(|error| unreadable(&*error))?.to_bytes();
            if status.is_success() { Ok(bytes) } else { Err(refusal(status, &bytes)) }
        })
    }

    /// Sends a request, and returns the head of the answer.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        kind: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let cannot = |error: &dyn std::fmt::Display| {
            CliError::io(format_args!("reach the server {}:{}", self.host, self.port), error)
                .fix("start one with `skillhost serve`, and name it with --server URL")
        };
        let connected = tokio::time::timeout(CONNECT, self.connect()).await;
        let stream = connected
            .map_err(|_| cannot(&"it does not answer"))?
            .map_err(|error| cannot(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| cannot(&error))?;
        tokio::spawn(async move {
            // The request reports what goes wrong.
            connection.await.ok();
        });
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("{}:{}", self.host, self.port));
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        if let Some(token) = &self.token {
            let mut value = http::HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| CliError::usage("the token is not visible ASCII"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(|error| cannot(&error))?;
        let answer = tokio::time::timeout(HEAD, sender.send_request(request)).await;
        Ok(answer.map_err(|_| cannot(&"it does not answer"))?.map_err(|error| cannot(&error))?)
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let host = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((host, self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Reads what is wrong from an answer.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<Problem>(body) {
        Ok(problem) => ClientError::Problem(Box::new(problem)),
        Err(_) => {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
            let message = format!("the server answered {status}: {}", printable(text.trim()));
            ClientError::Other(CliError::new(Exit::Io, message))
        }
    }
}

fn unreadable(error: &dyn std::fmt::Display) -> CliError {
    CliError::io("read the answer of the server", error)
        .fix("check that the server is a `skillhost serve` of this version")
}

fn read_token(file: &Path) -> Result<String, CliError> {
    #[expect(clippy::disallowed_methods, reason = "the file is named by the operator")]
    let text = std::fs::read_to_string(file).map_err(|error| {
        CliError::usage(format!("cannot read the token {}: {error}", file.display()))
    })?;
    Ok(text.trim().to_owned())
}

impl ClientArgs {
    fn connector(&self) -> Result<tokio_rustls::TlsConnector, CliError> {
        let mut roots = rustls::RootCertStore::empty();
        match &self.ca {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(file) => {
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|error| wrong(file, &error))?;
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| CliError::io("use TLS", error))?
            .with_root_certificates(roots);
        let config = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => {
                let own = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
                config
                    .with_client_auth_cert(certificates(certificate)?, own)
                    .map_err(|error| wrong(certificate, &error))?
            }
            _ => config.with_no_client_auth(),
        };
        Ok(Arc::new(config).into())
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CliError> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    read().map_err(|error: rustls::pki_types::pem::Error| wrong(file, &error))
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("cannot use {}: {error}", quoted(&file.to_string_lossy())))
}
