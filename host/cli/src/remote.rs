//! What the commands of the run API share: following a run, and ending as `run` would.

use std::path::Path;

use bytes::Bytes;
use http::Method;
use serde_json::Value;
use skillhost_ledger::approval::{PendingChange, apply_changes};
use skillhost_ledger::runs::RunStatus;
use skillhost_policy::diagnostic::{printable, quoted};
use skillhost_policy::outcome::{Outcome, Output, Status};
use skillhost_policy::protected;
use skillhost_sandbox::files::{NewEntry, OldEntry, StagedChange};
use skillhost_server::api::types::{FileChange, FileState, RunInfo, RunResult};
use skillhost_skill::runtime;

use crate::client::Client;
use crate::error::{CliError, Exit};
use crate::events::{self, Event, OnInterrupt};
use crate::output::{self, GuestOutput};

/// The most bytes of a file that a run wrote.
const FILE: usize = 256 << 20;
/// The most bytes of files that a run wrote.
const WRITTEN: usize = 512 << 20;

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
    follow_at(client, &format!("/v1/runs/{id}"), true, None)
}

/// Waits for the end of a program of a session, and prints its output meanwhile if `shows`. An
/// interrupt of this command is passed on.
pub(crate) fn follow_program(
    client: &Client,
    path: &str,
    shows: bool,
    on_interrupt: OnInterrupt<'_>,
) -> Result<RunInfo, CliError> {
    follow_at(client, path, shows, Some(on_interrupt))
}

fn follow_at(
    client: &Client,
    path: &str,
    shows: bool,
    on_interrupt: Option<OnInterrupt<'_>>,
) -> Result<RunInfo, CliError> {
    let mut shown = GuestOutput::default();
    let wrong = |error: serde_json::Error| CliError::io("read the output of the run", error);
    let mut on_event = |Event { name, data }: Event| {
        match name.as_str() {
            "stdout" | "stderr" if shows => {
                let Output(bytes) = serde_json::from_str(&data).map_err(wrong)?;
                match name.as_str() {
                    "stdout" => shown.stdout(&bytes)?,
                    _ => shown.stderr(&bytes),
                }
            }
            "end" => return serde_json::from_str(&data).map(Some).map_err(wrong),
            _ => {}
        }
        Ok(None)
    };
    let run = events::follow(client, &format!("{path}/logs"), &mut on_event, on_interrupt)?;
    output::reset();
    Ok(run)
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
    apply_changes_of(client, &result.changes, folder)
}

/// Applies changes to a local folder, as [`apply`] does.
pub(crate) fn apply_changes_of(
    client: &Client,
    all: &[FileChange],
    folder: &Path,
) -> Result<(), CliError> {
    let folder = folder.canonicalize().map_err(|error| {
        CliError::io(format_args!("open {}", quoted(&folder.to_string_lossy())), error)
    })?;
    let (mut changes, mut left) = (Vec::new(), WRITTEN);
    for change in all {
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
