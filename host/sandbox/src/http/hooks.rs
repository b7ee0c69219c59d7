//! Connects the sender to `wasi:http`, 0.2 and 0.3 alike.

use std::io;
use std::sync::Arc;

use http::uri::Scheme;
use http::{HeaderName, Request, Response};
use http_body_util::BodyExt as _;
use wasmtime_wasi_http::p2::bindings::http::types::{DnsErrorPayload, ErrorCode};
use wasmtime_wasi_http::{Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpHooks};

use super::{SendError, Sender, Timeouts, UploadStatus, is_forbidden};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::Denial;

/// The hooks of one store.
#[derive(Debug, Clone)]
pub struct Hooks(pub Arc<Sender>);

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        is_forbidden(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(is_forbidden)
    }

    fn is_supported_scheme(&mut self, _: &Scheme) -> bool {
        // The sender refuses the others, and records the refusal.
        true
    }

    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Io,
    ) -> Box<dyn Future<Output = Result<(Response<WasiBody>, Io), Error>> + Send> {
        let sender = self.0.clone();
        let options = options.unwrap_or_default();
        let timeouts = Timeouts {
            connect: options.connect_timeout,
            first_byte: options.first_byte_timeout,
            between_bytes: options.between_bytes_timeout,
        };
        let request =
            request.map(|body| body.map_err(|e| SendError::Body(e.to_string())).boxed_unsync());
        Box::new(async move {
            let mut response = sender.send(request, timeouts).await.map_err(to_wasi_error)?;
            let sent = response.extensions_mut().remove::<UploadStatus>();
            let io: Io = Box::new(async move {
                match sent {
                    Some(sent) => sent.finished().await.map_err(to_wasi_error),
                    None => Ok(()),
                }
            });
            Ok((response.map(|body| body.map_err(to_wasi_error).boxed_unsync()), io))
        })
    }
}

/// Converts an error for the guest: it learns the kind of failure, but not what the operator's
/// network looks like. A denial carries its rule and fix in the only code that has a text.
pub(crate) fn code(error: SendError) -> ErrorCode {
    match error {
        SendError::Denied(Denial { rule, fix, .. }) => denied(&rule, fix.as_deref()),
        // Only the operator learns the address.
        SendError::Prohibited(Denial { fix, .. }) => denied(PROHIBITED, fix.as_deref()),
        // The guest must not learn about the requests of the recorded run.
        SendError::Unrecorded(_) => denied(UNRECORDED, None),
        SendError::Malformed(_) | SendError::Body(_) | SendError::Protocol(_) => {
            ErrorCode::HttpProtocolError
        }
        SendError::Unanswered => ErrorCode::ConnectionTerminated,
        SendError::Dns(_) => ErrorCode::DnsError(DnsErrorPayload { rcode: None, info_code: None }),
        SendError::Connect(io::ErrorKind::ConnectionRefused) => ErrorCode::ConnectionRefused,
        SendError::Connect(_) => ErrorCode::DestinationUnavailable,
        SendError::Certificate(_) => ErrorCode::TlsCertificateError,
        SendError::Tls(_) => ErrorCode::TlsProtocolError,
        SendError::Limit(hit) => match hit.limit {
            Limit::HttpRequestBody => ErrorCode::HttpRequestBodySize(Some(hit.value)),
            Limit::HttpResponseBody => ErrorCode::HttpResponseBodySize(Some(hit.value)),
            Limit::HttpConnect | Limit::HttpTls => ErrorCode::ConnectionTimeout,
            Limit::HttpFirstByte | Limit::HttpTotal => ErrorCode::HttpResponseTimeout,
            _ => ErrorCode::ConnectionLimitReached,
        },
        SendError::GuestTimeout(Limit::HttpConnect) => ErrorCode::ConnectionTimeout,
        SendError::GuestTimeout(_) | SendError::Idle => ErrorCode::ConnectionReadTimeout,
        SendError::RequestHead => {
            ErrorCode::HttpRequestHeaderSectionSize(u32::try_from(super::MAX_HEAD).ok())
        }
        SendError::ResponseHead => {
            ErrorCode::HttpResponseHeaderSectionSize(u32::try_from(super::MAX_HEAD).ok())
        }
    }
}

/// Converts an error for either version of `wasi:http`.
pub(crate) fn to_wasi_error(error: SendError) -> Error {
    code(error).into()
}

const PROHIBITED: &str = "the host has a private or special-purpose address; only an operator entry can allow a private one";

const UNRECORDED: &str = "this run is a replay, and the recording has no such request";

fn denied(rule: &str, fix: Option<&str>) -> ErrorCode {
    let fix = fix.map(|fix| format!("; to allow it: {fix}")).unwrap_or_default();
    ErrorCode::InternalError(Some(format!("denied: {rule}{fix}")))
}
