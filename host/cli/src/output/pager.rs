//! Shows a long list in a pager, if stdout is a terminal that is too short for it.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use crate::error::CliError;

/// The pager if $PAGER is not set.
const DEFAULT: &str = "less";

/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// Prints a list with its styles. Untrusted parts must have passed `printable`.
pub(crate) fn list(text: &str) -> Result<(), CliError> {
    let height = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_row);
    let is_long = io::stdout().is_terminal() && text.lines().count() >= usize::from(height);
    if is_long && height > 0 && page(text) { Ok(()) } else { super::text(text) }
}

/// Whether a pager showed the text.
fn page(text: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the command line reads the environment")]
    let variable = |name| std::env::var(name).ok();
    let pager = variable("PAGER").unwrap_or_else(|| DEFAULT.to_owned());
    if pager.trim().is_empty() {
        return false;
    }
    // $PAGER is a command line.
    #[expect(clippy::disallowed_methods, reason = "the operator's pager")]
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if variable("LESS").is_none() {
        // Ends by itself if the text fits, shows colours, leaves the text on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    let is_plain = anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never;
    let text = text.trim_end();
    let text = if is_plain { anstream::adapter::strip_str(text).to_string() } else { text.into() };
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that was closed early has shown what was wanted.
        let _ = stdin.write_all(text.as_bytes()).and_then(|()| stdin.write_all(b"\n"));
    }
    child.wait().is_ok_and(|ended| ended.code() != Some(NOT_FOUND))
}
