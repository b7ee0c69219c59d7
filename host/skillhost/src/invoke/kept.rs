//! What a skill keeps from run to run, for one run.

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

/// How long it is before a state that another run holds is asked for again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// What a skill finds of what it kept.
pub(super) enum SkillState {
    /// Nothing.
    None,
    /// This host's, which no other run has meanwhile.
    StateLock(Arc<StateLock>),
    /// That of a recording, in a folder that was made again: how many bytes and files it had.
    Recorded(Arc<Dir>, u64, u64),
}

impl SkillState {
    /// As guests see it.
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

    /// Lets others have it: nothing of the run goes on, and what it came to may be looked at for
    /// long.
    pub(super) fn release(&self) {
        if let SkillState::Held(held) = self {
            held.release();
        }
    }
}

impl Runner {
    /// What a skill finds of what it kept: of a recording what was recorded, since what is kept on
    /// this host is none of its business.
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

    /// What skills keep on this host.
    pub fn states(&self) -> StateStore {
        StateStore::new(self.options.state.clone())
    }

    /// The state of a skill that is granted one. Runs of one skill take turns: this waits for the
    /// others, no longer than a run may take.
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
                        "another run of this skill holds what it keeps, and did not end in time"
                            .to_owned();
                    return Err(Status::Failed {
                        message,
                        fix: Some("run it again when that has ended".into()),
                    });
                }
                Err(error) => {
                    return Err(Status::Failed {
                        message: format!("what the skill keeps is not usable: {error}"),
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
