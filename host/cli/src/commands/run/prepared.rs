//! A run that is allowed, and that its caller may start several times: each line of an interactive shell
//! is one.

use std::os::fd::{AsFd as _, OwnedFd};

use skillhost::invoke::Target;
use skillhost_policy::outcome::Outcome;
use skillhost_sandbox::{Io, Sink, Stdin};

use super::plan::Plan;
use super::{Args, LoadedSkill, allowed, finish, owned, raise_descriptor_limit};
use crate::error::{CliError, Exit};
use crate::event_loop;

/// A loaded skill whose run the policy or the operator allows.
pub(crate) struct PreparedRun {
    plan: Plan,
    loaded: LoadedSkill,
}

impl PreparedRun {
    /// Resolves the arguments, loads the skill and asks the operator if that is not decided.
    pub(crate) fn of(args: Args) -> Result<PreparedRun, CliError> {
        let plan = Plan::resolve(args)?;
        let loaded = allowed(&plan)?;
        raise_descriptor_limit();
        Ok(PreparedRun { plan, loaded })
    }

    /// Whether an option or the policy makes it deterministic.
    pub(crate) fn is_deterministic(&self) -> bool {
        self.plan.context.policy.layers.iter().any(|layer| layer.determinism.on == Some(true))
    }

    /// The name of the skill.
    pub(crate) fn skill_name(&self) -> String {
        self.plan.skill.name().into_owned()
    }

    /// Runs a shell command without input on the terminal, and records it. Its output goes to `stdout`.
    /// Prints how it ended.
    pub(crate) fn start(
        &self,
        command: &str,
        stdout: OwnedFd,
    ) -> Result<(Exit, Outcome), CliError> {
        let Plan { host, .. } = &self.plan;
        let target = Target::Shell(command.to_owned());
        let invoked = event_loop::with(|event_loop, interrupt| {
            let io = Io {
                stdin: Stdin::Empty,
                stdout: Sink::Descriptor(stdout),
                stderr: Sink::Descriptor(owned(std::io::stderr().as_fd())?),
                interrupt: Some(interrupt),
                uses: false,
            };
            event_loop
                .block_on(host.invoke_loaded(&self.loaded, &target, &[], io))
                .map_err(|error| self.plan.failed(error))
        })?;
        host.settle();
        let outcome = invoked.finished.outcome.clone();
        let exit = finish(&self.plan, &self.loaded, invoked, None, None)?;
        Ok((exit, outcome))
    }
}
