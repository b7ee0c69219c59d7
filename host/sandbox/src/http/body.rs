//! Counts and limits bodies as they pass. The deadline ends the connection (see `tasks`), and with
//! it the bodies.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use sha2::{Digest as _, Sha256};
use tokio::time::Sleep;

use super::error::SendError;
use super::exchange::{Exchange, after};
use super::headers;
use super::tasks::Tasks;
use skillhost_policy::limits::Limit;
use skillhost_skill::runtime::hex;

/// A request's or a response's body.
pub type Body = UnsyncBoxBody<Bytes, SendError>;

/// Creates a body from these frames.
pub(crate) fn frames(
    frames: impl IntoIterator<Item = Result<Frame<Bytes>, SendError>, IntoIter: Send + 'static>,
) -> Body {
    StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
}

/// A request's body.
pub(super) struct Upload {
    inner: Body,
    exchange: Arc<Exchange>,
    /// The declared length, which the body must match exactly.
    declared: Option<u64>,
    sent: u64,
    hash: Option<Sha256>,
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)) else {
            if self.declared.is_some_and(|n| self.sent < n) {
                let error = SendError::Malformed(format!(
                    "the body ended after {} bytes, short of its content-length",
                    self.sent
                ));
                return Poll::Ready(Some(Err(self.exchange.fail(error))));
            }
            return Poll::Ready(None);
        };
        Poll::Ready(Some(self.pass(frame).map_err(|e| self.exchange.fail(e))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream() && self.declared.is_none_or(|n| self.sent == n)
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map_or_else(
            || self.inner.size_hint(),
            |n| SizeHint::with_exact(n.saturating_sub(self.sent)),
        )
    }
}

impl Upload {
    pub(super) fn new(inner: Body, declared: Option<u64>, exchange: Arc<Exchange>) -> Upload {
        let hash = exchange.digests.then(Sha256::new);
        Upload { inner, exchange, declared, sent: 0, hash }
    }

    fn pass(&mut self, frame: Result<Frame<Bytes>, SendError>) -> Result<Frame<Bytes>, SendError> {
        match frame?.into_data() {
            Ok(data) => {
                let sent = self.sent.saturating_add(data.len() as u64);
                if self.declared.is_some_and(|n| sent > n) {
                    return Err(SendError::Malformed(
                        "the body is longer than its content-length".to_owned(),
                    ));
                }
                if sent > self.exchange.limits.http_request_body {
                    return Err(self.exchange.limit_error(Limit::HttpRequestBody));
                }
                self.sent = sent;
                if let Some(hash) = &mut self.hash {
                    hash.update(&data);
                }
                self.exchange.record(|r| r.sent = sent);
                Ok(Frame::data(data))
            }
            Err(frame) => trailers(frame, SendError::RequestHead),
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(digest) = finish_digest(&mut self.hash) {
            self.exchange.record(|r| r.sent_digest = Some(digest));
        }
        self.exchange.set_uploaded();
    }
}

/// A response's body. Dropping it ends the connection.
pub(super) struct Download {
    inner: hyper::body::Incoming,
    exchange: Arc<Exchange>,
    received: u64,
    hash: Option<Sha256>,
    /// The guest's timeout between two frames.
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    _tasks: Tasks,
}

impl Download {
    pub(super) fn new(
        inner: hyper::body::Incoming,
        exchange: Arc<Exchange>,
        tasks: Tasks,
    ) -> Download {
        let idle = exchange
            .timeouts
            .between_bytes
            .map(|wait| (wait, Box::pin(tokio::time::sleep_until(after(wait)))));
        if inner.is_end_stream() {
            exchange.complete();
        }
        let hash = exchange.digests.then(Sha256::new);
        Download { inner, exchange, received: 0, hash, idle, _tasks: tasks }
    }

    fn pass(
        &mut self,
        frame: Result<Frame<Bytes>, hyper::Error>,
    ) -> Result<Frame<Bytes>, SendError> {
        match frame.map_err(|e| SendError::from_hyper(&e))?.into_data() {
            Ok(data) => {
                let received = self.received.saturating_add(data.len() as u64);
                self.received = received;
                if let Some(hash) = &mut self.hash {
                    hash.update(&data);
                }
                self.exchange.record(|r| r.received = received);
                if received > self.exchange.limits.http_response_body {
                    return Err(self.exchange.limit_error(Limit::HttpResponseBody));
                }
                Ok(Frame::data(data))
            }
            Err(frame) => trailers(frame, SendError::ResponseHead),
        }
    }
}

impl http_body::Body for Download {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        if let Some(failure) = self.exchange.failure() {
            return Poll::Ready(Some(Err(failure)));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) else {
            if let Some((_, idle)) = &mut self.idle
                && idle.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Some(Err(self.exchange.fail(SendError::Idle))));
            }
            return Poll::Pending;
        };
        if let Some((wait, idle)) = &mut self.idle {
            idle.as_mut().reset(after(*wait));
        }
        let Some(frame) = frame else {
            self.exchange.complete();
            return Poll::Ready(None);
        };
        Poll::Ready(Some(self.pass(frame).map_err(|e| self.exchange.fail(e))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if let Some(digest) = finish_digest(&mut self.hash) {
            self.exchange.record(|r| r.received_digest = Some(digest));
        }
    }
}

fn finish_digest(hash: &mut Option<Sha256>) -> Option<String> {
    hash.take().map(|hash| format!("sha256:{}", hex(&hash.finalize())))
}

fn trailers(frame: Frame<Bytes>, too_large: SendError) -> Result<Frame<Bytes>, SendError> {
    let mut fields = frame.into_trailers().unwrap_or_default();
    headers::strip(&mut fields);
    fields.remove(http::header::CONTENT_LENGTH);
    if headers::fit(&fields, 0) { Ok(Frame::trailers(fields)) } else { Err(too_large) }
}
