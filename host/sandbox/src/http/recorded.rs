//! The network of a recorded or replayed run. Each request suspends the whole run until its
//! response is complete, so that the order of events and the chunks that a guest sees are the same
//! in a replay. The time that a response took advances the run's clock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, request};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full};
use tokio::runtime::Handle;

use super::body::{Body, Upload, frames};
use super::error::SendError;
use super::exchange::{Exchange, UploadStatus, after};
use super::request_log::{RequestLog, truncated};
use super::{Sender, Timeouts, headers, target};
use crate::determinism::Clock;
use crate::limits::Meter;
use crate::recording::network::{Miss, RecordedNetwork, RecordedResponse};
use crate::recording::{self, Answer, BlobDigest, Head, Header, RecordedRequest};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind, Output};
use skillhost_policy::pattern::Destination;

/// Bytes of a response that a guest receives at once.
const PIECE: usize = 64 << 10;

/// Suspends a run while the network or the recording answers.
pub(crate) struct NetworkGate {
    pub(crate) network: Arc<RecordedNetwork>,
    /// Runs the work that must not run on the run's own thread.
    pub(crate) host: Handle,
    pub(crate) clock: Arc<Clock>,
    pub(crate) meter: Arc<Meter>,
}

impl fmt::Debug for NetworkGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NetworkGate")
    }
}

/// A request with its complete body.
struct BufferedRequest {
    parts: request::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl NetworkGate {
    /// Sends an admitted request, or looks up its recorded response. Blocks the run's thread once
    /// the request is complete.
    pub(super) async fn send(
        &self,
        sender: &Sender,
        live: &Arc<Sender>,
        to: &Destination,
        parts: request::Parts,
        upload: Upload,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        // The guest produces the body, so it takes the run's own time.
        let collected = upload.collect().await.map_err(|error| exchange.fail(error))?;
        let buffered = BufferedRequest {
            parts,
            trailers: collected.trailers().cloned(),
            body: collected.to_bytes(),
        };
        // Rates hold on the run's clock, in a recording as in its replay. The live sender also
        // keeps them on the machine's clock.
        let (now, total) = (self.clock.now(), Duration::from_millis(sender.limits.http_total_ms));
        match sender.rates.virtual_turn(&to.host, now, total) {
            Ok(at) => self.clock.pass(at - now),
            Err(limit) => return Err(exchange.fail(exchange.limit_error(limit))),
        }
        let fetched = match self.fetch(live, to, buffered, exchange.timeouts) {
            Ok(fetched) => fetched,
            Err(error) => return Err(exchange.fail(error)),
        };
        self.clock.pass(fetched.took);
        respond(fetched, exchange)
    }

    fn fetch(
        &self,
        live: &Arc<Sender>,
        to: &Destination,
        buffered: BufferedRequest,
        timeouts: Timeouts,
    ) -> Result<RecordedResponse, SendError> {
        let request = recorded_request(&buffered);
        if !self.network.is_recording() {
            return self
                .network
                .answer(&request)
                .map_err(|miss| self.denial_of(to, &request, &miss));
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let (live, to, aborted) = (live.clone(), to.clone(), self.meter.clone());
        self.host.spawn(async move {
            let fetched = tokio::select! {
                biased;
                () = aborted.aborted() => None,
                fetched = fetch_live(&live, &to, buffered, timeouts) => Some(fetched),
            };
            // The run may have ended.
            let _ = sender.send(fetched);
        });
        // The run was aborted, and ends at its next turn.
        let Ok(Some(fetched)) = receiver.recv() else {
            return Err(SendError::Protocol("the run was aborted".to_owned()));
        };
        let recorded = recording::RecordedExchange {
            request,
            response: fetched.answer.clone(),
            took: fetched.took,
        };
        if let Err(why) = self.network.record(recorded, fetched.body.clone()) {
            self.meter.abort(why);
        }
        Ok(fetched)
    }

    fn denial_of(&self, to: &Destination, request: &RecordedRequest, miss: &Miss) -> SendError {
        let rule = match miss.differs.as_slice() {
            [] => "the recording has no such request".to_owned(),
            differs => format!(
                "the recording has no such request; the closest one differs in {}",
                differs.join(", ")
            ),
        };
        if self.network.is_strict() {
            self.meter.abort(format!(
                "it made a request that the recorded run did not make: {} {}",
                truncated(&request.method),
                target::origin(to)
            ));
        }
        let what = format!("{} {}", truncated(&request.method), target::origin(to));
        let (fix, kind) = (
            Some("record a run that makes this request, with `--record DIR`".into()),
            DenialKind::Host(to.host.clone()),
        );
        SendError::Unrecorded(Denial { what, rule, fix, kind })
    }
}

/// Sends a request, and waits for the complete response.
async fn fetch_live(
    live: &Sender,
    to: &Destination,
    buffered: BufferedRequest,
    timeouts: Timeouts,
) -> RecordedResponse {
    let started = Instant::now();
    let took = |started: Instant| u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // A separate log, which is discarded: the run's log has the request already.
    let log: Arc<RequestLog> = Arc::default();
    let record = log.open(&buffered.parts.method, String::new());
    let deadline = after(Duration::from_millis(live.limits.http_total_ms));
    let exchange = Exchange::new(log, record, live.limits.clone(), timeouts, deadline, false);
    let declared = Some(buffered.body.len() as u64).filter(|_| buffered.trailers.is_none());
    let body: Body = match buffered.trailers {
        None => Full::new(buffered.body).map_err(|never| match never {}).boxed_unsync(),
        Some(trailers) => frames([Ok(Frame::data(buffered.body)), Ok(Frame::trailers(trailers))]),
    };
    let request =
        Request::from_parts(buffered.parts, Upload::new(body, declared, exchange.clone()));
    let response = match live.exchange(to, request, &exchange).await {
        Ok(response) => response,
        Err(error) => {
            let error = exchange.fail(error);
            return RecordedResponse {
                answer: Answer { head: None, error: Some(error_value(&error)) },
                body: Vec::new(),
                took: took(started),
            };
        }
    };
    let (parts, mut incoming) = response.into_parts();
    let (mut body, mut trailers, mut error) = (Vec::new(), Vec::new(), None);
    while let Some(frame) = incoming.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => body.extend_from_slice(&data),
            Ok(Err(frame)) => trailers = fields(&frame.into_trailers().unwrap_or_default()),
            Err(failed) => {
                error = Some(error_value(&failed));
                break;
            }
        }
    }
    let head = Head {
        status: parts.status.as_u16(),
        headers: fields(&parts.headers),
        body: BlobDigest::of(&body),
        trailers,
    };
    RecordedResponse { answer: Answer { head: Some(head), error }, body, took: took(started) }
}

