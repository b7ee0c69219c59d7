//! The network of a run: recorded as it answers, or answering as it was recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use similar::TextDiff;

use super::{Answer, Asked, Exchange, Header, Sealed, seal};
use skillhost_policy::limits::show_size;
use skillhost_policy::outcome::Output;

/// Bytes of responses that one recording takes in.
pub const BODIES_MAX: u64 = 256 << 20;

/// Requests without an answer that are told in full.
const MISSES_MAX: usize = 20;

/// The network of a run. Requests come one after the other: each holds the whole run.
#[derive(Debug)]
pub struct Tape {
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Recording,
    /// Answers what was asked before, in the same order, and nothing else.
    Replaying(Sealed),
    /// Answers what was asked before, in any order, the same request as often as it is made.
    Answering(Sealed),
}

#[derive(Debug, Default)]
struct State {
    taken: Vec<(Exchange, Vec<u8>)>,
    used: Vec<bool>,
    next: usize,
    bytes: u64,
    misses: Vec<Miss>,
}

/// A request that the recording has no answer to.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Miss {
    /// Method and URL.
    pub request: String,
    /// The fields in which the nearest recorded request differs, such as `url` or `headers`; none
    /// where nothing was recorded.
    pub differs: Vec<String>,
    /// That request and this one, as a unified diff.
    pub diff: String,
}

/// A response, or why there is none, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// What came back.
    pub answer: Answer,
    /// The body.
    pub body: Vec<u8>,
    /// Nanoseconds.
    pub took: u64,
}

impl Tape {
    /// One that records.
    pub fn recording() -> Tape {
        Tape { kind: Kind::Recording, state: Mutex::default() }
    }

    /// One that answers as it was recorded, in that order.
    pub fn replaying(exchanges: Vec<(Exchange, Vec<u8>)>, sealed: &Sealed) -> Tape {
        Tape::of(Kind::Replaying(sealed.clone()), exchanges)
    }

    /// One that answers what was recorded, in any order.
    pub fn answering(exchanges: Vec<(Exchange, Vec<u8>)>, sealed: &Sealed) -> Tape {
        Tape::of(Kind::Answering(sealed.clone()), exchanges)
    }

    fn of(kind: Kind, taken: Vec<(Exchange, Vec<u8>)>) -> Tape {
        let used = vec![false; taken.len()];
        Tape { kind, state: Mutex::new(State { taken, used, ..State::default() }) }
    }

    /// Whether requests go out.
    pub fn is_recording(&self) -> bool {
        self.kind == Kind::Recording
    }

    /// Whether a request that is not in it ends the run: it is to be the same run again.
    pub fn is_strict(&self) -> bool {
        matches!(self.kind, Kind::Replaying(_))
    }

    /// Takes in an exchange.
    ///
    /// # Errors
    /// There is too much of it.
    pub fn record(&self, exchange: Exchange, body: Vec<u8>) -> Result<(), String> {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_add(body.len() as u64);
        if state.bytes > BODIES_MAX {
            return Err(format!(
                "a recording takes in {} of responses at most",
                show_size(BODIES_MAX)
            ));
        }
        state.taken.push((exchange, body));
        Ok(())
    }

    /// What was recorded for a request.
    ///
    /// # Errors
    /// Nothing was.
    pub fn answer(&self, asked: &Asked) -> Result<Played, Miss> {
        let (Kind::Replaying(sealed) | Kind::Answering(sealed)) = &self.kind else {
            return Err(Miss::of(asked, None, &Sealed::default()));
        };
        let mut state = self.state();
        let matches = |recorded: &Asked| is_same(recorded, asked, &sealed.salt);
        let found = match &self.kind {
            Kind::Answering(_) => {
                let equal = || {
                    (0..state.taken.len()).filter(|index| matches(&state.taken[*index].0.request))
                };
                // Each in turn; then the last of them again.
                equal().find(|index| !state.used[*index]).or_else(|| equal().next_back())
            }
            _ => Some(state.next).filter(|next| {
                state.taken.get(*next).is_some_and(|(exchange, _)| matches(&exchange.request))
            }),
        };
        if let Some(index) = found {
            state.used[index] = true;
            state.next = index + 1;
            let (exchange, body) = &state.taken[index];
            return Ok(Played {
                answer: exchange.response.clone(),
                body: body.clone(),
                took: exchange.took,
            });
        }
        let nearest = match &self.kind {
            Kind::Answering(_) => nearest(&state.taken, asked, &sealed.salt),
            _ => state.taken.get(state.next).map(|(exchange, _)| &exchange.request),
        };
        let miss = Miss::of(asked, nearest, sealed);
        if state.misses.len() < MISSES_MAX {
            state.misses.push(miss.clone());
        }
        Err(miss)
    }

