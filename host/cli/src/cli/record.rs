//! A run that is recorded, or whose network is a recording, as the command line asks for it and
//! tells of it.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use skillhost::invoke::{Invocation, LoadedRequest, RecordingStatus, RunError, Runner};
use skillhost_policy::Policy;
use skillhost_sandbox as sandbox;
use skillhost_sandbox::recording::folder::{Draft, FolderError, Kept};
use skillhost_sandbox::recording::tape::{Miss, Tape};

use super::exit::Exit;
use super::places::Places;
use super::{Failure, secrets, show};

/// What stands between a run and what is outside.
pub(super) enum Outside {
    Record(Draft),
    Recorded(Arc<Tape>),
}

/// What is told when the run is over.
pub(super) enum After {
    Record(RecordingStatus),
    Recorded(Vec<Miss>),
}

/// The policy of a recorded run: its seed is drawn by chance and it starts now, where nobody says
/// otherwise.
pub(super) fn by_chance(policy: Policy) -> Policy {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    policy.with_recording_defaults(rand::random(), now)
}

impl Outside {
    /// What the command line names; before anything runs, so that nothing runs in vain.
    pub(super) fn of(
        record: Option<&Path>,
        recorded: Option<&Path>,
        from: &[String],
        places: &Places,
    ) -> Result<Option<Outside>, Failure> {
        if let Some(place) = record {
            return Draft::new(place, &places.scratch)
                .map(|draft| Some(Outside::Record(draft)))
                .map_err(failure);
        }
        let Some(place) = recorded else { return Ok(None) };
        let (kept, seal) =
            secrets::open(Kept::read(place).map_err(failure)?, from, &places.kept())?;
        let tape =
            Tape::answering(exchanges(&kept, &seal).map_err(failure)?, &kept.recording.sealed);
        Ok(Some(Outside::Recorded(Arc::new(tape))))
    }

    /// Runs it.
    pub(super) async fn invoke(
        self,
        host: &Runner,
        call: LoadedRequest<'_>,
    ) -> Result<(Invocation, After), RunError> {
        match self {
            Outside::Record(draft) => {
                let (invoked, recorded) = host.record(call, draft).await?;
                Ok((invoked, After::Record(recorded)))
            }
            Outside::Recorded(tape) => {
                let outside = sandbox::Outside { tape: Some(tape.clone()), contents: None };
                let invoked = host.invoke_outside(call, outside).await?;
                Ok((invoked, After::Recorded(tape.misses())))
            }
        }
    }
}

impl After {
    /// Says it. The run's own exit code stays what it was, where nothing failed.
    pub(super) fn tell(self, exit: Exit) -> Result<Exit, Failure> {
        match self {
            After::Record(RecordingStatus::Written) => {}
            After::Record(RecordingStatus::Nothing) => {
                show::warning("there is no recording: nothing ran", None)
            }
            After::Record(RecordingStatus::Failed(error)) => return Err(failure(error)),
            After::Recorded(misses) => misses.iter().for_each(missed),
        }
        Ok(exit)
    }

    /// The requests that the recording had no answer to, as JSON.
    pub(super) fn unrecorded(&self) -> Value {
        match self {
            After::Recorded(misses) => serde_json::to_value(misses).unwrap_or_default(),
            After::Record(_) => Value::Array(Vec::new()),
        }
    }
}

/// Says that a request is not in a recording, and how the nearest there differs.
pub(super) fn missed(miss: &Miss) {
    show::warning(&format!("not in the recording: {}", miss.request), None);
    show::note(&miss.diff);
}

/// The exchanges of a recording, with their bodies.
pub(super) fn exchanges(
    kept: &Kept,
    seal: &skillhost_sandbox::recording::seal::Seal,
) -> Result<Vec<(skillhost_sandbox::recording::Exchange, Vec<u8>)>, FolderError> {
    let mut left = skillhost_sandbox::recording::tape::BODIES_MAX;
    let mut exchanges = Vec::new();
    for exchange in &kept.recording.exchanges {
        let body = match &exchange.response.head {
            Some(head) => kept.bytes(&head.body.digest, head.body.bytes.min(left), seal)?,
            None => Vec::new(),
        };
        left = left.saturating_sub(body.len() as u64);
        exchanges.push((exchange.clone(), body));
    }
    Ok(exchanges)
}

pub(super) fn failure(error: FolderError) -> Failure {
    match error {
        FolderError::Io { .. } => Failure::new(Exit::Io, error.to_string()),
        FolderError::Taken { .. } => Failure::new(Exit::Usage, error.to_string())
            .fix("name a folder that is not there, or empty"),
        FolderError::Invalid { .. } => Failure::new(Exit::Invalid, error.to_string())
            .fix("`skillhost run --record DIR` makes one; what was changed since cannot be used"),
    }
}
