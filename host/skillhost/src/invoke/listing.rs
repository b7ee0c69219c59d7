//! Asks a skill's component for its tools, if no section of the component lists them. This is a run
//! like any other, with small limits.

use std::sync::Arc;

use super::hooks::PlannedRun;
use super::run_record::PendingRecord;
use super::{LoadedSkill, RunError, Runner, not_run, target};
use skillhost_ledger::audit::ProgramId;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_sandbox::{self as sandbox, Io, Tool, say};
use skillhost_skill::runtime::{Component, EntryPoint, Program};

/// Memory limit of a listing, in bytes.
pub(crate) const LISTING_MEMORY: u64 = 64 << 20;
/// Time limit of a listing, in milliseconds, without compilation.
const LISTING_MS: u64 = 5_000;
/// Processor time limit for compiling a component to be listed, in milliseconds.
const COMPILE_MS: u64 = 30_000;

impl Runner {
    /// Asks a component for its typed tools, in a sandbox that grants nothing. A command has none.
    /// Nothing is recorded, because no skill runs.
    ///
    /// # Errors
    /// How the listing ended without an answer.
    pub async fn component_tools(&self, component: &Component) -> Result<Vec<Tool>, Status> {
        let entry = EntryPoint::ListTools;
        let program = Program {
            name: "tools".into(),
            component: component.clone(),
            entry,
            args: Vec::new(),
            script: None,
        };
        let finished = sandbox::run_alone(
            &self.sandbox,
            &program,
            &self.options.scratch,
            Arc::default(),
            Io::default(),
        )
        .await;
        match finished.outcome {
            Outcome { result: Some(tools), .. } => {
                serde_json::from_value(tools).map_err(|error| invalid(error.to_string()))
            }
            Outcome { error: Some(message), .. } => Err(invalid(message)),
            Outcome { status, .. } => Err(status),
        }
    }

    /// Asks the component of a loaded skill for its tools. The component is granted nothing and
    /// runs under small limits; the run is recorded.
    ///
    /// # Errors
    /// The audit log cannot be written.
    pub async fn list_tools(
        &self,
        loaded: &LoadedSkill,
    ) -> Result<Result<ComponentTools, String>, RunError> {
        // From the files that were digested, and approved, when the skill was loaded.
        let component = loaded.programs.as_ref().map_err(Clone::clone).and_then(|programs| {
            let (_, component) =
                target::declared(&loaded.skill, |path| programs.component_at(path))?;
            Ok(component)
        });
        let component = match component {
            Ok(component) => component,
            Err(status) => return Ok(Err(say(&status))),
        };
        let digest = component.digest.clone();
        let program = Program {
            name: "list-tools".into(),
            component,
            entry: EntryPoint::ListTools,
            args: Vec::new(),
            script: None,
        };
        let granted = &loaded.capabilities;
        let capabilities = Capabilities {
            limits: limits(&granted.limits),
            determinism: granted.determinism,
            ..Capabilities::default()
        };
        let capabilities = Arc::new(capabilities);
        let ran = ProgramId::of(&program);
        let allowed = self.hooks.approve(&PlannedRun {
            skill: &loaded.id,
            program: &ran,
            capabilities: &capabilities,
        });
        let (log, hooks) = (self.log()?, self.hooks.clone());
        let mut pending = PendingRecord::new(
            log,
            hooks,
            loaded.retention,
            loaded.id.clone(),
            Some(ran),
            capabilities.clone(),
        );
        let outcome = match allowed {
            Ok(()) => {
                pending.start()?;
                sandbox::run_alone(
                    &self.sandbox,
                    &program,
                    &self.options.scratch,
                    capabilities,
                    Io::default(),
                )
                .await
                .outcome
            }
            Err(denial) => not_run(Status::Denied(denial)),
        };
        pending.close(&outcome)?;
        Ok(match outcome {
            Outcome { result: Some(tools), .. } => match serde_json::from_value(tools) {
                Ok(tools) => Ok(ComponentTools { component: digest, tools }),
                Err(error) => Err(error.to_string()),
            },
            Outcome { error: Some(message), .. } => Err(message),
            Outcome { status, .. } => Err(say(&status)),
        })
    }
}

/// The tools of a component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentTools {
    /// The component's digest.
    pub component: String,
    /// Its tools.
    pub tools: Vec<Tool>,
}

fn invalid(message: String) -> Status {
    Status::Invalid { message, fix: None }
}

/// Returns the limits of a listing, which are never above those of a run.
fn limits(run: &Limits) -> Limits {
    Limits {
        timeout_ms: run.timeout_ms.min(LISTING_MS),
        memory: run.memory.min(LISTING_MEMORY),
        compile_ms: run.compile_ms.min(COMPILE_MS),
        stderr: run.stderr.min(1 << 20),
        processes: 0,
        http_requests: 0,
        state: 0,
        ..run.clone()
    }
}
