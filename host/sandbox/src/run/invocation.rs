//! What the programs of one invocation share, and what can be told of it while it runs and after.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use tokio_util::task::TaskTracker;

use super::mounts::Mounts;
use super::sandbox::Sandbox;
use super::scratch::Scratch;
use crate::determinism::turns::Fixed;
use crate::engine::Mode;
use crate::files::Vfs;
use crate::http::Sender;
use crate::limits::Meter;
use crate::process;
use crate::process::Orphans;
use crate::process::record::Records;
use crate::recording::tape::Tape;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::uses::GrantUse;
use skillhost_policy::outcome::{Denial, ResourceUsage};
use skillhost_skill::runtime::Programs;

/// What the programs of one invocation share.
pub(crate) struct Invocation {
    pub(crate) sandbox: Sandbox,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) programs: Option<Arc<Programs>>,
    pub(crate) vfs: Arc<Vfs>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) mode: Mode,
    /// Only of a deterministic run.
    pub(crate) fixed: Option<Fixed>,
    pub(crate) spawn_denials: Mutex<Vec<Denial>>,
    /// The programs that were started and have not ended.
    pub(crate) started: TaskTracker,
    pub(crate) orphans: Orphans,
    pub(crate) processes: Records,
    /// The command lines that were let start, where notes are taken of what is used.
    commands: OnceLock<Mutex<Commands>>,
    pub(crate) scratch: Arc<Scratch>,
    /// The files that were compiled for it.
    pub(crate) compiled: AtomicUsize,
}

/// Command lines that notes are kept of.
const COMMANDS_MAX: usize = 1_000;

/// Notes of command lines.
#[derive(Default)]
struct Commands {
    known: BTreeSet<Vec<String>>,
    omitted: u64,
}

impl Invocation {
    /// Puts together what enforces each capability.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is something else that a run's programs share"
    )]
    pub(crate) fn new(
        sandbox: &Sandbox,
        capabilities: &Arc<Capabilities>,
        programs: Option<Arc<Programs>>,
        mounts: &Mounts,
        meter: Arc<Meter>,
        mode: Mode,
        fixed: Option<Fixed>,
        tape: Option<Arc<Tape>>,
        evidence: bool,
    ) -> Arc<Invocation> {
        // Field by field, so that a new one is not carried about without being enforced: the file
        // layer has `mounts` to `write`; the sender `fetch`, `methods` and `authorities`;
        // `process.rs` has `spawn`; every store `env`; the meter and all of them `limits`; `turns`
        // has `determinism`.
        let Capabilities {
            mounts: _,
            packages: _,
            read: _,
            write: _,
            spawn: _,
            fetch: _,
            methods: _,
            authorities: _,
            env: _,
            limits: _,
            determinism: _,
        } = &**capabilities;
        let held = fixed.as_ref().and_then(|fixed| fixed.held(tape, &meter));
        let sender = sandbox.sender(capabilities, held, evidence);
        Arc::new(Invocation {
            sandbox: sandbox.clone(),
            capabilities: capabilities.clone(),
            programs,
            vfs: mounts.vfs.clone(),
            sender,
            meter,
            mode,
            fixed,
            spawn_denials: Mutex::default(),
            started: TaskTracker::new(),
            orphans: Orphans::default(),
            processes: Records::new(mode),
            commands: OnceLock::new(),
            scratch: mounts.scratch.clone(),
            compiled: AtomicUsize::new(0),
        })
    }

    /// Takes notes of what is used of the grants, from here on.
    pub(crate) fn note_uses(&self) {
        self.vfs.note_uses();
        self.commands.get_or_init(Mutex::default);
    }

    /// A command line was let start.
    pub(crate) fn note_command(&self, argv: &[String]) {
        let Some(commands) = self.commands.get() else { return };
        let mut commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.known.len() < COMMANDS_MAX {
            commands.known.insert(argv.to_vec());
        } else if !commands.known.contains(argv) {
            commands.omitted += 1;
        }
    }

    /// What was used of the grants; `None` where no notes were taken.
    pub(crate) fn uses(&self) -> Option<GrantUse> {
        let (paths, omitted) = self.vfs.uses()?;
        let commands = self.commands.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(GrantUse {
            paths,
            commands: commands.known.clone(),
            requests: self.sender.uses(),
            variables: self.capabilities.env.keys().cloned().collect(),
            omitted: omitted + commands.omitted,
        })
    }

    /// What was used so far.
    pub(crate) fn usage(&self, started: Instant) -> ResourceUsage {
        let limits = &self.capabilities.limits;
        let files = self.vfs.usage();
        let (http_sent, http_received) = self.sender.usage();
        ResourceUsage {
            wall_ms: started.elapsed().as_secs_f64() * 1e3,
            fuel: limits.fuel.map(|_| self.meter.burnt()),
            epochs: (self.mode == Mode::Fast).then(|| self.meter.epochs.load(Relaxed)),
            memory_peak: self.meter.memory_peak(),
            bytes_read: files.bytes_read,
            bytes_written: files.bytes_written,
            files_created: files.files_created,
            http_sent,
            http_received,
            processes: self.meter.processes.load(Relaxed),
            ..ResourceUsage::default()
        }
    }

    /// What its programs tried and were not allowed.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        let mut all = self.vfs.denials();
        all.extend(self.sender.denials());
        all.extend(process::denials(self));
        all
    }

    /// Limits that the file layer and the sender told the guest of.
    pub(crate) fn note_hits(&self) {
        for limit in self.vfs.hit().into_iter().chain(self.sender.hit()) {
            self.meter.hit(limit);
        }
    }
}
