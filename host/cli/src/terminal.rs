//! Questions to the operator at the terminal.
//!
//! `rpassword` and `dialoguer` leave Ctrl-C to the kernel, which would end the process while the
//! terminal hides what is typed; so the secret prompt is our own.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use skillhost_policy::diagnostic::printable;

use crate::error::CliError;
use crate::output;

/// Whether the operator can be asked: answers come from a terminal, and questions reach one.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question and reads one line from the terminal. Only for callers that have checked
/// [`is_interactive`].
pub(crate) fn ask(question: &str) -> Result<String, CliError> {
    output::question(question);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| CliError::io("read the answer", error))?;
    Ok(line.trim().to_owned())
}

/// Asks for a secret on the terminal, which does not show what is typed.
pub(crate) fn ask_secret(name: &str) -> io::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "the operator's terminal")]
    let mut terminal = std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    // Ctrl-C ends the line instead of the process, so the terminal is always restored.
    hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
    hidden.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let line = write!(terminal, "{}: ", printable(name)).and_then(|()| read_secret(&terminal));
    tcsetattr(&terminal, OptionalActions::Flush, &shown)?;
    writeln!(terminal)?;
    line
}

const CTRL_C: u8 = 3;

fn read_secret(terminal: &File) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut terminal = BufReader::new(terminal);
    let mut byte = [0];
    while !matches!(line.last(), Some(&(b'\n' | CTRL_C))) && terminal.read(&mut byte)? == 1 {
        line.push(byte[0]);
    }
    match line.pop() {
        Some(CTRL_C) => Err(io::ErrorKind::Interrupted.into()),
        Some(b'\n') | None => Ok(line),
        Some(other) => {
            line.push(other);
            Ok(line)
        }
    }
}
