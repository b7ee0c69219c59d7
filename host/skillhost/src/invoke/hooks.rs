//! Hooks that an embedder adds: an approval before each run, a callback for each record, script
//! languages, host programs, and skills that are part of the program.

use std::sync::Arc;

use skillhost_ledger::audit::{ProgramId, Record, SkillId};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::outcome::Denial;
use skillhost_sandbox::HostPrograms;
use skillhost_skill::embedded::EmbeddedSkills;
use skillhost_skill::runtime::custom::Runtimes;

/// Called before a program runs.
pub type ApproveHook = Arc<dyn Fn(&PlannedRun<'_>) -> Result<(), Denial> + Send + Sync>;

/// Called with each record, once it is in the audit log.
pub type RecordHook = Arc<dyn Fn(&Record<'_>) + Send + Sync>;

/// The hooks of an embedder; there are none by default.
#[derive(Clone, Default)]
pub struct RunHooks {
    /// Decides whether a program runs. A refusal is recorded as denied. This hook cannot widen what
    /// the policy grants.
    pub approve: Option<ApproveHook>,
    /// Called on the run's thread, which waits for it to return.
    pub recorded: Option<RecordHook>,
    /// Additional script languages.
    pub runtimes: Runtimes,
    /// Functions that skills may start as commands, if the policy names them.
    pub host_programs: HostPrograms,
    /// The folder of the skills that are part of the program. It exists as long as this value.
    pub embedded: Option<Arc<EmbeddedSkills>>,
}

/// A program that is about to run.
#[derive(Debug, Clone, Copy)]
pub struct PlannedRun<'a> {
    /// The skill.
    pub skill: &'a SkillId,
    /// The program and its arguments.
    pub program: &'a ProgramId,
    /// What the program may touch.
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
