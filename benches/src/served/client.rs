//! A client of `skillhost serve`: one connection, on which it makes one call after the other.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;
use skillhost_toolchain::Error;

use crate::measure::nanoseconds;

/// How long the server may take for a part of an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The most bytes of a line, and of a chunk of an answer.
const LINE: u64 = 8 << 10;
const CHUNK: usize = 1 << 20;
/// The most header lines, and chunks, of an answer.
const PARTS: usize = 100;

pub(super) struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
}

impl Client {
    /// Connects to the server at a port.
    pub(super) fn connect(port: u16) -> Result<Client, Error> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        let stream = stream.map_err(Error::context("connect to the server"))?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
        set.map_err(Error::context("connect to the server"))?;
        Ok(Client { stream: BufReader::new(stream), request: request(port) })
    }

    /// Runs the skill, and returns the time in nanoseconds.
    pub(super) fn call(&mut self) -> Result<u64, Error> {
        let start = Instant::now();
        let written = self.stream.get_mut().write_all(&self.request);
        written.map_err(Error::context("send a request"))?;
        let answer = self.answer()?;
        let time = nanoseconds(start);
        let text = String::from_utf8_lossy(&answer);
        if text.contains(r#""isError":false"#) {
            Ok(time)
        } else {
            Err(Error::new(format!("the run failed: {}", text.trim())))
        }
    }

    /// Reads an answer, and returns its body.
    fn answer(&mut self) -> Result<Vec<u8>, Error> {
        let status = self.line()?;
        let mut is_chunked = false;
        for _ in 0..PARTS {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            is_chunked |= line.eq_ignore_ascii_case("transfer-encoding: chunked");
        }
        if !status.contains(" 200 ") || !is_chunked {
            return Err(Error::new(format!("the server answered `{status}`")));
        }
        let mut body = Vec::new();
        for _ in 0..PARTS {
            let size = self.line()?;
            let size = usize::from_str_radix(&size, 16).ok().filter(|size| *size <= CHUNK);
            let size = size.ok_or_else(|| Error::new("the answer has an invalid chunk"))?;
            let mut chunk = vec![0; size];
            self.stream.read_exact(&mut chunk).map_err(Error::context("read an answer"))?;
            body.extend(chunk);
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
        Err(Error::new("the answer has too many chunks"))
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        let read = (&mut self.stream).take(LINE).read_line(&mut line);
        match read.map_err(Error::context("read an answer"))? {
            0 => Err(Error::new("the server closed the connection")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

/// Returns a request without a session, as clients of revision 2026-07-28 send it.
fn request(port: u16) -> Vec<u8> {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": "run_skill",
            "arguments": { "name": super::component().skill },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    })
    .to_string();
    let head = [
        "POST /mcp HTTP/1.1".to_owned(),
        format!("Host: 127.0.0.1:{port}"),
        "Content-Type: application/json".into(),
        "Accept: application/json, text/event-stream".into(),
        "MCP-Protocol-Version: 2026-07-28".into(),
        "Mcp-Method: tools/call".into(),
        "Mcp-Name: run_skill".into(),
        format!("Content-Length: {}", body.len()),
    ];
    format!("{}\r\n\r\n{body}", head.join("\r\n")).into_bytes()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns the result of a call that a server answers with this text.
    fn answered(answer: &'static str) -> Result<u64, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap().port()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        client.call()
    }

    #[test]
    fn only_answers_of_successful_runs_count() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let ran: &str = "11\r\n{\"isError\":false}\r\n0\r\n\r\n";
        assert!(answered(Box::leak(format!("{head}{ran}").into_boxed_str())).is_ok());
        for (answer, why) in [
            (format!("{head}10\r\n{{\"isError\":true}}\r\n0\r\n\r\n"), "the run failed"),
            (format!("{head}x\r\n"), "invalid chunk"),
            ("HTTP/1.1 503 Busy\r\n\r\n".to_owned(), "503 Busy"),
        ] {
            let error = answered(Box::leak(answer.into_boxed_str())).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
