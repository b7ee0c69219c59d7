//! What an embedder adds to a host: a word before each run, an ear for each record, languages of
//! scripts.

use std::sync::Arc;

use skillhost_ledger::audit::{ProgramId, Record, SkillId};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::Denial;
use skillhost_skill::runtime::custom::Runtimes;

/// Asked before a program runs.
pub type ApproveHook = Arc<dyn Fn(&PlannedRun<'_>) -> Result<(), Denial> + Send + Sync>;

/// Told of each record, once it is in the audit log.
pub type RecordHook = Arc<dyn Fn(&Record<'_>) + Send + Sync>;

/// What an embedder adds; by default nothing.
#[derive(Clone, Default)]
pub struct RunHooks {
    /// What it refuses does not run, and is recorded as denied. It cannot widen what the policy
    /// grants.
    pub approve: Option<ApproveHook>,
    /// Called on the thread that the invocation runs on, which waits for it.
    pub recorded: Option<RecordHook>,
    /// Languages that this host does not know by itself.
    pub runtimes: Runtimes,
}

/// A program that is about to run.
#[derive(Debug, Clone, Copy)]
pub struct PlannedRun<'a> {
    /// Of which skill.
    pub skill: &'a SkillId,
    /// Which program, with which arguments.
    pub program: &'a ProgramId,
    /// What it may touch if it runs.
    pub capabilities: &'a Capabilities,
}

impl RunHooks {
    pub(super) fn approve(&self, asking: &PlannedRun<'_>) -> Result<(), Denial> {
        self.approve.as_ref().map_or(Ok(()), |approve| approve(asking))
    }

    pub(super) fn recorded(&self, record: &Record<'_>) {
        if let Some(recorded) = &self.recorded {
            recorded(record);
        }
    }
}
