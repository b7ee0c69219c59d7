//! A client of the run API: one connection, on which it submits one run after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the server may take for an answer. `wait` answers after 30 seconds at the latest.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The longest pause after an answer that names one, and the pause after an answer that does not.
const PAUSE_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// The most bytes of a line, and of a body.
const LINE: u64 = 8 << 10;
const BODY: u64 = 16 << 20;

/// How long a run took, or the code of what went wrong.
pub(super) type Ended = Result<Duration, String>;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Component,
    Python,
    Bash,
    JavaScript,
}

impl Kind {
    /// The kinds of the mixed phase.
    pub(super) const MIXED: [Kind; 4] =
        [Kind::Component, Kind::Python, Kind::Bash, Kind::JavaScript];

    /// The script of the skill `hello`, for kinds that run one.
    pub(super) fn script(self) -> Option<&'static str> {
        match self {
            Kind::Component => None,
            Kind::Python => Some("scripts/hello.py"),
            Kind::Bash => Some("scripts/hello.sh"),
            Kind::JavaScript => Some("scripts/hello.js"),
        }
    }

    fn submission(self) -> Value {
        match self.script() {
            Some(script) => json!({ "skill": "hello", "target": { "script": script } }),
            None => json!({ "skill": crate::targets::component().skill }),
        }
    }
}

pub(super) struct Client<'a> {
    port: u16,
    token: &'a str,
    stream: Option<BufReader<TcpStream>>,
}

struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body: Value,
}

impl<'a> Client<'a> {
    pub(super) fn new(port: u16, token: &'a str) -> Client<'a> {
        Client { port, token, stream: None }
    }

    /// Submits a run, waits for its end and, with `fetch`, gets its result. Returns the time until
    /// the end is known.
    pub(super) fn run(&mut self, kind: Kind, fetch: bool) -> Ended {
        let start = Instant::now();
        let id = self.submit_run(kind)?;
        let run = loop {
            let run = self.get(&format!("/v1/runs/{id}/wait?timeout=30"))?;
            if run["ended"].is_string() {
                break run;
            }
        };
        let time = start.elapsed();
        if run["status"] != "succeeded" {
            return Err(format!("run {} {}", run["status"], run["outcome"]));
        }
        if fetch {
            self.get(&format!("/v1/runs/{id}/result"))?;
        }
        Ok(time)
    }

    /// Submits a run, and does not wait for it.
    pub(super) fn submit(&mut self, kind: Kind) {
        // A flood does not heed what the server says, except that it must connect again.
        drop(self.call("POST", "/v1/runs", Some(&kind.submission())));
    }

    /// Submits a run, and returns its id.
    fn submit_run(&mut self, kind: Kind) -> Result<String, String> {
        let answer = self.checked("POST", "/v1/runs", Some(&kind.submission()))?;
        answer["id"].as_str().map(str::to_owned).ok_or_else(|| "answer without an id".into())
    }

    fn get(&mut self, path: &str) -> Result<Value, String> {
        self.checked("GET", path, None)
    }

    /// Makes a call. Returns the code of a problem, after the pause that the server asks for.
    fn checked(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let answer = self.call(method, path, body).map_err(|error| {
            std::thread::sleep(PAUSE);
            format!("connection: {}", error.kind())
        })?;
        if answer.status < 300 {
            return Ok(answer.body);
        }
        std::thread::sleep(answer.retry_after.map_or(PAUSE, |pause| pause.min(PAUSE_MAX)));
        Err(format!("{} {}", answer.status, answer.body["code"].as_str().unwrap_or("unknown")))
    }

    /// Makes a call, on the connection of the last one if there is one.
    fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (port, token) = (self.port, self.token);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let is_reused = self.stream.is_some();
        let mut answer = self.exchange(request.as_bytes());
        if answer.is_err() && is_reused {
            // The server has closed a connection that was idle.
            self.stream = None;
            answer = self.exchange(request.as_bytes());
        }
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }

    fn exchange(&mut self, request: &[u8]) -> std::io::Result<Answer> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(connect(self.port)?),
        };
        stream.get_mut().write_all(request)?;
        let status = line(stream)?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| invalid("status"))?;
        let (mut length, mut retry_after) = (0, None);
        loop {
            let line = line(stream)?;
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    length = value.trim().parse().map_err(|_| invalid("length"))?;
                }
                "retry-after" => retry_after = value.trim().parse().ok().map(Duration::from_secs),
                "transfer-encoding" => return Err(invalid("transfer encoding")),
                _ => {}
            }
        }
        if length > BODY {
            return Err(invalid("length"));
        }
        let mut body = Vec::new();
        stream.by_ref().take(length).read_to_end(&mut body)?;
        Ok(Answer { status, retry_after, body: serde_json::from_slice(&body).unwrap_or_default() })
    }
}

fn connect(port: u16) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(BufReader::new(stream))
}

/// Reads a line, without its end.
fn line(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    match stream.take(LINE).read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn invalid(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, format!("invalid {what}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn code_of_a_problem_is_what_went_wrong() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            for answer in [
                "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 21\r\n\r\n{\"code\":\"queue-full\"}",
                "HTTP/1.1 202 Accepted\r\ncontent-length: 11\r\n\r\n{\"id\": \"a\"}",
            ] {
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let mut client = Client::new(port, "t");
        assert_eq!(client.submit_run(Kind::Python), Err("429 queue-full".to_owned()));
        assert_eq!(client.submit_run(Kind::Component), Ok("a".to_owned()));
        server.join().unwrap();
    }
}
