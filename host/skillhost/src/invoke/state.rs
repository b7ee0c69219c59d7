//! The persistent state of a skill, for one run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_std::fs::Dir;

use super::Runner;
use super::receipt::ReceiptContext;
use skillhost_ledger::state::{StateLock, StateStore};
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::Io;
use skillhost_sandbox::files::{HostDir, OpenMount};
use skillhost_skill::Skill;

/// The pauses between two attempts to lock the state: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Where a run's state comes from.
pub(super) enum SkillState {
    /// The run has no state.
    None,
    /// The state on this host, locked for this run.
    Held(Arc<StateLock>),
    /// The state in a recording, restored to a new folder, with its bytes and its number of files.
    Recorded(Arc<Dir>, u64, u64),
}

impl SkillState {
    /// Returns the mount through which guests see the state.
    pub(super) fn mount(&self) -> Option<OpenMount> {
        match self {
            SkillState::None => None,
            SkillState::Held(held) => {
                Some(OpenMount::state(HostDir::shared(held.clone()), held.bytes, held.count))
            }
            SkillState::Recorded(folder, bytes, files) => {
                Some(OpenMount::state(HostDir::shared(folder.clone()), *bytes, *files))
            }
        }
    }

    /// Unlocks the state for other runs. The guest has ended, and the caller may hold the outcome
    /// for a long time.
    pub(super) fn release(&self) {
        if let SkillState::Held(held) = self {
            held.release();
        }
    }
}

impl Runner {
    /// Returns the state for a run. A replay gets the recorded state, and must not see the state on
    /// this host.
    pub(super) async fn state(
        &self,
        skill: &Skill,
        limits: &Limits,
        io: &mut Io,
        ask: Option<&ReceiptContext>,
    ) -> Result<SkillState, Status> {
        match ask.and_then(|ask| ask.state.as_ref()) {
            Some(SkillState::Recorded(folder, bytes, files)) => {
                Ok(SkillState::Recorded(folder.clone(), *bytes, *files))
            }
            Some(SkillState::None | SkillState::Held(_)) => Ok(SkillState::None),
            None => Ok(self
                .take_state(skill, limits, io)
                .await?
                .map_or(SkillState::None, |held| SkillState::Held(Arc::new(held)))),
        }
    }

    /// Returns the state store of this host.
    pub fn states(&self) -> StateStore {
        StateStore::new(self.options.state.clone())
    }

    /// Locks the state of a skill, if the skill is granted one. Runs of one skill take turns: this
    /// waits for the others, at most for the time that a run may take.
    async fn take_state(
        &self,
        skill: &Skill,
        limits: &Limits,
        io: &mut Io,
    ) -> Result<Option<StateLock>, Status> {
        if limits.state == 0 {
            return Ok(None);
        }
        let (states, until, mut pause) =
            (self.states(), Instant::now() + limits.timeout(), PAUSES.0);
        loop {
            match states.take(&skill.name, &skill.root) {
                Ok(Some(held)) => return Ok(Some(held)),
                Ok(None) if Instant::now() < until => {}
                Ok(None) => {
                    let message =
                        "another run of this skill holds its state and did not end in time"
                            .to_owned();
                    return Err(Status::Failed {
                        message,
                        fix: Some("try again when that run has ended".into()),
                    });
                }
                Err(error) => {
                    return Err(Status::Failed {
                        message: format!("cannot use the skill's state: {error}"),
                        fix: None,
                    });
                }
            }
            let interrupted = async {
                match &mut io.interrupt {
                    Some(interrupt) => interrupt.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = interrupted => return Err(Status::Interrupted),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }
}
