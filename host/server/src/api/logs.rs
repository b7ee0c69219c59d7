//! Streams the output of a run as server-sent events, from where a client was.
//!
//! The output is stored, so a stream starts anywhere, also after the end of the run and after a
//! restart of the server. The id of an event is the position after it in both streams.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::request::Parts;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::Instant;

use super::body::{self, Answer};
use super::executor::valid_start;
use super::fleet::{Fleet, whole_characters};
use super::problem::{Problem, ProblemCode};
use super::sessions::Program;
use super::state::StreamName;
use super::tenant::Tenant;
use super::{Answered, ApiShared};
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::outcome::Output;

/// The most bytes of one event.
const EVENT: usize = 32 << 10;
/// How often the output of a run in progress is looked at.
const POLL: Duration = Duration::from_millis(50);
/// How often a run is looked at that has not ended, and that this server does not drive.
const NOT_LIVE: Duration = Duration::from_secs(1);
/// How often a stream without output says that it is alive, so that no proxy closes it.
const ALIVE: Duration = Duration::from_secs(15);

/// The position of a client in both streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    stdout: u64,
    stderr: u64,
}

/// A client that follows a run.
struct Follower {
    api: Arc<ApiShared>,
    tenant: Arc<Tenant>,
    id: String,
    /// The program of a session, if it is not a run.
    program: Option<Arc<Program>>,
    at: Position,
    to: Sender<Bytes>,
}

/// The client has gone.
struct Gone;

impl Position {
    /// Reads the id of an event.
    pub(super) fn parse(id: &str) -> Option<Position> {
        let (stdout, stderr) = id.split_once('-')?;
        Some(Position { stdout: stdout.parse().ok()?, stderr: stderr.parse().ok()? })
    }

    /// Returns where the client of a request continues.
    pub(super) fn of_request(head: &Parts) -> Answered<Position> {
        match head.headers.get("last-event-id").and_then(|id| id.to_str().ok()) {
            None => Ok(Position::default()),
            Some(id) => Position::parse(id).ok_or_else(|| {
                Problem::invalid("`Last-Event-ID` is not the id of an event of this stream")
            }),
        }
    }

    fn of(&mut self, stream: StreamName) -> &mut u64 {
        match stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
        }
    }
}

impl ApiShared {
    /// Starts to stream the output of a run.
    pub(super) async fn logs(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        at: Position,
    ) -> Answered<Answer> {
        self.look(tenant, id).await?;
        self.stream_logs(tenant, id, None, at)
    }

    /// Starts to stream the output of a run, or of a program of a session.
    pub(super) fn stream_logs(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        id: &str,
        program: Option<Arc<Program>>,
        at: Position,
    ) -> Answered<Answer> {
        let open = tenant.open_stream().ok_or_else(too_many)?;
        let (to, parts) = channel(8);
        let (api, tenant) = (self.clone(), tenant.clone());
        let follower = Follower { api, tenant, id: id.to_owned(), program, at, to };
        let within = self.options.bounds.stream;
        tokio::spawn(async move {
            let mut follower = follower;
            // A client that does not read must not keep the stream either.
            tokio::time::timeout(within, follower.follow()).await.ok();
        });
        let mut answer = body::of_stream("text/event-stream", parts, open);
        let no_store = http::HeaderValue::from_static("no-store");
        answer.headers_mut().insert(http::header::CACHE_CONTROL, no_store);
        Ok(answer)
    }
}

pub(super) fn too_many() -> Problem {
    // Those of other tenants may be in the way: then only time helps.
    let detail =
        "end another stream, upload or download, or another request that waits, or try again later";
    Problem::new(ProblemCode::TooManyStreams, detail).retry_after(1)
}

