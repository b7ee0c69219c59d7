//! The result of a run.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Instant;

use super::invocation::Invocation;
use super::mounts::Overlays;
use super::streams::RunStreams;
use crate::engine::{ProgramEnd, RunEnd};
use crate::files::{Snapshot, SnapshotError, Vfs};
use crate::limits::Meter;
use crate::recording::Folder;
use crate::recording::blobs::Contents;
use skillhost_policy::outcome::{LimitHit, Outcome, Output, ResourceUsage, Status, StreamDigests};

/// A run's outcome, and the writes that it kept aside.
pub struct FinishedRun {
    /// What happened.
    pub outcome: Outcome,
    /// The overlays, for a diff or to be applied. They are removed with this value.
    pub overlays: Overlays,
    /// What a receipt needs, if it was asked for and the program ran.
    pub evidence: Option<Evidence>,
    /// The first stream of the caller that did not take all output, for example on a full disk.
    pub output_error: Option<OutputError>,
    /// The first error of the host that the guest received for a file, for example of a full disk. The
    /// guest cannot tell it from a limit.
    pub file_error: Option<io::Error>,
    /// The last file that a guest did not find in `/skill`, as [`Vfs::missing`]. The guest chose the
    /// path. Not part of the outcome: only a message to the operator uses it.
    pub missing: Option<String>,
}

/// A stream of the caller that the host could not write.
#[derive(Debug)]
pub struct OutputError {
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The error of the first write that failed. A closed pipe is not an error.
    pub error: io::Error,
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
        FinishedRun {
            outcome,
            overlays: Overlays::default(),
            evidence: None,
            output_error: None,
            file_error: None,
            missing: None,
        }
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

/// The state of all files before a run, for a receipt.
pub(super) struct FilesBefore {
    snapshot: Snapshot,
    /// The folders and their content by name, if the run is recorded.
    folders: Vec<Folder>,
}

impl FilesBefore {
    /// Reads all files that the guest can see.
    pub(super) fn of(
        files: &Vfs,
        cache: &Path,
        contents: Option<&Contents>,
    ) -> Result<FilesBefore, Status> {
        let snapshot = files.snapshot(cache).map_err(|error| no_receipt(&error))?;
        let folders = match contents.and_then(|contents| contents.blobs()) {
            Some(keep) => files.survey(&snapshot, keep).map_err(|error| no_receipt(&error))?,
            None => Vec::new(),
        };
        Ok(FilesBefore { snapshot, folders })
    }

    /// Reads the files again, after the run.
    pub(super) fn evidence(self, files: &Vfs, cache: &Path) -> Result<Evidence, Status> {
        let after = files.snapshot(cache).map_err(|error| no_receipt(&error))?;
        Ok(Evidence { before: self.snapshot, after, folders: self.folders })
    }
}

fn no_receipt(error: &SnapshotError) -> Status {
    Status::Failed {
        message: error.to_string(),
        fix: Some("mount a smaller folder, or run without `--receipt` and `--record`".into()),
    }
}

/// Collects what a run did, after its programs ended. The status is not set yet.
pub(super) fn outcome(
    invocation: &Invocation,
    streams: RunStreams,
    env: &BTreeMap<String, String>,
    started: Instant,
) -> Outcome {
    let RunStreams { stdin, stdout, stderr } = streams;
    let (processes, processes_omitted) = invocation.processes.snapshot();
    let digests =
        StreamDigests { stdin: stdin.digest(), stdout: stdout.digest(), stderr: stderr.digest() };
    let mut outcome = Outcome {
        status: Status::Interrupted,
        streams: digests,
        stdout: Output(stdout.take()),
        stderr: Output(stderr.take()),
        result: None,
        error: None,
        usage: ResourceUsage {
            stdout_bytes: stdout.seen(),
            stderr_bytes: stderr.seen(),
            ..invocation.usage(started)
        },
        files: invocation.files.touched(),
        requests: invocation.sender.requests(),
        processes,
        processes_omitted,
        host_programs: invocation.processes.host_programs(),
        changes: invocation.files.changes(),
        denials: invocation.denials(),
        limits_hit: Vec::new(),
        uses: invocation.uses(env),
    };
    invocation.note_hits();
    outcome.limits_hit = invocation.meter.hits();
    if let (Some(error), Some(_)) = (invocation.files.failure(), &invocation.deterministic) {
        invocation.meter.abort(format!("a file operation failed on the host: {error}"));
    }
    outcome
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
