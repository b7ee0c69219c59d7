//! The result of a run.

use std::time::Instant;

use super::mounts::Overlays;
use crate::engine::{ProgramEnd, RunEnd};
use crate::files::Snapshot;
use crate::limits::Meter;
use crate::recording::Folder;
use skillhost_policy::outcome::{LimitHit, Outcome, ResourceUsage, Status};

/// A run's outcome, and the writes that it kept aside.
pub struct FinishedRun {
    /// What happened.
    pub outcome: Outcome,
    /// The overlays, for a diff or to be applied. They are removed with this value.
    pub overlays: Overlays,
    /// What a receipt needs, if it was asked for and the program ran.
    pub evidence: Option<Evidence>,
}

/// The state of all files, for a receipt. Recording it reads all of them.
#[derive(Debug)]
pub struct Evidence {
    /// Before the run.
    pub before: Snapshot,
    /// After the run.
    pub after: Snapshot,
    /// The folders and their content by name, if the run is recorded.
    pub folders: Vec<Folder>,
}

impl FinishedRun {
    /// The outcome of something that never ran.
    pub fn not_run(outcome: Outcome) -> FinishedRun {
        FinishedRun { outcome, overlays: Overlays::default(), evidence: None }
    }

    pub(super) fn refused(status: Status, started: Instant) -> FinishedRun {
        let usage = ResourceUsage {
            wall_ms: started.elapsed().as_secs_f64() * 1e3,
            ..ResourceUsage::default()
        };
        let limits_hit =
            if let Status::LimitHit(hit) = &status { vec![hit.clone()] } else { Vec::new() };
        FinishedRun::not_run(Outcome { status, usage, limits_hit, ..Outcome::default() })
    }
}

/// Returns a run's status, and sets the result of a tool. If a guest failed after it hit a limit,
/// the limit is the status.
pub(super) fn status(end: RunEnd, outcome: &mut Outcome, meter: &Meter) -> Status {
    if let (Some(reason), false) = (meter.abort_reason(), matches!(end, RunEnd::Interrupted)) {
        return Status::Aborted { reason: reason.to_owned() };
    }
    let first = outcome.limits_hit.first().cloned();
    let hit = |limit| Status::LimitHit(LimitHit { limit, value: meter.value(limit) });
    // A program that was asked to end may have ended by itself first.
    if let (RunEnd::Program(_), Some(limit)) = (&end, meter.stop_reason()) {
        return hit(limit);
    }
    match end {
        // The reason of an abort was handled above.
        RunEnd::Interrupted | RunEnd::Aborted => Status::Interrupted,
        RunEnd::Limit(limit) | RunEnd::Program(ProgramEnd::Limit(limit)) => hit(limit),
        RunEnd::Program(ProgramEnd::Exited(0)) => Status::Exited { code: 0 },
        RunEnd::Program(ProgramEnd::Exited(code)) => {
            first.map_or(Status::Exited { code }, Status::LimitHit)
        }
        RunEnd::Program(ProgramEnd::Trapped(message)) => {
            first.map_or(Status::Trapped { message }, Status::LimitHit)
        }
        RunEnd::Program(ProgramEnd::Tool(Ok(value))) => {
            outcome.result = Some(value);
            Status::Exited { code: 0 }
        }
        RunEnd::Program(ProgramEnd::Tool(Err(message))) => {
            outcome.error = Some(message);
            first.map_or(Status::Exited { code: 1 }, Status::LimitHit)
        }
    }
}
