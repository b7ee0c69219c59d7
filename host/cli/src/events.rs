//! Server-sent events of the run API: reading a stream, and continuing one that breaks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;

use crate::client::{Client, ClientError, refusal};
use crate::error::{CliError, Exit};
use crate::output;

/// The number of failures in a row after which the client gives up.
const RETRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// A stream that stayed open this long is not a failure, even if it carried no events.
const QUIET: Duration = Duration::from_secs(30);
/// The maximum length of a line, in bytes: the server sends 32 KiB of output, which JSON may escape.
const LINE: usize = 1 << 20;
/// The maximum size of an error response, in bytes.
const REFUSAL: usize = 64 << 10;

/// One event of a stream.
pub(crate) struct Event {
    /// Its name, such as `stdout`.
    pub(crate) name: String,
    /// Its data, JSON.
    pub(crate) data: String,
}

/// Handles an event. Returns a value to stop reading.
type OnEvent<'a, T> = &'a mut dyn FnMut(Event) -> Result<Option<T>, CliError>;

/// Handles an interrupt by the user.
pub(crate) type OnInterrupt<'a> = &'a dyn Fn() -> Result<(), ClientError>;

/// Reads the events at a path until `on_event` returns a value or an error. Continues a stream that ends
/// after the last event.
pub(crate) fn follow<T>(
    client: &Client,
    path: &str,
    on_event: OnEvent<'_, T>,
    on_interrupt: Option<OnInterrupt<'_>>,
) -> Result<T, ClientError> {
    let mut parser = Parser::default();
    let mut failures = 0;
    loop {
        let (before, began) = (parser.last.clone(), Instant::now());
        let streamed = client.runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted(), if on_interrupt.is_some() => None,
                streamed = parser.stream(client, path, on_event) => Some(streamed),
            }
        });
        let Some(streamed) = streamed else {
            if let Some(on_interrupt) = on_interrupt {
                on_interrupt()?;
            }
            continue;
        };
        match streamed {
            Ok(Some(found)) => return Ok(found?),
            // The server bounds the time of a stream.
            Ok(None) => {}
            Err(ClientError::Other(error)) if failures < RETRIES => {
                output::info(|| format!("the stream broke: {}", error.message));
            }
            Err(error) => return Err(error),
        }
        let is_failure = parser.last == before && began.elapsed() < QUIET;
        failures = if is_failure { failures + 1 } else { 0 };
        if failures >= RETRIES {
            let message = "the server ends the stream again and again";
            return Err(CliError::new(Exit::Io, message).into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Resolves when the user interrupts this command.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// The state of a stream.
#[derive(Default)]
struct Parser {
    /// The id of the last complete event that had one.
    last: Option<String>,
    line: Vec<u8>,
    name: String,
    data: String,
    id: String,
}

impl Parser {
    /// Reads one stream until it ends or `on_event` returns a value or an error. An error of `on_event`
    /// is not one of the stream, which must not be continued after it.
    async fn stream<T>(
        &mut self,
        client: &Client,
        path: &str,
        on_event: &mut dyn FnMut(Event) -> Result<Option<T>, CliError>,
    ) -> Result<Option<Result<T, CliError>>, ClientError> {
        *self = Parser { last: self.last.take(), ..Parser::default() };
        let last = self.last.clone();
        let headers: Vec<(&'static str, &str)> =
            last.as_deref().map(|last| ("last-event-id", last)).into_iter().collect();
        let answer = client.send(Method::GET, path, &headers, None, Bytes::new()).await?;
        let status = answer.status();
        let mut body = answer.into_body();
        if !status.is_success() {
            let read = http_body_util::Limited::new(body, REFUSAL).collect().await;
            // Without a readable body, the status still says what is wrong.
            let bytes = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(refusal(status, &bytes));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| CliError::io("read the events", error))?;
            let Ok(data) = frame.into_data() else { continue };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(part);
                if self.line.len() > LINE {
                    let message = "the server sent an event that is too long";
                    return Err(CliError::new(Exit::Io, message).into());
                }
                if !part.ends_with(b"\n") {
                    continue;
                }
                if let Some(event) = self.end_of_line()
                    && let Some(found) = on_event(event).transpose()
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    fn end_of_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            let id = std::mem::take(&mut self.id);
            if !id.is_empty() {
                self.last = Some(id);
            }
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            return (!name.is_empty()).then_some(Event { name, data });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => self.data = value.to_owned(),
            "id" => self.id = value.to_owned(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events() {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        let text =
            "retry: 1000\n\n: alive\n\nid: 3\nevent: change\ndata: {\"a\": 1}\r\n\nevent:end\n\n";
        for line in text.split_inclusive('\n') {
            parser.line.extend_from_slice(line.as_bytes());
            events.extend(parser.end_of_line().map(|event| (event.name, event.data)));
        }
        let pair = |name: &str, data: &str| (name.to_owned(), data.to_owned());
        assert_eq!(events, [pair("change", "{\"a\": 1}"), pair("end", "")]);
        assert_eq!(parser.last.as_deref(), Some("3"));
    }
}
