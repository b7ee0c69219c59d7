//! The programs of one run: the rules for starting them, who starts them, and what became of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use futures::future::BoxFuture;
use tokio_util::task::TaskTracker;

use super::children::{Children, Orphans};
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

/// What a program is given besides its capabilities.
pub(crate) struct ProgramIo {
    pub(crate) stdin: Input,
    pub(crate) stdout: Out,
    pub(crate) stderr: Out,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) depth: u64,
    /// Counts what the program costs.
    pub(crate) cost: Arc<Cost>,
    /// Counts from 1, in the order of the starts.
    pub(crate) number: u64,
}

/// A program that is ready: called with its streams, it runs in a store of its own.
pub(crate) type Ready = Box<dyn FnOnce(ProgramIo) -> BoxFuture<'static, ProgramEnd> + Send>;

/// Makes programs ready to run. The run does; this room does not know how.
pub(crate) trait Launcher: Send + Sync + 'static {
    /// Makes a program ready.
    ///
    /// # Errors
    /// Why it cannot run.
    fn prepare(self: Arc<Self>, program: Program) -> BoxFuture<'static, Result<Ready, Status>>;
}

/// A program that may start others: what they inherit, and those it has started.
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

/// The programs of one run.
pub(crate) struct Processes {
    pub(super) rules: Scope<CommandPattern>,
    /// `None` if there is no skill.
    pub(super) programs: Option<Arc<Programs>>,
    pub(super) files: Arc<Vfs>,
    pub(super) meter: Arc<Meter>,
    pub(super) deterministic: Option<Arc<DeterministicRun>>,
    /// The run, which these are a part of.
    pub(super) launcher: Weak<dyn Launcher>,
    /// Those that were started and have not ended.
    pub(super) started: TaskTracker,
    pub(super) records: Records,
    orphans: Orphans,
    denials: Mutex<Vec<Denial>>,
    /// The command lines that were started. Set if the run notes what it uses of its grants.
    commands: OnceLock<Mutex<Commands>>,
}

/// Command lines that are noted.
const COMMANDS_MAX: usize = 1_000;

/// Denials that are kept.
const DENIALS_MAX: usize = 100;

#[derive(Default)]
struct Commands {
    known: BTreeSet<Vec<String>>,
    omitted: u64,
}

impl Processes {
    pub(crate) fn new(
        rules: Scope<CommandPattern>,
        programs: Option<Arc<Programs>>,
        files: Arc<Vfs>,
        meter: Arc<Meter>,
        mode: Mode,
        deterministic: Option<Arc<DeterministicRun>>,
        launcher: Weak<dyn Launcher>,
    ) -> Processes {
        Processes {
            rules,
            programs,
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

    /// The rules for commands.
    pub(crate) fn rules(&self) -> &Scope<CommandPattern> {
        &self.rules
    }

    /// Leaves the programs that one which ended by itself has started to the run.
    pub(crate) fn adopt(&self, children: Children) {
        self.orphans.adopt(children);
    }

    /// Tells the programs that are still running to end.
    pub(crate) fn end_orphans(&self) {
        self.orphans.end();
    }

    /// Ends the programs that are still running, and waits until they have ended.
    pub(crate) async fn end(&self) {
        self.end_orphans();
        self.started.close();
        self.started.wait().await;
    }

    /// The programs that were started, and how many more are not in the list.
    pub(crate) fn listed(&self) -> (Vec<ChildProcess>, u64) {
        self.records.listed()
    }

    /// The commands that were refused.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.denials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a denial for the outcome; returns its rule, for the guest.
    pub(super) fn deny(&self, denial: Denial) -> String {
        let mut denials = self.denials.lock().unwrap_or_else(PoisonError::into_inner);
        if denials.len() < DENIALS_MAX && !denials.contains(&denial) {
            denials.push(denial.clone());
        }
        denial.rule
    }

    /// Notes what is used of the grants, from now on.
    pub(crate) fn note_uses(&self) {
        self.commands.get_or_init(Mutex::default);
    }

    /// Notes a command line that the rules allow.
    pub(super) fn note_command(&self, argv: &[String]) {
        let Some(commands) = self.commands.get() else { return };
        let mut commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.known.len() < COMMANDS_MAX {
            commands.known.insert(argv.to_vec());
        } else if !commands.known.contains(argv) {
            commands.omitted += 1;
        }
    }

    /// The command lines that were started, and how many more; `None` if they were not noted.
    pub(crate) fn uses(&self) -> Option<(BTreeSet<Vec<String>>, u64)> {
        let commands = self.commands.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some((commands.known.clone(), commands.omitted))
    }
}
