//! What a run is asked to do.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::mounts::ExtraMounts;
use crate::files::{GuardedPaths, OpenMount};
use crate::http::ResponseCache;
use crate::process::HostPrograms;
use crate::recording::blobs::Contents;
use crate::recording::network::RecordedNetwork;
use crate::streams::{Sink, Stdin};
use skillhost_policy::capabilities::Capabilities;
use skillhost_skill::runtime::{Program, Programs};

/// What a run is asked to do, and what it may touch.
pub struct RunSpec<'a> {
    /// What runs.
    pub program: &'a Program,
    /// What else it may start; `None` if there is no skill.
    pub programs: Option<Arc<Programs>>,
    /// The functions of the embedding application that the capabilities may name.
    pub host_programs: HostPrograms,
    /// What it may touch.
    pub capabilities: Arc<Capabilities>,
    /// `/skill`.
    pub skill: Option<OpenMount>,
    /// Mounts besides those of the skill and the capabilities.
    pub extra: ExtraMounts,
    /// Folders that are mounted only if the operator names them explicitly.
    pub guarded: &'a GuardedPaths,
    /// The folder in which scratch folders are made.
    pub scratch: &'a Path,
    /// Whether the files are digested before and after, for a receipt.
    pub evidence: bool,
    /// What records a deterministic run, or replays it.
    pub recording: RecordingIo,
    /// The HTTP cache that is kept for the skill and the workspace. Without it, the run has one of
    /// its own if its limits grant one.
    pub http_cache: Option<Arc<ResponseCache>>,
    /// Its streams.
    pub io: Io,
}

/// The streams of a run, what interrupts it, and what its outcome reports.
#[derive(Default)]
pub struct Io {
    /// Standard input of the first program.
    pub stdin: Stdin,
    /// Its standard output.
    pub stdout: Sink,
    /// Its standard error.
    pub stderr: Sink,
    /// Resolves when the run is to be interrupted.
    pub interrupt: Option<BoxFuture<'static, ()>>,
    /// Whether the outcome reports what was used of the grants.
    pub uses: bool,
}

/// Records a deterministic run, or replays it.
#[derive(Debug, Clone, Default)]
pub struct RecordingIo {
    /// Records the network, or replays it.
    pub network: Option<Arc<RecordedNetwork>>,
    /// Records the files that are read, or replays them.
    pub contents: Option<Arc<Contents>>,
}

impl Io {
    /// Returns the streams for a typed tool. Its input is not on stdin, and stdout is reserved for
    /// its result, so what it prints goes to stderr.
    #[must_use]
    pub fn of_tool(self) -> Io {
        let stdout = match (&self.stdout, &self.stderr) {
            (Sink::Descriptor(_), Sink::Descriptor(stderr)) => {
                stderr.try_clone().map_or(Sink::Capture, Sink::Descriptor)
            }
            (Sink::Spool(_), Sink::Spool(stderr)) => Sink::Spool(stderr.clone()),
            _ => Sink::Capture,
        };
        Io { stdin: Stdin::Empty, stdout, ..self }
    }
}