/// Turns a response, from the network or a recording, into the one that the guest receives.
fn respond(
    fetched: RecordedResponse,
    exchange: &Arc<Exchange>,
) -> Result<Response<Body>, SendError> {
    let RecordedResponse { answer: Answer { head, error }, body, .. } = fetched;
    let error = error.map(|error| {
        serde_json::from_value(error)
            .unwrap_or_else(|_| SendError::Protocol("the recorded error is unknown".to_owned()))
    });
    let Some(head) = head else {
        return Err(exchange.fail(
            error.unwrap_or_else(|| SendError::Protocol("no response was recorded".to_owned())),
        ));
    };
    let broken = |_| SendError::Protocol("the recorded response is not valid".to_owned());
    let status = StatusCode::from_u16(head.status).map_err(|_| exchange.fail(broken(())))?;
    let headers = map(&head.headers).map_err(|()| exchange.fail(broken(())))?;
    let trailers = map(&head.trailers).map_err(|()| exchange.fail(broken(())))?;
    let digest = exchange.digests.then(|| skillhost_skill::runtime::digest(&body));
    exchange.record(|r| {
        (r.status, r.error, r.received, r.received_digest) =
            (Some(head.status), None, body.len() as u64, digest);
    });
    let body = Bytes::from(body);
    if body.len() as u64 > exchange.limits.http_response_body && error.is_none() {
        return Err(exchange.fail(exchange.limit_error(Limit::HttpResponseBody)));
    }
    let mut pieces: VecDeque<_> = pieces(&body).map(Ok).collect();
    match error {
        Some(error) => pieces.push_back(Err(exchange.fail(error))),
        None => {
            exchange.complete();
            if !trailers.is_empty() {
                pieces.push_back(Ok(Frame::trailers(trailers)));
            }
        }
    }
    let mut response = Response::new(frames(pieces));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(UploadStatus(exchange.clone()));
    Ok(response)
}

/// Cuts a complete body into the pieces that a guest receives.
pub(super) fn pieces(body: &Bytes) -> impl Iterator<Item = Frame<Bytes>> + Send + 'static {
    let body = body.clone();
    (0..body.len())
        .step_by(PIECE)
        .map(move |at| Frame::data(body.slice(at..body.len().min(at + PIECE))))
}

fn recorded_request(buffered: &BufferedRequest) -> RecordedRequest {
    RecordedRequest {
        method: buffered.parts.method.as_str().to_owned(),
        url: buffered.parts.uri.to_string(),
        headers: fields(&buffered.parts.headers),
        body: BlobDigest::of(&buffered.body),
        trailers: buffered.trailers.as_ref().map(fields).unwrap_or_default(),
    }
}

/// Converts an error to the data that is recorded, from which it can be read back.
fn error_value(error: &SendError) -> serde_json::Value {
    serde_json::to_value(error).unwrap_or_default()
}

fn fields(map: &HeaderMap) -> Vec<Header> {
    let field = |(name, value): (&HeaderName, &HeaderValue)| Header {
        name: name.as_str().to_owned(),
        value: Some(Output(value.as_bytes().to_vec())),
        secret: None,
    };
    map.iter().map(field).collect()
}

fn map(fields: &[Header]) -> Result<HeaderMap, ()> {
    let fields: Option<Vec<_>> = fields
        .iter()
        .map(|field| Some((field.name.as_str(), field.value.as_ref()?.0.as_slice())))
        .collect();
    headers::map(fields.ok_or(())?).ok_or(())
}
