//! What a skill keeps from run to run, for one run.

use std::time::{Duration, Instant};

use super::Host;
use crate::limits::Limits;
use crate::outcome::Status;
use crate::sandbox::Io;
use crate::skill::Skill;
use crate::state::{Held, States};

/// How long it is before a state that another run holds is asked for again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

impl Host {
    /// What skills keep on this host.
    pub fn states(&self) -> States {
        States::new(self.options.state.clone())
    }

    /// The state of a skill that is granted one. Runs of one skill take turns: this waits for the others, no longer than a run may take.
    pub(super) async fn take_state(&self, skill: &Skill, limits: &Limits, io: &mut Io) -> Result<Option<Held>, Status> {
        if limits.state == 0 {
            return Ok(None);
        }
        let (states, until, mut pause) = (self.states(), Instant::now() + limits.timeout(), PAUSES.0);
        loop {
            match states.take(&skill.name, &skill.root) {
                Ok(Some(held)) => return Ok(Some(held)),
                Ok(None) if Instant::now() < until => {}
                Ok(None) => {
                    let message = "another run of this skill holds what it keeps, and did not end in time".to_owned();
                    return Err(Status::Failed { message, fix: Some("run it again when that has ended".into()) });
                }
                Err(error) => return Err(Status::Failed { message: format!("what the skill keeps is not usable: {error}"), fix: None }),
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
