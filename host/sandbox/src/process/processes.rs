//! The programs of one run: the rules for starting them, and how each ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use futures::future::BoxFuture;
use tokio_util::task::TaskTracker;

use super::children::{Children, Orphans};
use super::host_program::HostAccess;
use super::record::Records;
use crate::determinism::DeterministicRun;
use crate::engine::{Mode, ProgramEnd};
use crate::files::Vfs;
use crate::limits::Meter;
use crate::limits::fuel::Cost;
use crate::streams::{Input, Out};
use skillhost_policy::capabilities::Scope;
use skillhost_policy::outcome::{ChildProcess, Denial, Status};
use skillhost_policy::pattern::CommandPattern;
use skillhost_skill::runtime::{Program, Programs};

/// What a program receives in addition to its capabilities.
pub(crate) struct ProgramIo {
    pub(crate) stdin: Input,
    pub(crate) stdout: Out,
    pub(crate) stderr: Out,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) depth: u64,
    /// Counts the program's cost.
    pub(crate) cost: Arc<Cost>,
    /// The program's number, counted from 1 in the order of the starts.
    pub(crate) number: u64,
}

/// A program that is ready to run. Called with its streams, it runs in its own store.
pub(crate) type Ready = Box<dyn FnOnce(ProgramIo) -> BoxFuture<'static, ProgramEnd> + Send>;

/// Prepares programs to run. The run implements it, because this module cannot see stores.
pub(crate) trait Launcher: Send + Sync + 'static {
    /// Prepares a program.
    ///
    /// # Errors
    /// Why the program cannot run.
    fn prepare(self: Arc<Self>, program: Program) -> BoxFuture<'static, Result<Ready, Status>>;
}

/// A program that may start others: what they inherit, and the ones it has started.
pub(crate) struct Parent {
    /// 0 for the first program, one more for each that it starts.
    pub(crate) depth: u64,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) stdin: Input,
    pub(crate) stdout: Out,
    pub(crate) stderr: Out,
    pub(crate) children: Children,
}

/// What the programs of a run may start.
pub(crate) struct StartRules {
    /// The command lines.
    pub(crate) commands: Scope<CommandPattern>,
    /// The host programs, within these command lines.
    pub(crate) host_programs: HostAccess,
}

/// The programs of one run.
pub(crate) struct Processes {
    pub(super) rules: Scope<CommandPattern>,
    /// `None` if there is no skill.
    pub(super) programs: Option<Arc<Programs>>,
    pub(super) host_programs: HostAccess,
    pub(super) files: Arc<Vfs>,
    pub(super) meter: Arc<Meter>,
    pub(super) deterministic: Option<Arc<DeterministicRun>>,
    /// The run that these programs belong to.
    pub(super) launcher: Weak<dyn Launcher>,
    /// The started programs that have not ended.
    pub(super) started: TaskTracker,
    pub(super) records: Records,
    orphans: Orphans,
    denials: Mutex<Vec<Denial>>,
    /// The command lines that were started; set if the run records what it uses of its grants.
    commands: OnceLock<Mutex<Commands>>,
}

/// The most command lines that are recorded.
const COMMANDS_MAX: usize = 1_000;

/// The most denials that are kept.
const DENIALS_MAX: usize = 100;

#[derive(Default)]
struct Commands {
    known: BTreeSet<Vec<String>>,
    omitted: u64,
}

impl Processes {
    pub(crate) fn new(
        rules: StartRules,
        programs: Option<Arc<Programs>>,
        files: Arc<Vfs>,
        meter: Arc<Meter>,
        mode: Mode,
        deterministic: Option<Arc<DeterministicRun>>,
        launcher: Weak<dyn Launcher>,
    ) -> Processes {
        Processes {
            rules: rules.commands,
            programs,
            host_programs: rules.host_programs,
            files,
            meter,
            deterministic,
            launcher,
            started: TaskTracker::new(),
            records: Records::new(mode),
            orphans: Orphans::default(),
            denials: Mutex::default(),
            commands: OnceLock::new(),
        }
    }

    /// Returns the rules for commands.
    pub(crate) fn rules(&self) -> &Scope<CommandPattern> {
        &self.rules
    }

    /// Takes over the children of a program that has exited.
    pub(crate) fn adopt(&self, children: Children) {
        self.orphans.adopt(children);
    }

    /// Ends the programs that are still running, without waiting.
    pub(crate) fn end_orphans(&self) {
        self.orphans.end();
    }

    /// PipeEnds the programs that are still running, and waits until they have ended.
    pub(crate) async fn end(&self) {
        self.end_orphans();
        self.started.close();
        self.started.wait().await;
    }

    /// Returns the programs that were started, and how many the list omits.
    pub(crate) fn snapshot(&self) -> (Vec<ChildProcess>, u64) {
        self.records.snapshot()
    }

    /// Returns the host programs that may be started, and how often each was.
    pub(crate) fn host_programs(&self) -> BTreeMap<String, u64> {
        self.host_programs.starts()
    }

    /// Returns the denied commands.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records a denial for the outcome; returns its rule, for the guest.
    pub(super) fn deny(&self, denial: Denial) -> String {
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if denials.len() < DENIALS_MAX && !denials.contains(&denial) {
            denials.push(denial.clone());
        }
        denial.rule
    }

    /// Starts recording what is used of the grants.
    pub(crate) fn record_uses(&self) {
        self.commands.get_or_init(Mutex::default);
    }

    /// Records an allowed command line.
    pub(super) fn note_command(&self, argv: &[String]) {
        let Some(commands) = self.commands.get() else { return };
        let mut commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.known.len() < COMMANDS_MAX {
            commands.known.insert(argv.to_vec());
        } else if !commands.known.contains(argv) {
            commands.omitted += 1;
        }
    }

    /// Returns the command lines that were started, and how many did not fit; `None` if recording
    /// is off.
    pub(crate) fn uses(&self) -> Option<(BTreeSet<Vec<String>>, u64)> {
        let commands = self.commands.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some((commands.known.clone(), commands.omitted))
    }
}
