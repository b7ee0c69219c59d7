//! Records refused runs, and serializes errors as JSON.

use serde::{Serialize, Serializer};

use super::run_record::PendingRecord;
use super::{LoadedSkill, RunError, Runner, Target, not_run, target};
use skillhost_ledger::audit::{AuditError, ProgramId};
use skillhost_policy::diagnostic::error_object;
use skillhost_policy::outcome::{Denial, Status};

impl Serialize for RunError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (code, details) = match self {
            RunError::Skill(error) => return error.serialize(serializer),
            RunError::Audit(error) => return error.serialize(serializer),
            RunError::Target(choice) => {
                let scripts: Vec<&str> =
                    choice.scripts.iter().map(|script| script.path.as_str()).collect();
                (
                    "choice",
                    serde_json::json!({ "suggestion": choice.suggestion, "scripts": scripts }),
                )
            }
            RunError::Recording(_) => ("recording", serde_json::Value::Null),
            RunError::Stdin => ("stdin", serde_json::Value::Null),
        };
        error_object(code, self, details).serialize(serializer)
    }
}

impl Runner {
    /// Records that a run was refused because it lacked an approval.
    ///
    /// # Errors
    /// The audit log cannot be written.
    pub fn record_refusal(
        &self,
        loaded: &LoadedSkill,
        target: &Target,
        args: &[String],
        denial: Denial,
    ) -> Result<(), AuditError> {
        let LoadedSkill { skill, capabilities, id, programs, retention, redactor, .. } = loaded;
        let program = programs
            .as_ref()
            .ok()
            .and_then(|programs| target::program(skill, programs, target, args).ok());
        let program = program.as_ref().map(ProgramId::of);
        let pending = PendingRecord::new(
            self.log()?,
            self.hooks.clone(),
            *retention,
            id.clone(),
            program,
            capabilities.clone(),
        );
        let pending = pending.in_session(loaded.session.as_ref());
        let pending = pending.with_text(redactor.as_ref(), target.texts(args));
        pending.close(&not_run(Status::Denied(denial)))
    }
}
