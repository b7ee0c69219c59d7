//! Errors of requests.

use std::io;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, LimitHit};

/// Why a request, or the body of its response, failed. The text is for the operator; guests receive
/// a code (see `hooks`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendError {
    /// The capabilities do not allow it.
    #[error("denied: {}", .0.rule)]
    Denied(Denial),
    /// The host has no address that is allowed.
    #[error("denied: {}", .0.rule)]
    Prohibited(Denial),
    /// The run is replayed, and the recording has no such request.
    #[error("denied: {}", .0.rule)]
    Unrecorded(Denial),
    /// The request contradicts itself.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// The guest's request body failed.
    #[error("cannot read the request body: {0}")]
    Body(String),
    /// The host name cannot be resolved.
    #[error("cannot resolve the host name: {0}")]
    Dns(String),
    /// No address accepted the connection.
    #[error("cannot connect: {0}")]
    Connect(#[serde(serialize_with = "kind_name", deserialize_with = "parse_kind")] io::ErrorKind),
    /// The server's certificate is not trusted, or is for another name.
    #[error("the server's certificate is not valid: {0}")]
    Certificate(String),
    /// The TLS handshake failed.
    #[error("TLS error: {0}")]
    Tls(String),
    /// The server closed the connection without a response.
    #[error("the server closed the connection without a response")]
    Unanswered,
    /// The server violated HTTP, or disconnected.
    #[error("HTTP error: {0}")]
    Protocol(String),
    /// A limit on time, size or number was hit.
    #[error("{}", .0.explain())]
    Limit(LimitHit),
    /// The guest's own, shorter timeout expired: for connecting, or for the first byte.
    #[error("the guest's own timeout for `{0}` expired")]
    #[serde(rename = "own-timeout")]
    GuestTimeout(Limit),
    /// The guest's own timeout between two chunks of the response expired.
    #[error("the guest's own timeout between bytes expired")]
    Idle,
    /// The request's head or trailers are larger than [`MAX_HEAD`](super::MAX_HEAD).
    #[error("the request head is larger than {} bytes", super::MAX_HEAD)]
    RequestHead,
    /// The response's head or trailers are larger than [`MAX_HEAD`](super::MAX_HEAD), or have too
    /// many fields.
    #[error("the response head is larger than {} bytes", super::MAX_HEAD)]
    ResponseHead,
}

impl SendError {
    /// Returns the limit of the invocation that was hit, if any.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            SendError::Limit(hit) => Some(hit.limit),
            _ => None,
        }
    }

    /// Returns a code that contains no text of the guest or the server.
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
            SendError::GuestTimeout(_) => "own-timeout",
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

/// The ways in which a connection fails, with their names in recordings.
const KINDS: [(io::ErrorKind, &str); 12] = [
    (io::ErrorKind::ConnectionRefused, "connection refused"),
    (io::ErrorKind::ConnectionReset, "connection reset"),
    (io::ErrorKind::ConnectionAborted, "connection aborted"),
    (io::ErrorKind::HostUnreachable, "host unreachable"),
    (io::ErrorKind::NetworkUnreachable, "network unreachable"),
    (io::ErrorKind::NetworkDown, "network down"),
    (io::ErrorKind::AddrNotAvailable, "address not available"),
    (io::ErrorKind::PermissionDenied, "permission denied"),
    (io::ErrorKind::TimedOut, "timed out"),
    (io::ErrorKind::BrokenPipe, "broken pipe"),
    (io::ErrorKind::InvalidInput, "invalid input parameter"),
    (io::ErrorKind::Other, "other error"),
];

/// Writes the name of a kind; kinds without one are written as `Other`.
fn kind_name<S: Serializer>(kind: &io::ErrorKind, s: S) -> Result<S::Ok, S::Error> {
    let name =
        KINDS.iter().find(|(known, _)| known == kind).map_or("other error", |(_, name)| name);
    s.serialize_str(name)
}

/// Reads the name of a kind; unknown names are read as `Other`.
fn parse_kind<'de, D: Deserializer<'de>>(d: D) -> Result<io::ErrorKind, D::Error> {
    let name = String::deserialize(d)?;
    let kind = KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
    Ok(kind.unwrap_or(io::ErrorKind::Other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_round_trips_through_a_recording() {
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
            SendError::GuestTimeout(Limit::HttpConnect),
            SendError::Idle,
            SendError::RequestHead,
            SendError::ResponseHead,
        ];
        all.extend(KINDS.map(|(kind, _)| SendError::Connect(kind)));
        for error in all {
            let value = serde_json::to_value(&error).unwrap();
            assert_eq!(serde_json::from_value::<SendError>(value).unwrap(), error);
        }
        let other = serde_json::to_value(SendError::Connect(io::ErrorKind::NotFound)).unwrap();
        assert_eq!(
            serde_json::from_value::<SendError>(other).unwrap(),
            SendError::Connect(io::ErrorKind::Other)
        );
    }
}