impl Follower {
    async fn follow(&mut self) -> Result<(), Gone> {
        self.send("retry: 1000\n\n".into()).await?;
        if let (Some(fleet), None) = (self.api.options.fleet.clone(), &self.program) {
            return self.follow_in(&fleet).await;
        }
        let mut alive = Instant::now();
        loop {
            // Asked before the output is read: what is written before the end is not missed. The
            // store is read once the run is live no more.
            let live = self.tenant.live(&self.id);
            let ended = match (&live, &self.program) {
                (Some(_), _) => None,
                (None, Some(program)) => Some(program.info()).filter(|run| run.status.has_ended()),
                (None, None) => {
                    let run = self.api.look(&self.tenant, &self.id).await.map_err(|_| Gone)?;
                    Some(run).filter(|run| run.status.has_ended())
                }
            };
            let is_new = self.drain(ended.is_some()).await?;
            if let Some(run) = ended {
                let data = serde_json::to_string(&run).unwrap_or_default();
                return self.event("end", &data).await;
            }
            if is_new {
                alive = Instant::now();
            } else if alive.elapsed() >= ALIVE {
                alive = Instant::now();
                self.send(": alive\n\n".into()).await?;
            }
            // Another server may continue a run that is not live: there is nothing to hurry for.
            let pause = if live.is_some() { POLL } else { NOT_LIVE };
            let ended = async {
                match &live {
                    Some(live) => {
                        let mut status = live.status.subscribe();
                        status.wait_for(|status| status.has_ended()).await.ok();
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ended => {}
                () = tokio::time::sleep(pause) => {}
                () = self.tenant.removed.cancelled() => return Err(Gone),
                () = self.to.closed() => return Err(Gone),
                // The client continues at the next server.
                () = self.api.closing.cancelled() => return Ok(()),
            }
        }
    }

    /// Follows a run of a fleet: the worker answers for its output until the run has ended.
    async fn follow_in(&mut self, fleet: &Arc<dyn Fleet>) -> Result<(), Gone> {
        let name = self.tenant.name.clone();
        let mut changes = fleet.watch(&name, &self.id).await.map_err(|_| Gone)?;
        let mut alive = Instant::now();
        loop {
            let run = fleet.get(&name, &self.id).await.map_err(|_| Gone)?.ok_or(Gone)?;
            if run.status.has_ended() {
                for stream in StreamName::ALL {
                    let Some(end) = &run.end else { continue };
                    let content =
                        if stream == StreamName::Stdout { &end.stdout } else { &end.stderr };
                    loop {
                        let (api, at) = (self.api.clone(), *self.at.of(stream));
                        let bytes = api.fleet_output(fleet, &self.tenant, content, at, EVENT);
                        let bytes = bytes.await.map_err(|_| Gone)?;
                        let is_last = bytes.len() < EVENT;
                        if !self.output(stream, bytes, is_last).await? {
                            break;
                        }
                    }
                }
                let run = self.api.look(&self.tenant, &self.id).await.map_err(|_| Gone)?;
                let data = serde_json::to_string(&run).unwrap_or_default();
                return self.event("end", &data).await;
            }
            let mut is_new = false;
            if run.status == RunStatus::Running
                && let Some(live) =
                    fleet.live_output(&name, &self.id, [self.at.stdout, self.at.stderr]).await
            {
                for (stream, bytes) in StreamName::ALL.into_iter().zip(live) {
                    is_new |= self.output(stream, bytes, false).await?;
                }
            }
            if is_new {
                alive = Instant::now();
            } else if alive.elapsed() >= ALIVE {
                alive = Instant::now();
                self.send(": alive\n\n".into()).await?;
            }
            let pause = if run.status == RunStatus::Running { POLL } else { NOT_LIVE };
            tokio::select! {
                _ = changes.next() => {}
                () = tokio::time::sleep(pause) => {}
                () = self.tenant.removed.cancelled() => return Err(Gone),
                () = self.to.closed() => return Err(Gone),
                () = self.api.closing.cancelled() => return Ok(()),
            }
        }
    }

    /// Sends some output. Returns whether there was any.
    async fn output(
        &mut self,
        stream: StreamName,
        bytes: Vec<u8>,
        is_last: bool,
    ) -> Result<bool, Gone> {
        // The rest of a character may still come.
        let bytes = whole_characters(bytes, is_last);
        if bytes.is_empty() {
            return Ok(false);
        }
        *self.at.of(stream) += bytes.len() as u64;
        let data = serde_json::to_string(&Output(bytes)).unwrap_or_default();
        self.event(stream.name(), &data).await?;
        Ok(true)
    }

    /// Sends what is new in both streams.
    async fn drain(&mut self, has_ended: bool) -> Result<bool, Gone> {
        let mut is_new = false;
        let (tenant, id) = (self.tenant.clone(), self.id.clone());
        let outputs = move || StreamName::ALL.map(|stream| tenant.state.output(&id, stream).ok());
        let outputs = tokio::task::spawn_blocking(outputs).await.map_err(|_| Gone)?;
        for (stream, output) in StreamName::ALL.into_iter().zip(outputs) {
            // A run has no output until it starts.
            let Some(output) = output else { continue };
            loop {
                let mut bytes = output.at(*self.at.of(stream), EVENT).map_err(|_| Gone)?;
                let count = bytes.len();
                if count == 0 {
                    break;
                }
                // The rest of a character may still come.
                if !has_ended || count == EVENT {
                    bytes = valid_start(bytes);
                    if bytes.is_empty() {
                        break;
                    }
                }
                *self.at.of(stream) += bytes.len() as u64;
                let data = serde_json::to_string(&Output(bytes)).unwrap_or_default();
                self.event(stream.name(), &data).await?;
                is_new = true;
            }
        }
        Ok(is_new)
    }

    async fn event(&mut self, name: &str, data: &str) -> Result<(), Gone> {
        let mut text = String::with_capacity(data.len() + 64);
        let Position { stdout, stderr } = self.at;
        // JSON on one line has no line ends.
        write!(text, "id: {stdout}-{stderr}\nevent: {name}\ndata: {data}\n\n").map_err(|_| Gone)?;
        self.send(text).await
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.to.send(text.into()).await.map_err(|_| Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_event_is_a_position() {
        assert_eq!(Position::parse("12-5"), Some(Position { stdout: 12, stderr: 5 }));
        for wrong in ["", "12", "-", "a-b", "-1-2", "1-2-3", "99999999999999999999-0"] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
