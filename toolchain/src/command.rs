//! Runs a command as part of a step. Its output becomes part of the error; its stderr can be shown
//! as it arrives.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};

use crate::progress::{Step, line};

/// A command that could not be started or failed.
#[derive(Debug)]
pub struct CommandError {
    /// The command line.
    pub command: String,
    /// The reason: why it could not be started, or its exit status.
    pub why: String,
    /// The contents of stdout, then of stderr. Empty for streams that were already shown.
    pub output: String,
}

impl Step {
    /// Runs a command to its end and returns its stdout. The latest line of its stderr becomes the
    /// step's note; with `verbose`, stderr is shown as it arrives.
    pub fn run(&self, command: &mut Command) -> Result<Vec<u8>, CommandError> {
        let spawned =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|e| CommandError::io(command, &e))?;
        let mut out = child.stdout.take().expect("the stream is piped");
        let reader = std::thread::spawn(move || {
            let mut stdout = Vec::new();
            out.read_to_end(&mut stdout).map(|_| stdout)
        });
        let stderr = self.follow(child.stderr.take().expect("the stream is piped"));
        let stdout = reader
            .join()
            .expect("reading does not panic")
            .map_err(|e| CommandError::io(command, &e))?;
        let status = child.wait().map_err(|e| CommandError::io(command, &e))?;
        if status.success() {
            return Ok(stdout);
        }
        let output =
            String::from_utf8_lossy(&stdout).into_owned() + if self.verbose { "" } else { &stderr };
        Err(CommandError::ended(command, status, output))
    }

    /// Runs a command that shares this process's stdout and stderr.
    pub fn run_loud(&self, command: &mut Command) -> Result<(), CommandError> {
        let status =
            command.stdin(Stdio::null()).status().map_err(|e| CommandError::io(command, &e))?;
        if status.success() {
            Ok(())
        } else {
            Err(CommandError::ended(command, status, String::new()))
        }
    }

    fn follow(&self, stderr: impl Read) -> String {
        let mut all = String::new();
        for bytes in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&bytes);
            if self.verbose {
                line(&text);
            } else {
                self.note(&text);
            }
            all.push_str(&text);
            all.push('\n');
        }
        all
    }
}

impl CommandError {
    fn io(command: &Command, error: &io::Error) -> Self {
        Self { command: show(command), why: error.to_string(), output: String::new() }
    }

    fn ended(command: &Command, status: ExitStatus, output: String) -> Self {
        Self { command: show(command), why: status.to_string(), output }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.command, self.why)?;
        if self.output.trim().is_empty() {
            Ok(())
        } else {
            write!(f, "\n{}", self.output.trim_end())
        }
    }
}

impl std::error::Error for CommandError {}

/// Formats the command line. Words are not quoted.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::{CommandError, Progress};
    use std::process::Command;

    fn run(script: &str) -> Result<Vec<u8>, CommandError> {
        Progress::silent().step("test", |step| step.run(Command::new("sh").args(["-c", script])))
    }

    #[test]
    fn success_returns_stdout_only() {
        assert_eq!(run("echo out; echo err >&2").unwrap(), b"out\n");
    }

    #[test]
    fn failure_includes_all_output() {
        let error = run("echo out; echo err >&2; exit 3").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c echo out; echo err >&2; exit 3`: exit status: 3\nout\nerr"
        );
    }

    #[test]
    fn missing_command_is_named() {
        let error = Progress::silent()
            .step("test", |step| step.run(&mut Command::new("no-such-program")))
            .unwrap_err();
        assert_eq!(error.to_string(), "`no-such-program`: No such file or directory (os error 2)");
    }

    #[test]
    fn large_output_on_both_streams_does_not_block() {
        let out = run("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2").unwrap();
        assert_eq!(out.len(), 300_000);
    }
}
