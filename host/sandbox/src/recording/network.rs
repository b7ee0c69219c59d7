//! The network of a run, while it is recorded or replayed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use similar::TextDiff;

use super::{Answer, Header, RecordedExchange, RecordedRequest, SealedSecrets, seal};
use skillhost_policy::limits::show_size;
use skillhost_policy::outcome::Output;

/// The most bytes of responses in one recording.
pub const BODIES_MAX: u64 = 256 << 20;

/// The most unanswered requests that are reported in full.
const MISSES_MAX: usize = 20;

/// The recorded network of a run. Requests arrive one at a time, because each suspends the whole
/// run.
#[derive(Debug)]
pub struct RecordedNetwork {
    mode: Mode,
    state: Mutex<Exchanges>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Record,
    /// Answers the recorded requests in the recorded order, and nothing else.
    Replay(SealedSecrets),
    /// Answers the recorded requests in any order, repeatedly if needed.
    Answer(SealedSecrets),
}

#[derive(Debug, Default)]
struct Exchanges {
    exchanges: Vec<(RecordedExchange, Vec<u8>)>,
    used: Vec<bool>,
    next: usize,
    bytes: u64,
    misses: Vec<Miss>,
}

/// A request that the recording does not contain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Miss {
    /// The method and URL.
    pub request: String,
    /// The fields in which the closest recorded request differs, such as `url` or `headers`; empty
    /// if nothing was recorded.
    pub differs: Vec<String>,
    /// The recorded request and this one, as a unified diff.
    pub diff: String,
}

/// A response, or why there is none, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedResponse {
    /// The response, or why there is none.
    pub answer: Answer,
    /// The body.
    pub body: Vec<u8>,
    /// The time that it took, in nanoseconds.
    pub took: u64,
}

impl RecordedNetwork {
    /// Creates a network that records.
    pub fn new_recording() -> RecordedNetwork {
        RecordedNetwork { mode: Mode::Record, state: Mutex::default() }
    }

    /// Creates a network that answers requests in the recorded order only.
    pub fn new_replay(
        exchanges: Vec<(RecordedExchange, Vec<u8>)>,
        sealed: &SealedSecrets,
    ) -> RecordedNetwork {
        RecordedNetwork::with_exchanges(Mode::Replay(sealed.clone()), exchanges)
    }

    /// Creates a network that answers the recorded requests in any order.
    pub fn new_answering(
        exchanges: Vec<(RecordedExchange, Vec<u8>)>,
        sealed: &SealedSecrets,
    ) -> RecordedNetwork {
        RecordedNetwork::with_exchanges(Mode::Answer(sealed.clone()), exchanges)
    }

    fn with_exchanges(mode: Mode, exchanges: Vec<(RecordedExchange, Vec<u8>)>) -> RecordedNetwork {
        let used = vec![false; exchanges.len()];
        RecordedNetwork {
            mode,
            state: Mutex::new(Exchanges { exchanges, used, ..Exchanges::default() }),
        }
    }

    /// Checks whether requests are sent.
    pub fn is_recording(&self) -> bool {
        self.mode == Mode::Record
    }

    /// Checks whether an unrecorded request ends the run, because the replay must be identical.
    pub fn is_strict(&self) -> bool {
        matches!(self.mode, Mode::Replay(_))
    }

    /// Records an exchange.
    ///
    /// # Errors
    /// The recording would become too large.
    pub fn record(&self, exchange: RecordedExchange, body: Vec<u8>) -> Result<(), String> {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(body.len() as u64);
        if state.bytes > BODIES_MAX {
            return Err(format!(
                "a recording holds at most {} of responses",
                show_size(BODIES_MAX)
            ));
        }
        state.exchanges.push((exchange, body));
        Ok(())
    }

    /// Returns the recorded response to a request.
    ///
    /// # Errors
    /// The recording does not contain the request.
    pub fn answer(&self, request: &RecordedRequest) -> Result<RecordedResponse, Miss> {
        let (Mode::Replay(sealed) | Mode::Answer(sealed)) = &self.mode else {
            return Err(Miss::of(request, None, &SealedSecrets::default()));
        };
        let mut state = self.state();
        let matches = |recorded: &RecordedRequest| is_same(recorded, request, &sealed.salt);
        let found = match &self.mode {
            Mode::Answer(_) => {
                let equal = || {
                    (0..state.exchanges.len())
                        .filter(|index| matches(&state.exchanges[*index].0.request))
                };
                // Each recorded response once, then the last one repeatedly.
                equal().find(|index| !state.used[*index]).or_else(|| equal().next_back())
            }
            _ => Some(state.next).filter(|next| {
                state.exchanges.get(*next).is_some_and(|(exchange, _)| matches(&exchange.request))
            }),
        };
        if let Some(index) = found {
            state.used[index] = true;
            state.next = index + 1;
            let (exchange, body) = &state.exchanges[index];
            return Ok(RecordedResponse {
                answer: exchange.response.clone(),
                body: body.clone(),
                took: exchange.took,
            });
        }
        let nearest = match &self.mode {
            Mode::Answer(_) => nearest(&state.exchanges, request, &sealed.salt),
            _ => state.exchanges.get(state.next).map(|(exchange, _)| &exchange.request),
        };
        let miss = Miss::of(request, nearest, sealed);
        if state.misses.len() < MISSES_MAX {
            state.misses.push(miss.clone());
        }
        Err(miss)
    }

