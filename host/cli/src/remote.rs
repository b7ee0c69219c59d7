//! What the commands of the run API share: following a run, and ending as `run` would.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use serde_json::Value;
use skillhost_ledger::approval::{PendingChange, apply_changes};
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::outcome::{Outcome, Output, Status};
use skillhost_policy::protected;
use skillhost_sandbox::files::{NewEntry, OldEntry, StagedChange};
use skillhost_server::api::types::{FileChange, FileState, RunInfo, RunResult};
use skillhost_skill::runtime;

use crate::client::{Client, ClientError, refusal};
use crate::error::{CliError, Exit};
use crate::output::{self, GuestOutput};

/// How often a lost stream is continued before the client gives up.
const RETRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of one event: the server sends 32 KiB, which JSON may escape.
const EVENT: usize = 1 << 20;
/// The most bytes of a file that a run wrote.
const FILE: usize = 256 << 20;
/// The most bytes of files that a run wrote.
const WRITTEN: usize = 512 << 20;
/// The most bytes of a refusal.
const REFUSAL: usize = 64 << 10;

/// Checks that an id is one of a run, so that it cannot name another path.
pub(crate) fn run_id(text: &str) -> Result<String, String> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.len() == 32 && text.bytes().all(is_hex) {
        true => Ok(text.to_owned()),
        false => Err("expected the 32 hex digits that `skillhost submit` printed".into()),
    }
}

