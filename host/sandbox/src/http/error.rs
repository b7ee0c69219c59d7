//! Why a request came to nothing.

use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, LimitHit};

/// Why a request, or the body of its response, failed. The text is for the operator: guests get a
/// code (see `hooks`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendError {
    /// The capabilities do not allow it.
    #[error("denied: {}", .0.rule)]
    Denied(Denial),
    /// The host has no address that may be asked.
    #[error("denied: {}", .0.rule)]
    Prohibited(Denial),
    /// A recording answers, and has no such request.
    #[error("denied: {}", .0.rule)]
    Unrecorded(Denial),
    /// The request contradicts itself.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// The request's own body failed.
    #[error("the request's body failed: {0}")]
    Body(String),
    /// The name was not resolved.
    #[error("the name was not resolved: {0}")]
    Dns(String),
    /// No address took the connection.
    #[error("no connection: {0}")]
    Connect(#[serde(serialize_with = "kind_name", deserialize_with = "kind_named")] io::ErrorKind),
    /// The server's certificate is not trusted, or is for another name.
    #[error("the certificate was refused: {0}")]
    Certificate(String),
    /// The TLS handshake failed.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server closed the connection in place of an answer.
    #[error("the server closed the connection without an answer")]
    Unanswered,
    /// The server broke the rules of HTTP, or went away.
    #[error("HTTP failed: {0}")]
    Protocol(String),
    /// A limit on time, size or number was hit.
    #[error("{}", .0.explain())]
    Limit(LimitHit),
    /// The guest's own, shorter time ran out: for connecting, or for the first byte.
    #[error("the guest's own time for `{0}` ran out")]
    OwnTimeout(Limit),
    /// The guest's own time between two pieces of the response ran out.
    #[error("the guest's own time between bytes ran out")]
    Idle,
    /// The request's head or trailers are larger than [`MAX_HEAD`](super::MAX_HEAD).
    #[error("the request's head is over {} bytes", super::MAX_HEAD)]
    RequestHead,
    /// The response's head or trailers are larger than [`MAX_HEAD`](super::MAX_HEAD), or have too
    /// many fields.
    #[error("the response's head is over {} bytes", super::MAX_HEAD)]
    ResponseHead,
}

impl SendError {
    /// The limit of the invocation that was hit, if one was.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            SendError::Limit(hit) => Some(hit.limit),
            _ => None,
        }
    }

    /// A name for it that holds no text of the guest or the server.
    pub(super) fn code(&self) -> &'static str {
        match self {
            SendError::Denied(_) => "denied",
            SendError::Prohibited(_) => "prohibited",
            SendError::Unrecorded(_) => "unrecorded",
            SendError::Malformed(_) => "malformed",
            SendError::Body(_) => "body",
            SendError::Dns(_) => "dns",
            SendError::Connect(_) => "connect",
            SendError::Certificate(_) => "certificate",
            SendError::Tls(_) => "tls",
            SendError::Unanswered => "unanswered",
            SendError::Protocol(_) => "protocol",
            SendError::Limit(_) => "limit",
            SendError::OwnTimeout(_) => "own-timeout",
            SendError::Idle => "idle",
            SendError::RequestHead => "request-head",
            SendError::ResponseHead => "response-head",
        }
    }

    pub(super) fn from_hyper(error: &hyper::Error) -> SendError {
        if error.is_parse_too_large() {
            return SendError::ResponseHead;
        }
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        SendError::Protocol(text)
    }
}

/// The ways in which a connection fails.
const KINDS: [io::ErrorKind; 12] = [
    io::ErrorKind::ConnectionRefused,
    io::ErrorKind::ConnectionReset,
    io::ErrorKind::ConnectionAborted,
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::NetworkDown,
    io::ErrorKind::AddrNotAvailable,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::TimedOut,
    io::ErrorKind::BrokenPipe,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::Other,
];

fn kind_name<S: Serializer>(kind: &io::ErrorKind, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(kind)
}

/// One of [`KINDS`]; another is told as `Other`.
fn kind_named<'de, D: Deserializer<'de>>(d: D) -> Result<io::ErrorKind, D::Error> {
    let name = String::deserialize(d)?;
    Ok(KINDS.into_iter().find(|kind| kind.to_string() == name).unwrap_or(io::ErrorKind::Other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_comes_back_from_a_recording() {
        let denial = || Denial {
            what: "w".into(),
            rule: "r".into(),
            fix: None,
            kind: skillhost_policy::outcome::DenialKind::default(),
        };
        let mut all = vec![
            SendError::Denied(denial()),
            SendError::Prohibited(denial()),
            SendError::Unrecorded(denial()),
            SendError::Malformed("m".into()),
            SendError::Body("b".into()),
            SendError::Dns("d".into()),
            SendError::Certificate("c".into()),
            SendError::Tls("t".into()),
            SendError::Unanswered,
            SendError::Protocol("p".into()),
            SendError::Limit(LimitHit { limit: Limit::HttpTotal, value: 7 }),
            SendError::OwnTimeout(Limit::HttpConnect),
            SendError::Idle,
            SendError::RequestHead,
            SendError::ResponseHead,
        ];
        all.extend(KINDS.map(SendError::Connect));
        for error in all {
            let told = serde_json::to_value(&error).unwrap();
            assert_eq!(serde_json::from_value::<SendError>(told).unwrap(), error);
        }
        let other = serde_json::to_value(SendError::Connect(io::ErrorKind::NotFound)).unwrap();
        assert_eq!(
            serde_json::from_value::<SendError>(other).unwrap(),
            SendError::Connect(io::ErrorKind::Other)
        );
    }
}
