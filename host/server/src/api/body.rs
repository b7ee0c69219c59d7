//! Reads requests and writes answers.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Receiver;

use super::Bounds;
use super::fleet::Fetched;
use super::logs::too_many;
use super::problem::{Problem, ProblemCode};
use super::tenant::{OpenStream, Tenant};

pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// The bytes that are read at once from a file that is an answer.
const CHUNK: usize = 64 << 10;

/// How soon a body of JSON has to arrive, or it counts as a stream: it holds a connection.
const SOON: Duration = Duration::from_secs(1);

/// Reads a body of JSON within the bounds. Also returns its length: the caller counts the bytes of a body
/// that it accepts. Those of a body that is refused here are counted here.
pub(super) async fn json<T: DeserializeOwned>(
    tenant: &Arc<Tenant>,
    body: Incoming,
    bounds: &Bounds,
) -> Result<(T, u64), Problem> {
    let mut received = ReceivedBody { tenant, bytes: Vec::new() };
    let read = receive(&mut received, body, bounds.body, bounds.body_within).await;
    let parsed = read.and_then(|()| {
        serde_json::from_slice(&received.bytes)
            .map_err(|error| Problem::invalid(format!("the body: {error}")))
    });
    let length = received.take();
    match parsed {
        Ok(value) => Ok((value, length)),
        Err(problem) => {
            // Before the answer, so that a client cannot have its bodies refused faster than they are counted.
            tenant.charge(0, length).await;
            Err(problem)
        }
    }
}

/// Reads a body that has at most `most` bytes and arrives in time.
async fn receive(
    received: &mut ReceivedBody<'_>,
    body: Incoming,
    most: usize,
    within: Duration,
) -> Result<(), Problem> {
    let tenant = received.tenant;
    let mut collecting = std::pin::pin!(collect(received, body, most));
    match tokio::time::timeout(SOON.min(within), &mut collecting).await {
        Ok(collected) => collected,
        Err(_) => {
            let _open = tenant.open_stream().ok_or_else(too_many)?;
            let rest = within.saturating_sub(SOON);
            tokio::time::timeout(rest, collecting).await.map_err(|_| timeout(within))?
        }
    }
}

async fn collect(
    received: &mut ReceivedBody<'_>,
    mut body: Incoming,
    most: usize,
) -> Result<(), Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::invalid("the body ended early"))?;
        let Ok(data) = frame.into_data() else { continue };
        let room = most - received.bytes.len();
        received.bytes.extend_from_slice(data.get(..room).unwrap_or(&data));
        if data.len() > room {
            return Err(too_large(most as u64));
        }
    }
    Ok(())
}

/// What was received of a body so far. If it is dropped before its length is taken, because the client has
/// disconnected, it is counted all the same.
struct ReceivedBody<'t> {
    tenant: &'t Arc<Tenant>,
    bytes: Vec<u8>,
}

impl ReceivedBody<'_> {
    /// Returns the length, which the caller counts.
    fn take(mut self) -> u64 {
        std::mem::take(&mut self.bytes).len() as u64
    }
}

impl Drop for ReceivedBody<'_> {
    fn drop(&mut self) {
        let (tenant, bytes) = (self.tenant.clone(), self.bytes.len() as u64);
        if bytes > 0 {
            tokio::task::spawn_blocking(move || tenant.charge_blocking(0, bytes));
        }
    }
}

pub(super) fn too_large(most: u64) -> Problem {
    Problem::new(ProblemCode::BodyTooLarge, format!("a body here may have {most} bytes"))
}

pub(super) fn timeout(within: Duration) -> Problem {
    let seconds = within.as_secs();
    Problem::new(ProblemCode::BodyTimeout, format!("it has to arrive within {seconds} s"))
}

/// An answer of JSON.
pub(super) fn of_json(status: StatusCode, value: &impl Serialize) -> Answer {
    of_bytes(status, "application/json", serde_json::to_vec(value).unwrap_or_default())
}

pub(super) fn of_problem(problem: &Problem) -> Answer {
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut answer = of_bytes(problem.code.status(), "application/problem+json", body);
    if let Some(seconds) = problem.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if problem.code == ProblemCode::Unauthorized {
        let scheme = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(http::header::WWW_AUTHENTICATE, scheme);
    }
    answer
}

pub(super) fn of_bytes(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(bytes.into()).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// An answer with bytes that were fetched.
pub(super) fn of_fetched(fetched: Fetched, open: OpenStream) -> std::io::Result<Answer> {
    match fetched {
        Fetched::Bytes(bytes) => Ok(of_bytes(StatusCode::OK, "application/octet-stream", bytes)),
        Fetched::File(file) => of_file(file, open),
    }
}

/// An answer with the bytes of a file, which are read as the client takes them.
pub(super) fn of_file(file: File, open: OpenStream) -> std::io::Result<Answer> {
    let length = file.metadata()?.len();
    let (sender, receiver) = tokio::sync::mpsc::channel(2);
    // What is appended meanwhile is not part of the answer.
    let mut file = file.take(length);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut chunk = vec![0; CHUNK];
            match file.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => {
                    chunk.truncate(count);
                    // The client may have gone.
                    if sender.blocking_send(Bytes::from(chunk)).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    // The connection ends before the declared length, which the client notices.
                    tracing::error!(%error, "cannot read a file of the run API");
                    return;
                }
            }
        }
    });
    let mut answer = of_stream("application/octet-stream", receiver, open);
    answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    Ok(answer)
}

/// An answer whose body a channel delivers. It counts as open until the body has been sent, since a
/// client that does not read holds the connection.
pub(super) fn of_stream(
    kind: &'static str,
    mut parts: Receiver<Bytes>,
    open: OpenStream,
) -> Answer {
    let frames = futures::stream::poll_fn(move |context| {
        if !open.may_continue() {
            return std::task::Poll::Ready(None);
        }
        parts
            .poll_recv(context)
            .map(|part| part.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))))
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
