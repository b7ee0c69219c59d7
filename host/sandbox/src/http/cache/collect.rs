//! Stores a response while the guest reads it. Only a complete one is kept.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{Response, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::{Entry, Key, Question, ResponseCache};
use crate::http::body::Body;
use crate::http::error::SendError;

/// Passes a response on and collects it, if it may be stored. `private`: whether it comes from a
/// private address. `times`: when the request was sent and the response received.
pub(crate) fn collect(
    cache: &Arc<ResponseCache>,
    question: &Question,
    response: Response<Body>,
    private: bool,
    times: (u64, u64),
) -> Response<Body> {
    // Whatever was stored is out of date.
    cache.forget_variant(question);
    let (parts, body) = response.into_parts();
    let entry = Entry::new(question, parts.status, &parts.headers, private, times);
    let declared = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let Some(entry) = entry.filter(|entry| {
        let size = entry.size().saturating_add(declared.unwrap_or(0));
        size <= cache.max / 2 && cache.reserve(entry.size())
    }) else {
        return Response::from_parts(parts, body);
    };
    let pending = Pending { cache: cache.clone(), reserved: entry.size() };
    let Question { key, changes, .. } = *question;
    let collected = Collected { key, changes, entry, body: BytesMut::new(), pending };
    Response::from_parts(
        parts,
        Collecting { inner: body, collected: Some(collected) }.boxed_unsync(),
    )
}

/// What has been read of a response that is to be stored.
struct Collected {
    key: Key,
    changes: u64,
    entry: Entry,
    body: BytesMut,
    pending: Pending,
}

/// Bytes of the cache that are reserved for a response.
struct Pending {
    cache: Arc<ResponseCache>,
    reserved: u64,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cache.release(self.reserved);
    }
}

impl Collected {
    /// Adds a piece; `false` if the response is too large.
    fn add(&mut self, piece: &[u8]) -> bool {
        let bytes = piece.len() as u64;
        let Pending { cache, reserved } = &mut self.pending;
        if reserved.saturating_add(bytes) > cache.max / 2 || !cache.reserve(bytes) {
            return false;
        }
        *reserved += bytes;
        self.body.extend_from_slice(piece);
        true
    }

    fn store(mut self) {
        // The bytes now belong to the entry.
        self.pending.reserved = 0;
        let entry = Entry { body: self.body.split().freeze(), ..self.entry };
        self.pending.cache.put(self.key, entry, self.changes);
    }
}

/// The body of a response that is being collected.
struct Collecting {
    inner: Body,
    /// `None` once it is stored, or will not be.
    collected: Option<Collected>,
}

impl http_body::Body for Collecting {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                let keeps = match (frame.data_ref(), &mut self.collected) {
                    (Some(data), Some(collected)) => collected.add(data),
                    // Trailers are not stored, so neither is the response.
                    _ => false,
                };
                if !keeps {
                    self.collected = None;
                } else if self.inner.is_end_stream() {
                    // The guest need not ask for the end.
                    self.finish();
                }
            }
            Some(Err(_)) => self.collected = None,
            None => self.finish(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        // An empty body is stored when its end is read.
        self.collected.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Collecting {
    fn finish(&mut self) {
        if let Some(collected) = self.collected.take() {
            collected.store();
        }
    }
}
