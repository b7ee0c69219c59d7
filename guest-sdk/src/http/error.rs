//! Errors of requests.

use std::fmt;

use crate::bindings::http::wasi::http::types::ErrorCode;

/// The reason why a request or the reading of its response failed. The message begins with the
/// method and the URL.
///
/// ```no_run
/// use skillhost_guest::http::{Error, get};
///
/// # async fn example() {
/// match get("https://example.com").await {
///     Err(Error::Denied(message)) => skillhost_guest::eprintln!("skipped: {message}"),
///     other => { /* ... */ }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The URL, a header or the body of the request is not valid.
    Invalid(String),
    /// The capabilities do not allow the request.
    Denied(String),
    /// A timeout passed.
    Timeout(String),
    /// The request or the response is larger than the host allows.
    TooLarge(String),
    /// Any other failure: an unknown host, a refused or interrupted connection, an error status.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Invalid(message)
        | Error::Denied(message)
        | Error::Timeout(message)
        | Error::TooLarge(message)
        | Error::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// Builds the error of a request, which `what` names: `GET https://example.com/`.
pub(super) fn error(what: &str, code: ErrorCode) -> Error {
    let (kind, reason): (fn(String) -> Error, _) = match code {
        ErrorCode::HttpRequestDenied => (
            Error::Denied,
            "denied: the capabilities have no `WebFetch` for this host, or not for this method"
                .to_owned(),
        ),
        ErrorCode::DestinationIpProhibited => {
            (Error::Denied, "denied: the address is private or otherwise forbidden".to_owned())
        }
        ErrorCode::DnsTimeout => (Error::Timeout, "timed out looking up the host".to_owned()),
        ErrorCode::ConnectionTimeout => (Error::Timeout, "timed out connecting".to_owned()),
        ErrorCode::ConnectionReadTimeout | ErrorCode::HttpResponseTimeout => {
            (Error::Timeout, "timed out waiting for the response".to_owned())
        }
        ErrorCode::ConnectionWriteTimeout => (Error::Timeout, "timed out sending".to_owned()),
        ErrorCode::HttpRequestBodySize(limit) => {
            (Error::TooLarge, sized("the request's body is too large", limit))
        }
        ErrorCode::HttpResponseBodySize(limit) => {
            (Error::TooLarge, sized("the response's body is too large", limit))
        }
        ErrorCode::HttpRequestHeaderSectionSize(limit) => {
            (Error::TooLarge, sized("the request's headers are too large", limit))
        }
        ErrorCode::HttpResponseHeaderSectionSize(limit) => {
            (Error::TooLarge, sized("the response's headers are too large", limit))
        }
        ErrorCode::HttpRequestUriTooLong => (Error::TooLarge, "the URL is too long".to_owned()),
        ErrorCode::HttpRequestUriInvalid => (Error::Invalid, "the URL is not valid".to_owned()),
        ErrorCode::HttpRequestMethodInvalid => {
            (Error::Invalid, "the method is not valid".to_owned())
        }
        ErrorCode::DnsError(payload) => (Error::Failed, with("no such host", payload.rcode)),
        ErrorCode::DestinationNotFound => (Error::Failed, "no such host".to_owned()),
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
            (Error::Failed, "the host cannot be reached".to_owned())
        }
        ErrorCode::ConnectionRefused => (Error::Failed, "connection refused".to_owned()),
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => {
            (Error::Failed, "the connection was interrupted".to_owned())
        }
        ErrorCode::HttpProtocolError => (
            Error::Failed,
            "the server violated HTTP, or the connection was interrupted".to_owned(),
        ),
        ErrorCode::ConnectionLimitReached => {
            (Error::Failed, "too many connections at once".to_owned())
        }
        ErrorCode::TlsCertificateError => {
            (Error::Failed, "the certificate is not valid".to_owned())
        }
        ErrorCode::TlsProtocolError => (Error::Failed, "TLS failed".to_owned()),
        ErrorCode::TlsAlertReceived(payload) => {
            (Error::Failed, with("TLS failed", payload.alert_message))
        }
        // The host's own message, which names the rule and the line that would allow the request.
        ErrorCode::InternalError(Some(message)) if message.starts_with("denied: ") => {
            (Error::Denied, message)
        }
        ErrorCode::InternalError(message) => (Error::Failed, with("failed", message)),
        // Rare errors are shown by the name of their code.
        other => (Error::Failed, format!("{other:?}")),
    };
    kind(format!("{what}: {reason}"))
}

fn sized(what: &str, limit: Option<impl fmt::Display>) -> String {
    with(what, limit.map(|limit| format!("{limit} bytes")))
}

fn with(what: &str, detail: Option<String>) -> String {
    match detail {
        Some(detail) => format!("{what} ({detail})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_names_the_request() {
        let error = error("GET https://example.com/", ErrorCode::HttpRequestDenied);
        assert!(matches!(error, Error::Denied(_)));
        assert!(error.to_string().starts_with("GET https://example.com/: denied: "));
    }

    #[test]
    fn host_message_of_a_denial_is_kept() {
        let error = error(
            "GET /",
            ErrorCode::InternalError(Some("denied: by this; to allow it: that".into())),
        );
        assert_eq!(error, Error::Denied("GET /: denied: by this; to allow it: that".into()));
    }

    #[test]
    fn size_error_includes_a_known_limit() {
        let error = error("GET /", ErrorCode::HttpResponseBodySize(Some(10)));
        assert_eq!(
            error,
            Error::TooLarge("GET /: the response's body is too large (10 bytes)".into())
        );
    }
}
