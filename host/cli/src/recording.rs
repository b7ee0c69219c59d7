//! A run that is recorded, or that gets its network responses from a recording.

pub(crate) mod secrets;

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use skillhost::invoke::{Invocation, LoadedRequest, RecordingStatus, RunError, Runner};
use skillhost_policy::Policy;
use skillhost_sandbox as sandbox;
use skillhost_sandbox::recording::RecordedExchange;
use skillhost_sandbox::recording::folder::{Draft, RecordingError, StoredRecording};
use skillhost_sandbox::recording::network::{BODIES_MAX, Miss, RecordedNetwork};
use skillhost_sandbox::recording::seal::Seal;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// What is between a run and the outside.
pub(crate) enum Outside {
    Record(Draft),
    Recorded(Arc<RecordedNetwork>),
}

/// What is known about the recording when the run is over.
pub(crate) enum After {
    Record(RecordingStatus),
    Recorded(Vec<Miss>),
}

/// The policy of a run that is recorded: with a random seed and the current time, unless the
/// policy sets them.
pub(crate) fn seeded(policy: Policy) -> Policy {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    policy.with_recording_defaults(rand::random(), now)
}

impl Outside {
    /// Prepares to record into a new folder.
    pub(crate) fn recording(folder: &Path, places: &Places) -> Result<Outside, CliError> {
        Ok(Outside::Record(Draft::new(folder, &places.scratch)?))
    }

    /// Opens a recording, with secrets from variables of their names.
    pub(crate) fn recorded(
        folder: &Path,
        secrets: &[String],
        places: &Places,
    ) -> Result<Outside, CliError> {
        let (recording, seal) =
            secrets::open(StoredRecording::read(folder)?, secrets, &places.skill_state())?;
        let network = RecordedNetwork::new_answering(
            exchanges(&recording, &seal)?,
            &recording.recording.sealed,
        );
        Ok(Outside::Recorded(Arc::new(network)))
    }

    /// Runs a call with it.
    pub(crate) async fn invoke(
        self,
        host: &Runner,
        call: LoadedRequest<'_>,
    ) -> Result<(Invocation, After), RunError> {
        match self {
            Outside::Record(draft) => {
                let (invoked, recorded) = host.record(call, draft).await?;
                Ok((invoked, After::Record(recorded)))
            }
            Outside::Recorded(network) => {
                let outside =
                    sandbox::RecordingIo { network: Some(network.clone()), contents: None };
                let invoked = host.invoke_outside(call, outside).await?;
                Ok((invoked, After::Recorded(network.misses())))
            }
        }
    }
}

impl After {
    /// Reports it. Returns the run's exit code unless the recording failed.
    pub(crate) fn report(self, exit: Exit) -> Result<Exit, CliError> {
        match self {
            After::Record(RecordingStatus::Written) => {}
            After::Record(RecordingStatus::Nothing) => {
                output::warning("nothing was recorded, because nothing ran", None)
            }
            After::Record(RecordingStatus::Failed(error)) => return Err(error.into()),
            After::Recorded(misses) => misses.iter().for_each(report_miss),
        }
        Ok(exit)
    }

    /// The requests that the recording had no response for, as JSON.
    pub(crate) fn unrecorded(&self) -> Value {
        match self {
            After::Recorded(misses) => serde_json::to_value(misses).unwrap_or_default(),
            After::Record(_) => Value::Array(Vec::new()),
        }
    }
}

/// Reports a request that is not in a recording, and how the most similar one differs.
pub(crate) fn report_miss(miss: &Miss) {
    output::warning(&format!("not in the recording: {}", miss.request), None);
    output::note(&miss.diff);
}

/// The exchanges of a recording, with their bodies.
pub(crate) fn exchanges(
    recording: &StoredRecording,
    seal: &Seal,
) -> Result<Vec<(RecordedExchange, Vec<u8>)>, RecordingError> {
    let mut left = BODIES_MAX;
    let mut exchanges = Vec::new();
    for exchange in &recording.recording.exchanges {
        let body = match &exchange.response.head {
            Some(head) => recording.bytes(&head.body.digest, head.body.bytes.min(left), seal)?,
            None => Vec::new(),
        };
        left = left.saturating_sub(body.len() as u64);
        exchanges.push((exchange.clone(), body));
    }
    Ok(exchanges)
}