    /// Takes the recorded exchanges.
    pub fn take_exchanges(&self) -> Vec<(RecordedExchange, Vec<u8>)> {
        std::mem::take(&mut self.state().exchanges)
    }

    /// Returns the first requests that were not recorded.
    pub fn misses(&self) -> Vec<Miss> {
        self.state().misses.clone()
    }

    /// Returns the number of recorded requests, and how many of them were repeated.
    pub fn progress(&self) -> (usize, usize) {
        let state = self.state();
        (state.exchanges.len(), state.used.iter().filter(|used| **used).count())
    }

    fn state(&self) -> MutexGuard<'_, Exchanges> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Miss {
    fn of(
        request: &RecordedRequest,
        nearest: Option<&RecordedRequest>,
        sealed: &SealedSecrets,
    ) -> Miss {
        let label = format!("{} {}", request.method, request.url);
        let after = redacted_lines(request, request, sealed);
        let before =
            nearest.map_or_else(String::new, |nearest| redacted_lines(nearest, request, sealed));
        let diff = TextDiff::from_lines(&before, &after)
            .unified_diff()
            .context_radius(20)
            .header("recorded", "requested")
            .to_string();
        let Some(nearest) = nearest else {
            return Miss { request: label, differs: Vec::new(), diff };
        };
        let salt = &sealed.salt;
        let fields = [
            ("method", nearest.method == request.method),
            ("url", nearest.url == request.url),
            ("headers", same_fields(&nearest.headers, &request.headers, salt)),
            ("body", nearest.body == request.body),
            ("trailers", same_fields(&nearest.trailers, &request.trailers, salt)),
        ];
        let differs =
            fields.into_iter().filter(|(_, same)| !same).map(|(name, _)| name.to_owned()).collect();
        Miss { request: label, differs, diff }
    }
}

fn is_same(recorded: &RecordedRequest, request: &RecordedRequest, salt: &str) -> bool {
    recorded.method == request.method
        && recorded.url == request.url
        && recorded.body == request.body
        && same_fields(&recorded.headers, &request.headers, salt)
        && same_fields(&recorded.trailers, &request.trailers, salt)
}

fn same_fields(recorded: &[Header], request: &[Header], salt: &str) -> bool {
    recorded.len() == request.len()
        && recorded
            .iter()
            .zip(request)
            .all(|(recorded, request)| same_field(recorded, request, salt))
}

fn same_field(recorded: &Header, request: &Header, salt: &str) -> bool {
    recorded.name == request.name
        && match (&recorded.secret, &request.value) {
            (Some(secret), Some(Output(value))) => seal::digest(salt, value) == *secret,
            _ => recorded.value == request.value,
        }
}

/// Returns the recorded request that is most similar to another one.
fn nearest<'a>(
    exchanges: &'a [(RecordedExchange, Vec<u8>)],
    request: &RecordedRequest,
    salt: &str,
) -> Option<&'a RecordedRequest> {
    let likeness = |recorded: &RecordedRequest| {
        let equal = |same: bool| if same { 1.0 } else { 0.0 };
        let fields = recorded
            .headers
            .iter()
            .filter(|field| request.headers.iter().any(|other| same_field(field, other, salt)))
            .count();
        let all = recorded.headers.len().max(request.headers.len()).max(1);
        4.0 * strsim::jaro_winkler(&recorded.url, &request.url)
            + equal(recorded.method == request.method)
            + equal(recorded.body == request.body)
            + fields as f64 / all as f64
    };
    let requests = exchanges.iter().map(|(exchange, _)| &exchange.request);
    requests.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// Formats a request as lines. Of a secret field, shows only
/// whether it matches the one in `request`.
fn redacted_lines(
    shown: &RecordedRequest,
    request: &RecordedRequest,
    sealed: &SealedSecrets,
) -> String {
    let field = |field: &Header| {
        if field.secret.is_none() && !sealed.headers.contains(&field.name) {
            return line(field);
        }
        let same = field.secret.is_none()
            || request.headers.iter().any(|other| same_field(field, other, &sealed.salt));
        format!("{}: {}\n", field.name, if same { "(secret)" } else { "(different secret)" })
    };
    let fields = |fields: &[Header]| fields.iter().map(field).collect::<String>();
    let body = &shown.body;
    let (headers, trailers) = (fields(&shown.headers), fields(&shown.trailers));
    format!(
        "{} {}\n{headers}body: {} bytes, {}\n{trailers}",
        shown.method, shown.url, body.bytes, body.digest
    )
}