/// Prints the output of a run until it has ended; without `follow`, what there is now.
pub(crate) fn follow(client: &Client, id: &str) -> Result<RunInfo, CliError> {
    let mut events = Events {
        last: None,
        line: Vec::new(),
        event: String::new(),
        data: String::new(),
        id: String::new(),
    };
    let (mut shown, mut failures) = (GuestOutput::default(), 0);
    loop {
        let before = events.last.clone();
        match client.runtime.block_on(events.stream(client, id, &mut shown)) {
            Ok(Some(run)) => {
                output::reset();
                return Ok(run);
            }
            // The server bounds the time of a stream.
            Ok(None) => {}
            Err(ClientError::Other(error)) if failures < RETRIES => {
                output::info(|| format!("the stream broke: {}", error.message));
            }
            Err(error) => return Err(error.into()),
        }
        failures = if events.last == before { failures + 1 } else { 0 };
        if failures >= RETRIES {
            return Err(CliError::new(Exit::Io, "the server ends the stream again and again"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The parser of server-sent events.
struct Events {
    /// The id of the last complete event.
    last: Option<String>,
    line: Vec<u8>,
    event: String,
    data: String,
    id: String,
}

impl Events {
    /// Reads one stream. Returns the run if it has ended.
    async fn stream(
        &mut self,
        client: &Client,
        id: &str,
        shown: &mut GuestOutput,
    ) -> Result<Option<RunInfo>, ClientError> {
        self.line.clear();
        self.event.clear();
        self.data.clear();
        let last = self.last.clone();
        let headers: Vec<(&'static str, &str)> =
            last.as_deref().map(|last| ("last-event-id", last)).into_iter().collect();
        let path = format!("/v1/runs/{id}/logs");
        let answer = client.send(Method::GET, &path, &headers, None, Bytes::new()).await?;
        let status = answer.status();
        let mut body = answer.into_body();
        if !status.is_success() {
            let read = http_body_util::Limited::new(body, REFUSAL).collect().await;
            let bytes = read.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(refusal(status, &bytes));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| CliError::io("follow the run", error))?;
            let Ok(data) = frame.into_data() else { continue };
            for part in data.split_inclusive(|byte| *byte == b'\n') {
                self.line.extend_from_slice(part);
                if self.line.len() > EVENT {
                    return Err(CliError::new(
                        Exit::Io,
                        "the server sent an event that is too long",
                    )
                    .into());
                }
                if part.ends_with(b"\n")
                    && let Some(run) = self.end_of_line(shown)?
                {
                    return Ok(Some(run));
                }
            }
        }
        Ok(None)
    }

    fn end_of_line(&mut self, shown: &mut GuestOutput) -> Result<Option<RunInfo>, CliError> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            return self.end_of_event(shown);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event = value.to_owned(),
            "data" => self.data = value.to_owned(),
            "id" => self.id = value.to_owned(),
            _ => {}
        }
        Ok(None)
    }

    fn end_of_event(&mut self, shown: &mut GuestOutput) -> Result<Option<RunInfo>, CliError> {
        let (event, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
        let wrong = |error: serde_json::Error| CliError::io("read the output of the run", error);
        match event.as_str() {
            "stdout" | "stderr" => {
                let Output(bytes) = serde_json::from_str(&data).map_err(wrong)?;
                if event == "stdout" {
                    shown.stdout(&bytes)?;
                } else {
                    shown.stderr(&bytes);
                }
                // What was printed is not asked for again.
                self.last = Some(self.id.clone()).filter(|id| !id.is_empty());
            }
            "end" => return Ok(Some(serde_json::from_str(&data).map_err(wrong)?)),
            _ => {}
        }
        Ok(None)
    }
}

/// Gets the result of a run that has ended.
pub(crate) fn result(client: &Client, id: &str) -> Result<RunResult, CliError> {
    Ok(client.json(Method::GET, &format!("/v1/runs/{id}/result"), &[], None::<&()>)?)
}

/// Prints how a run ended, and returns its exit code: that of `skillhost run`.
pub(crate) fn ending(result: &RunResult) -> Exit {
    let status = match result.run.status {
        RunStatus::Cancelled => Status::Interrupted,
        RunStatus::Lost => {
            let message = "the server ended while the run was in progress; whether it had an effect is unknown";
            Status::Failed { message: message.into(), fix: Some("submit it again".into()) }
        }
        RunStatus::Unknown => {
            let message = "the worker ended while the run was in progress, and the skill may write to the network; whether it did is unknown";
            let fix = "check what it wrote, and submit it again; or declare `idempotent: \"true\"` in its metadata";
            Status::Failed { message: message.into(), fix: Some(fix.into()) }
        }
        _ => status_of(result),
    };
    let error = result.outcome.as_ref().and_then(|outcome| outcome["error"].as_str());
    let outcome = Outcome { status, error: error.map(str::to_owned), ..Outcome::default() };
    output::ending(&outcome, None);
    Exit::of(&outcome.status)
}

fn status_of(result: &RunResult) -> Status {
    let status = result.outcome.as_ref().map(|outcome| outcome["status"].clone());
    status.and_then(|status| serde_json::from_value(status).ok()).unwrap_or(Status::Failed {
        message: "the server did not say how the run ended".into(),
        fix: None,
    })
}

/// Prints the output in a result. Longer output is fetched.
pub(crate) fn captured(client: &Client, result: &RunResult) -> Result<(), CliError> {
    let Some(outcome) = &result.outcome else { return Ok(()) };
    let mut streams = [Output::default(), Output::default()];
    for (at, (name, truncated)) in
        [("stdout", result.stdout_truncated), ("stderr", result.stderr_truncated)]
            .into_iter()
            .enumerate()
    {
        streams[at] = if truncated {
            let path =
                format!("/v1/runs/{}/{name}", run_id(&result.run.id).map_err(CliError::usage)?);
            let bytes = client.bytes(Method::GET, &path, &[], None, Bytes::new(), FILE)?;
            Output(bytes.to_vec())
        } else {
            serde_json::from_value(outcome[name].clone()).unwrap_or_default()
        };
    }
    let [stdout, stderr] = streams;
    output::captured(&Outcome { stdout, stderr, ..Outcome::default() })?;
    match outcome.get("result").filter(|result| !result.is_null()) {
        Some(result) => output::json(result),
        None => Ok(()),
    }
}

/// Applies what a run wrote to the local folder whose files were submitted, or nothing if one of its
/// files has changed since. Refuses what a run here could not write, whatever the server says.
pub(crate) fn apply(client: &Client, result: &RunResult, folder: &Path) -> Result<(), CliError> {
    if result.run.status != RunStatus::Succeeded {
        let message = "nothing was applied, because the run did not exit with 0";
        return Err(CliError::new(Exit::Io, message));
    }
    let folder = folder.canonicalize().map_err(|error| {
        CliError::io(format_args!("open {}", quoted(&folder.to_string_lossy())), error)
    })?;
    let (mut changes, mut left) = (Vec::new(), WRITTEN);
    for change in &result.changes {
        let staged = staged(client, change, &mut left)?;
        changes.push(PendingChange { folder: folder.clone(), staged });
    }
    changes.sort_by(|a, b| a.staged.path.cmp(&b.staged.path));
    apply_changes(&changes).map_err(|error| CliError::io("apply the changes", error))
}

fn staged(
    client: &Client,
    change: &FileChange,
    left: &mut usize,
) -> Result<StagedChange, CliError> {
    let path = &change.path;
    let refused = |why: &str| {
        CliError::new(Exit::Denied, format!("nothing was applied: {}: {why}", printable(path)))
    };
    let is_plain = path.len() < 4096
        && printable(path) == *path
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_plain {
        return Err(refused("the path is not one inside the folder"));
    }
    if let Some(kind) = protected::kind_of(path) {
        let why = format!("it configures {}, so a run may not write it", kind.description());
        return Err(refused(&why));
    }
    let after = match &change.after {
        None => None,
        Some(FileState::Folder) => Some(NewEntry::Folder),
        Some(FileState::Link { .. }) => {
            return Err(refused("it is a symlink, which no server may create here"));
        }
        Some(FileState::File { digest, mode }) => {
            let is_digest = digest.len() == 71
                && digest.strip_prefix("sha256:").is_some_and(|hex| {
                    hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
                });
            if !is_digest {
                return Err(refused("the server sent no digest"));
            }
            let path = format!("/v1/blobs/{digest}");
            let bytes =
                client.bytes(Method::GET, &path, &[], None, Bytes::new(), (*left).min(FILE))?;
            if runtime::digest(&bytes) != *digest {
                return Err(refused("the server sent other bytes than its digest says"));
            }
            *left -= bytes.len();
            let mode = mode.unwrap_or(0o644) & 0o777;
            Some(NewEntry::File { bytes: bytes.to_vec(), mode })
        }
    };
    let before = change.before.as_ref().map(|state| match state {
        FileState::Folder => OldEntry::Folder,
        FileState::File { digest, .. } => OldEntry::File(digest.clone()),
        FileState::Link { target } => OldEntry::Link(target.clone()),
    });
    Ok(StagedChange {
        guest: skillhost_policy::WORKSPACE.into(),
        path: path.clone(),
        before,
        after,
    })
}

/// Prints where a run is in its life.
pub(crate) fn show(run: &RunInfo) -> Result<(), CliError> {
    let ended = match (&run.outcome, run.exit_code) {
        (_, Some(code)) => format!(" (exit code {code})"),
        (Some(outcome), None) => format!(" ({})", printable(outcome)),
        _ => String::new(),
    };
    output::text(&format!(
        "{}  {}{ended}  {}  submitted {}",
        printable(&run.id),
        run.status.name(),
        printable(&run.skill),
        printable(&run.submitted)
    ))
}

/// The result as `skillhost run --json` prints an outcome, with what else the server says.
pub(crate) fn print_json(result: &RunResult) -> Result<(), CliError> {
    let value: Value = serde_json::to_value(result).unwrap_or_default();
    output::json(&value)
}