    /// What was recorded.
    pub fn taken(&self) -> Vec<(Exchange, Vec<u8>)> {
        std::mem::take(&mut self.state().taken)
    }

    /// The first requests that had no answer.
    pub fn misses(&self) -> Vec<Miss> {
        self.state().misses.clone()
    }

    /// How many requests were recorded, and how many of them were made again.
    pub fn progress(&self) -> (usize, usize) {
        let state = self.state();
        (state.taken.len(), state.used.iter().filter(|used| **used).count())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Miss {
    fn of(asked: &Asked, nearest: Option<&Asked>, sealed: &Sealed) -> Miss {
        let request = format!("{} {}", asked.method, asked.url);
        let after = shown(asked, asked, sealed);
        let before = nearest.map_or_else(String::new, |nearest| shown(nearest, asked, sealed));
        let diff = TextDiff::from_lines(&before, &after)
            .unified_diff()
            .context_radius(20)
            .header("recorded", "asked for")
            .to_string();
        let Some(nearest) = nearest else { return Miss { request, differs: Vec::new(), diff } };
        let salt = &sealed.salt;
        let fields = [
            ("method", nearest.method == asked.method),
            ("url", nearest.url == asked.url),
            ("headers", same_fields(&nearest.headers, &asked.headers, salt)),
            ("body", nearest.body == asked.body),
            ("trailers", same_fields(&nearest.trailers, &asked.trailers, salt)),
        ];
        let differs =
            fields.into_iter().filter(|(_, same)| !same).map(|(name, _)| name.to_owned()).collect();
        Miss { request, differs, diff }
    }
}

fn is_same(recorded: &Asked, asked: &Asked, salt: &str) -> bool {
    recorded.method == asked.method
        && recorded.url == asked.url
        && recorded.body == asked.body
        && same_fields(&recorded.headers, &asked.headers, salt)
        && same_fields(&recorded.trailers, &asked.trailers, salt)
}

fn same_fields(recorded: &[Header], asked: &[Header], salt: &str) -> bool {
    recorded.len() == asked.len()
        && recorded.iter().zip(asked).all(|(recorded, asked)| same_field(recorded, asked, salt))
}

fn same_field(recorded: &Header, asked: &Header, salt: &str) -> bool {
    recorded.name == asked.name
        && match (&recorded.secret, &asked.value) {
            (Some(secret), Some(Output(value))) => seal::digest(salt, value) == *secret,
            _ => recorded.value == asked.value,
        }
}

/// The recorded request that has most in common with another one.
fn nearest<'a>(taken: &'a [(Exchange, Vec<u8>)], asked: &Asked, salt: &str) -> Option<&'a Asked> {
    let likeness = |recorded: &Asked| {
        let equal = |same: bool| if same { 1.0 } else { 0.0 };
        let fields = recorded
            .headers
            .iter()
            .filter(|field| asked.headers.iter().any(|other| same_field(field, other, salt)))
            .count();
        let all = recorded.headers.len().max(asked.headers.len()).max(1);
        4.0 * strsim::jaro_winkler(&recorded.url, &asked.url)
            + equal(recorded.method == asked.method)
            + equal(recorded.body == asked.body)
            + fields as f64 / all as f64
    };
    let requests = taken.iter().map(|(exchange, _)| &exchange.request);
    requests.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// A request as lines. Of a secret field only whether it is the one that was recorded.
fn shown(request: &Asked, asked: &Asked, sealed: &Sealed) -> String {
    let field = |field: &Header| {
        if field.secret.is_none() && !sealed.headers.contains(&field.name) {
            return line(field);
        }
        let same = field.secret.is_none()
            || asked.headers.iter().any(|other| same_field(field, other, &sealed.salt));
        format!("{}: {}\n", field.name, if same { "(secret)" } else { "(another secret)" })
    };
    let fields = |fields: &[Header]| fields.iter().map(field).collect::<String>();
    let body = &request.body;
    let (headers, trailers) = (fields(&request.headers), fields(&request.trailers));
    format!(
        "{} {}\n{headers}body: {} bytes, {}\n{trailers}",
        request.method, request.url, body.bytes, body.digest
    )
}

fn line(field: &Header) -> String {
    let value = field.value.as_ref().map_or_else(String::new, |value| value.text().into_owned());
    format!("{}: {value}\n", field.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Digested, Head};

    fn asked(method: &str, url: &str, headers: &[(&str, &str)]) -> Asked {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).to_owned(),
            value: Some(Output(value.as_bytes().to_vec())),
            secret: None,
        };
        Asked {
            method: method.into(),
            url: url.into(),
            headers: headers.iter().map(header).collect(),
            body: Digested::of(b""),
            trailers: Vec::new(),
        }
    }

    fn recorded(request: Asked, status: u16) -> (Exchange, Vec<u8>) {
        let head =
            Head { status, headers: Vec::new(), body: Digested::of(b"b"), trailers: Vec::new() };
        (
            Exchange { request, response: Answer { head: Some(head), error: None }, took: 5 },
            b"b".to_vec(),
        )
    }

    fn status(played: Result<Played, Miss>) -> u16 {
        played.unwrap().answer.head.unwrap().status
    }

    #[test]
    fn a_replay_answers_in_order_alone() {
        let (a, b) = (asked("GET", "http://h/a", &[]), asked("GET", "http://h/b", &[]));
        let tape = Tape::replaying(
            vec![recorded(a.clone(), 200), recorded(b.clone(), 201)],
            &Sealed::default(),
        );
        let miss = tape.answer(&b).unwrap_err();
        assert_eq!(
            (miss.differs, miss.request),
            (vec!["url".to_owned()], "GET http://h/b".to_owned())
        );
        assert!(miss.diff.contains("-GET http://h/a\n+GET http://h/b\n"), "{}", miss.diff);
        assert_eq!((status(tape.answer(&a)), status(tape.answer(&b))), (200, 201));
        assert!(tape.answer(&b).unwrap_err().differs.is_empty(), "there is no more");
        assert_eq!((tape.progress(), tape.misses().len()), ((2, 2), 2));
    }

    #[test]
    fn answers_come_in_any_order_and_the_last_again() {
        let (a, b) = (asked("GET", "http://h/a", &[]), asked("GET", "http://h/b", &[]));
        let tape = Tape::answering(
            vec![recorded(a.clone(), 200), recorded(b.clone(), 201), recorded(a.clone(), 202)],
            &Sealed::default(),
        );
        let all: Vec<u16> = [&b, &a, &a, &a, &b].map(|asked| status(tape.answer(asked))).to_vec();
        assert_eq!(all, [201, 200, 202, 202, 201]);
    }

    #[test]
    fn the_nearest_is_the_one_that_is_shown_and_a_secret_is_not() {
        let sealed = Sealed {
            salt: "salt".into(),
            headers: vec!["authorization".into()],
            ..Sealed::default()
        };
        let mut known = asked("GET", "http://h/users/1", &[("accept", "x"), ("authorization", "")]);
        known.headers[1] = Header {
            name: "authorization".into(),
            value: None,
            secret: Some(seal::digest("salt", b"Bearer t")),
        };
        let tape = Tape::answering(
            vec![recorded(asked("POST", "http://other/", &[]), 200), recorded(known, 201)],
            &sealed,
        );
        assert_eq!(
            status(tape.answer(&asked(
                "GET",
                "http://h/users/1",
                &[("accept", "x"), ("authorization", "Bearer t")]
            ))),
            201
        );
        let miss = tape
            .answer(&asked(
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
        let miss = tape
            .answer(&asked(
                "GET",
                "http://h/users/1",
                &[("accept", "x"), ("authorization", "Bearer u")],
            ))
            .unwrap_err();
        assert!(
            miss.diff.contains("-authorization: (another secret)\n+authorization: (secret)\n"),
            "{}",
            miss.diff
        );
    }

    #[test]
    fn too_much_is_refused() {
        let tape = Tape::recording();
        tape.state().bytes = BODIES_MAX - 1;
        let (exchange, _) = recorded(asked("GET", "http://h/", &[]), 200);
        assert_eq!(tape.record(exchange.clone(), vec![0]), Ok(()));
        assert!(tape.record(exchange, vec![0]).unwrap_err().contains("256 MiB"));
    }
}
