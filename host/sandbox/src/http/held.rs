//! The network of a run that is recorded, or was: each request holds the whole run until all of its
//! response is there, so that the order of things, and what a guest sees of their pieces, is the
//! same again. The time that it took moves the run's clock.

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
use super::exchange::{Exchange, Sent, after};
use super::ledger::{Ledger, brief};
use super::{Sender, Waits, headers, target};
use crate::determinism::Clock;
use crate::limits::Meter;
use crate::recording::tape::{Miss, Played, Tape};
use crate::recording::{self, Answer, Asked, Digested, Head, Header};
use skillhost_policy::limits::Limit;
use skillhost_policy::outcome::{Denial, DenialKind, Output};
use skillhost_policy::pattern::Destination;

/// Bytes of a response that a guest is given at once.
const PIECE: usize = 64 << 10;

/// What holds a run.
pub(crate) struct Held {
    pub(crate) tape: Arc<Tape>,
    /// Where what must not be done in the run is done for it.
    pub(crate) host: Handle,
    pub(crate) clock: Arc<Clock>,
    pub(crate) meter: Arc<Meter>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// A request, with all of its body.
struct Whole {
    parts: request::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Held {
    /// Sends an admitted request, or finds its answer. Blocks the run's thread once the request is
    /// whole.
    pub(super) async fn send(
        &self,
        live: &Arc<Sender>,
        to: &Destination,
        parts: request::Parts,
        upload: Upload,
        exchange: &Arc<Exchange>,
    ) -> Result<Response<Body>, SendError> {
        // The guest's own doing, and so in the run's time.
        let collected = upload.collect().await.map_err(|error| exchange.fail(error))?;
        let whole =
            Whole { parts, trailers: collected.trailers().cloned(), body: collected.to_bytes() };
        let played = match self.played(live, to, whole, exchange.waits) {
            Ok(played) => played,
            Err(error) => return Err(exchange.fail(error)),
        };
        self.clock.pass(played.took);
        respond(played, exchange)
    }

    fn played(
        &self,
        live: &Arc<Sender>,
        to: &Destination,
        whole: Whole,
        waits: Waits,
    ) -> Result<Played, SendError> {
        let asked = asked(&whole);
        if !self.tape.is_recording() {
            return self.tape.answer(&asked).map_err(|miss| self.missed(to, &asked, &miss));
        }
        let (tell, told) = std::sync::mpsc::channel();
        let (live, to, aborted) = (live.clone(), to.clone(), self.meter.clone());
        self.host.spawn(async move {
            let played = tokio::select! {
                biased;
                () = aborted.aborted() => None,
                played = played_live(&live, &to, whole, waits) => Some(played),
            };
            // The run may be gone.
            let _ = tell.send(played);
        });
        // It was aborted, and ends at its next turn.
        let Ok(Some(played)) = told.recv() else {
            return Err(SendError::Protocol("the run was aborted".to_owned()));
        };
        let recorded = recording::Exchange {
            request: asked,
            response: played.answer.clone(),
            took: played.took,
        };
        if let Err(why) = self.tape.record(recorded, played.body.clone()) {
            self.meter.abort(why);
        }
        Ok(played)
    }

    fn missed(&self, to: &Destination, asked: &Asked, miss: &Miss) -> SendError {
        let rule = match miss.differs.as_slice() {
            [] => "the recording has no such request".to_owned(),
            differs => format!(
                "the recording has no such request; the nearest differs in {}",
                differs.join(", ")
            ),
        };
        if self.tape.is_strict() {
            self.meter.abort(format!(
                "it asked for what the recorded run did not, {} {}",
                brief(&asked.method),
                target::origin(to)
            ));
        }
        let what = format!("{} {}", brief(&asked.method), target::origin(to));
        let (fix, kind) = (
            Some("record a run that makes it: `--record DIR`".into()),
            DenialKind::Host(to.host.clone()),
        );
        SendError::Unrecorded(Denial { what, rule, fix, kind })
    }
}

/// Asks the network, and waits for all that comes.
async fn played_live(live: &Sender, to: &Destination, whole: Whole, waits: Waits) -> Played {
    let started = Instant::now();
    let took = |started: Instant| u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // Its books are of nobody's interest: the run has its own.
    let ledger: Arc<Ledger> = Arc::default();
    let record = ledger.open(&whole.parts.method, String::new());
    let deadline = after(Duration::from_millis(live.limits.http_total_ms));
    let exchange = Exchange::new(ledger, record, live.limits.clone(), waits, deadline, false);
    let declared = Some(whole.body.len() as u64).filter(|_| whole.trailers.is_none());
    let body: Body = match whole.trailers {
        None => Full::new(whole.body).map_err(|never| match never {}).boxed_unsync(),
        Some(trailers) => frames([Ok(Frame::data(whole.body)), Ok(Frame::trailers(trailers))]),
    };
    let request = Request::from_parts(whole.parts, Upload::new(body, declared, exchange.clone()));
    let response = match live.exchange(to, request, &exchange).await {
        Ok(response) => response,
        Err(error) => {
            let error = exchange.fail(error);
            return Played {
                answer: Answer { head: None, error: Some(told(&error)) },
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
                error = Some(told(&failed));
                break;
            }
        }
    }
    let head = Head {
        status: parts.status.as_u16(),
        headers: fields(&parts.headers),
        body: Digested::of(&body),
        trailers,
    };
    Played { answer: Answer { head: Some(head), error }, body, took: took(started) }
}

/// What the guest is given of an answer, from the network or from a recording.
fn respond(played: Played, exchange: &Arc<Exchange>) -> Result<Response<Body>, SendError> {
    let Played { answer: Answer { head, error }, body, .. } = played;
    let error = error.map(|error| {
        serde_json::from_value(error)
            .unwrap_or_else(|_| SendError::Protocol("it is not known here".to_owned()))
    });
    let Some(head) = head else {
        return Err(exchange.fail(
            error.unwrap_or_else(|| SendError::Protocol("nothing was recorded".to_owned())),
        ));
    };
    let broken = |_| SendError::Protocol("the recorded response is none".to_owned());
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
        return Err(exchange.fail(exchange.over(Limit::HttpResponseBody)));
    }
    let mut pieces: VecDeque<_> = (0..body.len())
        .step_by(PIECE)
        .map(|at| Ok(Frame::data(body.slice(at..body.len().min(at + PIECE)))))
        .collect();
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
    response.extensions_mut().insert(Sent(exchange.clone()));
    Ok(response)
}

fn asked(whole: &Whole) -> Asked {
    Asked {
        method: whole.parts.method.as_str().to_owned(),
        url: whole.parts.uri.to_string(),
        headers: fields(&whole.parts.headers),
        body: Digested::of(&whole.body),
        trailers: whole.trailers.as_ref().map(fields).unwrap_or_default(),
    }
}

/// An error as it is recorded: plain data, and the same again when it is read.
fn told(error: &SendError) -> serde_json::Value {
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
