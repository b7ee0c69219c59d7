//! Errors that end a transfer, with curl's exit codes.

use bashkit::Error;

use crate::bindings::wasi::http::types::ErrorCode;

/// An exit code and its message.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: i32,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// Converts the host's error for a request to `host`.
    pub(super) fn from_http(code: ErrorCode, host: &str, port: u16) -> Failure {
        let connect = |why: &str| format!("Failed to connect to {host} port {port}: {why}");
        let (code, message) = match code {
            ErrorCode::HttpRequestDenied => {
                let why = format!(
                    "denied by the sandbox: no `WebFetch` entry that is granted matches; `WebFetch(domain:{host})` would"
                );
                (7, connect(&why))
            }
            ErrorCode::DestinationIpProhibited => {
                (7, connect("denied by the sandbox: the address is private"))
            }
            ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => {
                (6, format!("Could not resolve host: {host}"))
            }
            ErrorCode::ConnectionRefused => (7, connect("Connection refused")),
            ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
                (7, connect("No route to host"))
            }
            ErrorCode::ConnectionLimitReached => {
                (7, connect("the sandbox's limit of connections is reached"))
            }
            ErrorCode::ConnectionTimeout => {
                (28, format!("Connection to {host} port {port} timed out"))
            }
            ErrorCode::ConnectionReadTimeout
            | ErrorCode::ConnectionWriteTimeout
            | ErrorCode::HttpResponseTimeout => (28, "Operation timed out".into()),
            ErrorCode::ConnectionTerminated => (52, "Empty reply from server".into()),
            ErrorCode::HttpResponseIncomplete => {
                (18, "transfer closed with outstanding read data remaining".into())
            }
            ErrorCode::TlsCertificateError => {
                (60, "SSL certificate problem: the certificate is not valid for this host".into())
            }
            ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => {
                (35, "TLS connect error".into())
            }
            ErrorCode::HttpRequestBodySize(_) => {
                (55, "the request's body is over the sandbox's limit".into())
            }
            ErrorCode::HttpResponseBodySize(_) => {
                (63, "the response's body is over the sandbox's limit".into())
            }
            ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestUriTooLong => {
                (3, "URL rejected: Malformed input to a URL function".into())
            }
            ErrorCode::InternalError(Some(reason)) => (7, connect(&reason)),
            ErrorCode::HttpProtocolError => {
                (56, "Recv failure: the server does not keep to HTTP, or cut the connection".into())
            }
            other => (56, format!("Recv failure: {other:?}")),
        };
        Failure::new(code, message)
    }
}

/// Returns libc's text for an error of the file system.
pub(super) fn reason(error: &Error) -> String {
    match error {
        Error::Io(io) => io.to_string(),
        other => other.to_string(),
    }
}
