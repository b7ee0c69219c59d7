//! A skill's script outside the sandbox, for `bench --native` and `test --native` alone.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use skillhost_skill::runtime::Program;
use skillhost_skill::runtime::spawn::SKILL_MOUNT;

use serde::Serialize;

use crate::error::{CliError, Exit};

/// A script, and the program of the machine that runs it.
pub(crate) struct Script {
    pub(crate) interpreter: Interpreter,
    args: Vec<String>,
    folder: PathBuf,
}

/// A program of the machine.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Interpreter {
    /// Its path. A name only if it does not report its path.
    path: String,
    /// The name and version that it reports, such as `Python 3.14.0`.
    version: Option<String>,
}

impl Interpreter {
    /// Asks the command of this name which program it is. The command may be a shim, as of pyenv or
    /// asdf, which takes longer to find the program than the program takes to start.
    fn resolve(command: &str, folder: &Path) -> Interpreter {
        // `-I`: imports nothing from the skill's folder. `-p` and `-c` run before any file of it.
        let (arguments, question): (&[&str], _) = match command {
            "python3" => (
                &["-I", "-c"],
                "import platform, sys; print(sys.executable, 'Python ' + platform.python_version(), sep='\\n')",
            ),
            "node" => (&["-p"], r"process.execPath + '\nNode ' + process.version"),
            _ => (&["-c"], r#"printf '%s\nbash %s\n' "$BASH" "$BASH_VERSION""#),
        };
        let answer = start(command)
            .args(arguments)
            .arg(question)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
        match text.unwrap_or_default().lines().collect::<Vec<_>>().as_slice() {
            [path, version] if path.starts_with('/') => {
                Interpreter { path: (*path).to_owned(), version: Some((*version).to_owned()) }
            }
            _ => Interpreter { path: command.to_owned(), version: None },
        }
    }
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, " ({version})"))
    }
}

impl Script {
    /// The script that a program in the sandbox would run. `skill` is the folder that the guest sees
    /// as /skill, and the script runs in `folder`.
    ///
    /// # Errors
    /// The program runs no script: components have no native form.
    pub(crate) fn of(
        program: Option<&Program>,
        skill: &Path,
        folder: Option<&Path>,
    ) -> Result<Script, CliError> {
        let Some(program) = program.filter(|program| program.script.is_some()) else {
            let message = "--native compares a script, and this run uses none";
            return Err(CliError::usage(message).fix("name a script"));
        };
        let skill = skill
            .canonicalize()
            .map_err(|error| CliError::io(format_args!("find {}", skill.display()), error))?;
        let own = |arg: &String| match arg.strip_prefix(SKILL_MOUNT) {
            Some(rest) if rest.starts_with('/') => format!("{}{rest}", skill.display()),
            _ => arg.clone(),
        };
        let folder = folder.map_or_else(|| skill.clone(), PathBuf::from);
        Ok(Script {
            interpreter: Interpreter::resolve(&program.name, &folder),
            args: program.args.iter().map(own).collect(),
            folder,
        })
    }

    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.interpreter.path, self.args.join(" "))
    }

    pub(crate) fn run(&self) -> Result<(), CliError> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| self.failed(error))?;
        if status.success() {
            return Ok(());
        }
        let message = format!("outside the sandbox, `{}` failed: {status}", self.shown());
        Err(CliError::new(Exit::Io, message).fix("leave out --native"))
    }

    /// Runs the script with this input, and returns how it ended and what it printed.
    pub(crate) fn output(&self, stdin: File) -> Result<Output, CliError> {
        self.command().stdin(stdin).output().map_err(|error| self.failed(error))
    }

    fn command(&self) -> Command {
        let mut command = start(&self.interpreter.path);
        command.args(&self.args).current_dir(&self.folder);
        command
    }

    fn failed(&self, error: std::io::Error) -> CliError {
        CliError::io(format_args!("run {}", self.interpreter.path), error)
            .fix("install it: --native runs the machine's own program of that name")
    }
}

#[expect(clippy::disallowed_methods, reason = "--native requests it, and a warning announces it")]
fn start(program: &str) -> Command {
    Command::new(program)
}
