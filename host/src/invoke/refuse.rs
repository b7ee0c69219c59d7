//! An invocation that was not let run: it is recorded, and nothing else.

use super::pending::Pending;
use super::{Host, Loaded, Target, not_run, target};
use crate::audit::{AuditError, ProgramId};
use crate::outcome::{Denial, Status};

impl Host {
    /// Records that a word was missing for an invocation.
    ///
    /// # Errors
    /// The audit log cannot be written.
    pub fn refuse(&self, loaded: &Loaded, target: &Target, args: &[String], denial: Denial) -> Result<(), AuditError> {
        let Loaded { skill, capabilities, id, programs, retention, .. } = loaded;
        let program = programs.as_ref().ok().and_then(|programs| target::program(skill, programs, target, args).ok());
        let program = program.as_ref().map(ProgramId::of);
        let pending = Pending::new(self.log()?, self.hooks.clone(), *retention, id.clone(), program, capabilities.clone());
        pending.close(&not_run(Status::Denied(denial)))
    }
}
