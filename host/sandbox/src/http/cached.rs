//! Answers requests from the HTTP cache, and stores responses in it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt as _, BodyStream, Empty, StreamBody};

use super::body::{Body, Upload, frames};
use super::cache::collect::collect;
use super::cache::{Entry, Found, Question, ResponseCache, now};
use super::error::SendError;
use super::exchange::{Exchange, UploadStatus};
use super::recorded::pieces;
use super::{FromPrivateAddress, Sender};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::CacheUse;
use skillhost_policy::pattern::Destination;

impl Sender {
    /// Sends a request that was admitted, unless the cache has its response.
    pub(super) async fn exchange_cached(
        &self,
        cache: &Arc<ResponseCache>,
        to: &Destination,
        request: Request<Upload>,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        let (mut parts, upload) = request.into_parts();
        // Only a GET is asked about, so others do not wait here.
        let (is_empty, upload) = match parts.method {
            Method::GET => check_empty(upload, exchange).await?,
            _ => (false, upload),
        };
        let Some(question) = cache.question(&parts, is_empty) else {
            let (method, uri) = (parts.method.clone(), parts.uri.clone());
            let response = self.exchange(to, Request::from_parts(parts, upload), exchange).await?;
            if may_change(&method, response.status()) {
                cache.forget(&uri);
            }
            return Ok(response);
        };
        let private = self.allows_private(to);
        let stale = match cache.find(&question, private, now()) {
            Found::Fresh(entry) => return serve(entry, CacheUse::Fresh, exchange),
            _ if question.is_only_cached() => return not_stored(exchange),
            Found::Stale(entry) => entry,
            Found::Nothing => {
                let request = Request::from_parts(parts, upload);
                return self.exchange_stored(cache, &question, to, request, exchange).await;
            }
        };
        let plain = parts.clone();
        question.validate(&stale, &mut parts.headers);
        let asked = now();
        let response = self.exchange(to, Request::from_parts(parts, upload), exchange).await?;
        if response.status() != StatusCode::NOT_MODIFIED {
            let is_private = is_private(&response);
            return Ok(collect(cache, &question, response, is_private, (asked, now())));
        }
        let (head, body) = response.into_parts();
        // It records its end, before the stored body is recorded.
        drop(body);
        if let Some(entry) = stale.confirmed(&question, &head.headers, (asked, now())) {
            cache.update(&question, &entry);
            return serve(entry, CacheUse::Confirmed, exchange);
        }
        // The server means another response than the stored one.
        cache.forget_variant(&question);
        // Another request is sent.
        if !self.log.admit(self.limits.http_requests) {
            return Err(self.limit_error(Limit::HttpRequests));
        }
        let nothing = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let upload = Upload::new(nothing, None, exchange.clone());
        let request = Request::from_parts(plain, upload);
        self.exchange_stored(cache, &question, to, request, exchange).await
    }

    /// Sends a request, and stores its response if that is allowed.
    async fn exchange_stored(
        &self,
        cache: &Arc<ResponseCache>,
        question: &Question,
        to: &Destination,
        request: Request<Upload>,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        let asked = now();
        let response = self.exchange(to, request, exchange).await?;
        let is_private = is_private(&response);
        Ok(collect(cache, question, response, is_private, (asked, now())))
    }
}

/// How long a guest may take to say that a GET has no body, before it is sent without asking the
/// cache.
const PEEK: Duration = Duration::from_secs(1);

/// Checks whether a body is empty. Guests open one even if they write nothing, so only its end says it.
async fn check_empty(
    mut upload: Upload,
    exchange: &Arc<Exchange>,
) -> Result<(bool, Upload), SendError> {
    if upload.is_end_stream() {
        return Ok((true, upload));
    }
    let size = upload.size_hint().exact();
    match tokio::time::timeout(PEEK, upload.frame()).await {
        Ok(None) => {
            let nothing = Empty::new().map_err(|never| match never {}).boxed_unsync();
            Ok((true, Upload::new(nothing, None, exchange.clone())))
        }
        Ok(Some(first)) => {
            let first = futures::stream::iter([Ok(first?)]);
            let whole = StreamBody::new(first.chain(BodyStream::new(upload))).boxed_unsync();
            Ok((false, Upload::new(whole, size, exchange.clone())))
        }
        Err(_) => Ok((false, upload)),
    }
}

/// Checks whether a request may have changed what its URL means (RFC 9111, section 4.4).
fn may_change(method: &Method, status: StatusCode) -> bool {
    !method.is_safe() && (status.is_success() || status.is_redirection())
}

fn is_private(response: &Response<Body>) -> bool {
    response.extensions().get().is_none_or(|FromPrivateAddress(private)| *private)
}

/// Returns a stored response to the guest.
fn serve(
    entry: Entry,
    cached: CacheUse,
    exchange: &Arc<Exchange>,
) -> Result<Response<Body>, SendError> {
    let Entry { status, headers, body, .. } = entry;
    let received = body.len() as u64;
    if received > exchange.limits.http_response_body {
        return Err(exchange.limit_error(Limit::HttpResponseBody));
    }
    let digest = exchange.digests.then(|| skillhost_skill::runtime::digest(&body));
    exchange.record(|r| {
        (r.status, r.received, r.received_digest) = (Some(status.as_u16()), received, digest);
        (r.cached, r.error, r.failure) = (Some(cached), None, None);
    });
    exchange.set_uploaded();
    exchange.complete();
    let mut response = Response::new(frames(pieces(&body).map(Ok)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(UploadStatus(exchange.clone()));
    Ok(response)
}

/// Answers a request for what the cache has, if it has nothing (RFC 9111, section 5.2.1.7).
fn not_stored(exchange: &Arc<Exchange>) -> Result<Response<Body>, SendError> {
    exchange.record(|r| {
        (r.status, r.error, r.failure) = (Some(StatusCode::GATEWAY_TIMEOUT.as_u16()), None, None);
    });
    exchange.set_uploaded();
    exchange.complete();
    let mut response = Response::new(frames([]));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.extensions_mut().insert(UploadStatus(exchange.clone()));
    Ok(response)
}