fn line(field: &Header) -> String {
    let value = field.value.as_ref().map_or_else(String::new, |value| value.text().into_owned());
    format!("{}: {value}\n", field.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{BlobDigest, Head};

    fn request(method: &str, url: &str, headers: &[(&str, &str)]) -> RecordedRequest {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).to_owned(),
            value: Some(Output(value.as_bytes().to_vec())),
            secret: None,
        };
        RecordedRequest {
            method: method.into(),
            url: url.into(),
            headers: headers.iter().map(header).collect(),
            body: BlobDigest::of(b""),
            trailers: Vec::new(),
        }
    }

    fn recorded(request: RecordedRequest, status: u16) -> (RecordedExchange, Vec<u8>) {
        let head =
            Head { status, headers: Vec::new(), body: BlobDigest::of(b"b"), trailers: Vec::new() };
        (
            RecordedExchange {
                request,
                response: Answer { head: Some(head), error: None },
                took: 5,
            },
            b"b".to_vec(),
        )
    }

    fn status(response: Result<RecordedResponse, Miss>) -> u16 {
        response.unwrap().answer.head.unwrap().status
    }

    #[test]
    fn replays_answer_only_in_order() {
        let (a, b) = (request("GET", "http://h/a", &[]), request("GET", "http://h/b", &[]));
        let network = RecordedNetwork::new_replay(
            vec![recorded(a.clone(), 200), recorded(b.clone(), 201)],
            &SealedSecrets::default(),
        );
        let miss = network.answer(&b).unwrap_err();
        assert_eq!(
            (miss.differs, miss.request),
            (vec!["url".to_owned()], "GET http://h/b".to_owned())
        );
        assert!(miss.diff.contains("-GET http://h/a\n+GET http://h/b\n"), "{}", miss.diff);
        assert_eq!((status(network.answer(&a)), status(network.answer(&b))), (200, 201));
        assert!(network.answer(&b).unwrap_err().differs.is_empty(), "no exchange remains");
        assert_eq!((network.progress(), network.misses().len()), ((2, 2), 2));
    }

    #[test]
    fn recorded_answers_match_in_any_order() {
        let (a, b) = (request("GET", "http://h/a", &[]), request("GET", "http://h/b", &[]));
        let network = RecordedNetwork::new_answering(
            vec![recorded(a.clone(), 200), recorded(b.clone(), 201), recorded(a.clone(), 202)],
            &SealedSecrets::default(),
        );
        let all: Vec<u16> =
            [&b, &a, &a, &a, &b].map(|request| status(network.answer(request))).to_vec();
        assert_eq!(all, [201, 200, 202, 202, 201]);
    }

    #[test]
    fn misses_show_the_nearest_record_without_secrets() {
        let sealed = SealedSecrets {
            salt: "salt".into(),
            headers: vec!["authorization".into()],
            ..SealedSecrets::default()
        };
        let mut known =
            request("GET", "http://h/users/1", &[("accept", "x"), ("authorization", "")]);
        known.headers[1] = Header {
            name: "authorization".into(),
            value: None,
            secret: Some(seal::digest("salt", b"Bearer t")),
        };
        let network = RecordedNetwork::new_answering(
            vec![recorded(request("POST", "http://other/", &[]), 200), recorded(known, 201)],
            &sealed,
        );
        assert_eq!(
            status(network.answer(&request(
                "GET",
                "http://h/users/1",
                &[("accept", "x"), ("authorization", "Bearer t")]
            ))),
            201
        );
        let miss = network
            .answer(&request(
                "GET",
                "http://h/users/1",
                &[("accept", "y"), ("authorization", "Bearer t")],
            ))
            .unwrap_err();
        assert_eq!(miss.differs, ["headers"]);
        assert!(
            miss.diff.contains("-accept: x\n+accept: y\n") && !miss.diff.contains("Bearer"),
            "{}",
            miss.diff
        );
        let miss = network
            .answer(&request(
                "GET",
                "http://h/users/1",
                &[("accept", "x"), ("authorization", "Bearer u")],
            ))
            .unwrap_err();
        assert!(
            miss.diff.contains("-authorization: (different secret)\n+authorization: (secret)\n"),
            "{}",
            miss.diff
        );
    }

    #[test]
    fn oversized_recordings_are_refused() {
        let network = RecordedNetwork::new_recording();
        network.state().bytes = BODIES_MAX - 1;
        let (exchange, _) = recorded(request("GET", "http://h/", &[]), 200);
        assert_eq!(network.record(exchange.clone(), vec![0]), Ok(()));
        assert!(network.record(exchange, vec![0]).unwrap_err().contains("256 MiB"));
    }
}
