//! The record of an invocation that is under way: it is written whatever comes.

use std::sync::Arc;

use tracing::debug_span;

use super::hooks::Hooks;
use super::not_run;
use crate::audit::{AuditError, Log, ProgramId, Record, SkillId};
use crate::outcome::{Outcome, Status};
use crate::policy::Retention;
use crate::policy::capabilities::Capabilities;

/// A record that is still to be written. Where its invocation is dropped or panics, it is written as one that was interrupted.
pub(super) struct Pending {
    pub(super) log: Arc<Log>,
    pub(super) hooks: Arc<Hooks>,
    pub(super) receipt: Option<String>,
    pub(super) retention: Retention,
    /// When it began, and what it is; `None` once it is written.
    pub(super) open: Option<(String, SkillId, Option<ProgramId>, Arc<Capabilities>)>,
}

impl Pending {
    /// Writes it.
    pub(super) fn close(mut self, outcome: &Outcome) -> Result<(), AuditError> {
        self.write(outcome)
    }

    fn write(&mut self, outcome: &Outcome) -> Result<(), AuditError> {
        let Some((time, skill, program, capabilities)) = self.open.take() else { return Ok(()) };
        let _span = debug_span!("record").entered();
        let record = Record { receipt: self.receipt.take(), ..Record::of(time, &skill, program, &capabilities, outcome) };
        self.log.append_keeping(&record, self.retention)?;
        self.hooks.recorded(&record);
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Err(error) = self.write(&not_run(Status::Interrupted)) {
            tracing::error!(%error, "an invocation that was dropped is not recorded");
        }
    }
}
