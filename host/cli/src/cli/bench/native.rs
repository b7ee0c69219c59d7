//! A skill's script as it would run without a sandbox: only where the operator asks for it by
//! `--native`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use skillhost_skill::runtime::Program;
use skillhost_skill::runtime::spawn::SKILL_MOUNT;

use super::Args;
use crate::cli::Failure;
use crate::cli::exit::Exit;

/// A script, and the machine's own program for it.
pub(super) struct Script {
    program: String,
    args: Vec<String>,
    folder: PathBuf,
}

impl Script {
    /// The script that a program of the sandbox would run.
    ///
    /// # Errors
    /// It runs none: a component has no native form.
    pub(super) fn of(args: &Args, program: Option<&Program>) -> Result<Script, Failure> {
        let Some(program) = program.filter(|program| program.script.is_some()) else {
            return Err(Failure::new(
                Exit::Usage,
                "--native compares a script, and none of the skill's would run",
            )
            .fix("name a script"));
        };
        let skill = args.skill.canonicalize().map_err(|error| {
            Failure::new(Exit::Io, format!("{}: {error}", args.skill.display()))
        })?;
        // What the guest finds below /skill is in the skill's folder.
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

    pub(super) fn run(&self) -> Result<(), Failure> {
        #[expect(
            clippy::disallowed_methods,
            reason = "asked for by --native, and said when it runs"
        )]
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| {
            Failure::new(Exit::Io, format!("{}: {error}", self.program))
                .fix("--native needs the machine's own program of that name")
        })?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::new(Exit::Io, format!("natively, `{}` ended with {status}", self.shown()))
            .fix("leave --native out"))
    }
}
