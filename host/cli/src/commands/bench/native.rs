//! A skill's script outside the sandbox, for `bench --native` alone.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use skillhost_skill::runtime::Program;
use skillhost_skill::runtime::spawn::SKILL_MOUNT;

use super::Args;
use crate::error::{CliError, Exit};

/// A script, and the program of the machine that runs it.
pub(super) struct Script {
    program: String,
    args: Vec<String>,
    folder: PathBuf,
}

impl Script {
    /// The script that a program in the sandbox would run.
    ///
    /// # Errors
    /// The program runs no script: components have no native form.
    pub(super) fn of(args: &Args, program: Option<&Program>) -> Result<Script, CliError> {
        let Some(program) = program.filter(|program| program.script.is_some()) else {
            let message = "--native compares a script, and this run uses none";
            return Err(CliError::usage(message).fix("name a script"));
        };
        let skill = args
            .skill
            .canonicalize()
            .map_err(|error| CliError::io(format_args!("find {}", args.skill.display()), error))?;
        // The guest sees the skill's folder as /skill.
        let own = |arg: &String| match arg.strip_prefix(SKILL_MOUNT) {
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", skill.display()),
            _ => arg.clone(),
        };
        let folder =
            args.permissions.workspace_folder().map_or_else(|| skill.clone(), PathBuf::from);
        Ok(Script {
            program: program.name.clone(),
            args: program.args.iter().map(own).collect(),
            folder,
        })
    }

    pub(super) fn shown(&self) -> String {
        format!("{} {}", self.program, self.args.join(" "))
    }

    pub(super) fn run(&self) -> Result<(), CliError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "--native requests it, and a warning announces it"
        )]
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| {
            CliError::io(format_args!("run {}", self.program), error)
                .fix("install it: --native runs the machine's own program of that name")
        })?;
        if status.success() {
            return Ok(());
        }
        let message = format!("outside the sandbox, `{}` failed: {status}", self.shown());
        Err(CliError::new(Exit::Io, message).fix("leave out --native"))
    }
}
