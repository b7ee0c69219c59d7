//! What people see: messages with their fix, findings as snippets. Colours only where a terminal
//! shows them.
//!
//! Results go to stdout, and everything that skillhost itself says goes to stderr. What a skill or
//! a guest wrote is printed through [`printable`], so that it cannot move the cursor, colour a lie
//! or turn a line around.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anstyle::{AnsiColor, Style};
use skillhost_policy::diagnostic::{self, Diagnostic, is_hidden, printable, printable_lines};
use skillhost_policy::manifest::rules::{self, LoadEffect};
use skillhost_policy::outcome::{Change, ChangeKind, Denial, Outcome, Status};
use skillhost_policy::protected;
use skillhost_sandbox::terminal::{Filter, RESET};
use skillhost_skill::Skill;

use super::Failure;
use super::exit::Exit;

const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// An error on stderr, and what would mend it.
pub(crate) fn error(message: &str, fix: Option<&str>) {
    say(&format!("{RED}error{RED:#}: {}", lines(message, 0)), fix);
}

/// Something that the user should know, on stderr.
pub(crate) fn warning(message: &str, fix: Option<&str>) {
    say(&format!("{YELLOW}warning{YELLOW:#}: {}", lines(message, 0)), fix);
}

fn say(message: &str, fix: Option<&str>) {
    stderr(&format!("{message}\n"));
    help(fix);
}

/// What would mend it, on stderr.
pub(crate) fn help(fix: Option<&str>) {
    if let Some(fix) = fix {
        stderr(&format!("  {CYAN}help{CYAN:#}: {}\n", lines(fix, 8)));
    }
}

/// More about an error, on stderr.
pub(crate) fn note(message: &str) {
    stderr(&format!("  {}\n", lines(message, 2)));
}

/// A question on stderr, whose answer is typed behind it.
pub(crate) fn question(text: &str) {
    stderr(&printable(text));
}

/// Findings about a file, on stderr.
pub(crate) fn findings(diagnostics: &[Diagnostic], source: &str) {
    stderr(&format!("{}\n", snippets(diagnostics, source)));
}

/// Findings about a file, as a text.
pub(crate) fn snippets(diagnostics: &[Diagnostic], source: &str) -> String {
    diagnostic::render(diagnostics, source).trim_end().to_owned()
}

/// Shows why a skill that loads is granted nothing, with the places in SKILL.md.
pub(crate) fn withheld_grant(skill: &Skill) {
    if skill.manifest.ungranted {
        let withholds = |d: &&Diagnostic| {
            rules::RULES
                .iter()
                .any(|rule| rule.name == d.rule && rule.effect == LoadEffect::Ungranted)
        };
        findings(
            &skill.diagnostics.iter().filter(withholds).cloned().collect::<Vec<_>>(),
            &skill.source,
        );
    }
}

/// The head of what follows about one skill.
pub(crate) fn title(name: &str, path: &std::path::Path) -> String {
    format!("{CYAN}{}{CYAN:#} ({})", printable(name), printable(&path.display().to_string()))
}

/// A stranger's text, which may have lines; those after the first are indented.
pub(crate) fn lines(text: &str, indent: usize) -> String {
    printable_lines(text).replace('\n', &format!("\n{:indent$}", ""))
}

/// Columns that a table may take: the terminal's, or a page's where there is none.
pub(crate) fn width() -> u16 {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| size.ws_col.clamp(40, 160))
}

/// A JSON value on stdout.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(Exit::Io, format!("the result is not valid JSON: {error}"))
    })?;
    bytes(format!("{}\n", visible_json(&text)).as_bytes())
}

/// Set once anything is on stdout.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// With `--json`, and nothing on stdout yet: why the verb ended, as the one JSON object that is
/// printed.
pub(crate) fn error_object(failure: &Failure) {
    // A flag of the verb's own: what follows `--` is for the skill.
    let is_wanted =
        std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if !is_wanted || PRINTED.load(Relaxed) {
        return;
    }
    let Failure { exit, message, fix, details } = failure;
    let mut error = serde_json::json!({ "code": exit.code(), "message": message });
    if let (Some(error), Some(details)) =
        (error.as_object_mut(), details.as_ref().and_then(|details| details.as_object()))
    {
        error.extend(details.clone());
    }
    error["fix"] = fix.as_deref().into();
    // Why stdout cannot be written is on stderr already.
    json(&serde_json::json!({ "error": error })).ok();
}

/// A text of skillhost's own on stdout, styles included; each part that a stranger wrote has been
/// through [`lines`] or [`printable`].
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    PRINTED.store(true, Relaxed);
    written(writeln!(anstream::stdout().lock(), "{}", text.trim_end()))
}

/// Lines of a stranger's on stdout: as they are for a file or a pipe, escaped for a terminal.
pub(crate) fn foreign(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        bytes(format!("{}\n", lines(text, 0)).as_bytes())
    } else {
        bytes(text.as_bytes())
    }
}

/// Bytes on stdout, as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    PRINTED.store(true, Relaxed);
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// A reader that has gone away (`| head -1`) has what it wanted.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Io, format!("stdout cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

fn stderr(text: &str) {
    // There is no other place to say that stderr cannot be written.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// The same JSON, with characters that a terminal acts on as escapes. They stand in strings alone,
/// but for the line ends.
fn visible_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_hidden(c) {
            // All of them are in the basic plane: one unit each.
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// How a run ended, on stderr, where it did not end by itself; and what it tried and was not
/// allowed.
pub(crate) fn ending(outcome: &Outcome) {
    for Denial { what, rule, fix, .. } in &outcome.denials {
        warning(&format!("denied: {what}: {rule}"), fix.as_deref());
    }
    match &outcome.status {
        Status::Exited { .. } => outcome.error.iter().for_each(|message| error(message, None)),
        Status::Denied(Denial { what, rule, fix, .. }) => {
            error(&format!("denied: {what}: {rule}"), fix.as_deref())
        }
        Status::Invalid { message, fix } | Status::Failed { message, fix } => {
            error(message, fix.as_deref())
        }
        Status::LimitHit(hit) => error(&hit.explain(), None),
        Status::Trapped { message } => error(&format!("the guest trapped: {message}"), None),
        Status::Aborted { reason } => {
            error(&format!("aborted, and so without a result: {reason}"), None)
        }
        Status::Interrupted => error("interrupted", None),
    }
}

/// What a guest wrote, where that was kept for the outcome: as it is, for it is the guest's own
/// output; on a terminal, text and colours.
pub(crate) fn captured(outcome: &Outcome) -> Result<(), Failure> {
    let shown = |bytes: &[u8], is_terminal: bool| {
        let mut shown = Vec::new();
        if is_terminal {
            Filter::default().pass(bytes, &mut shown);
        }
        if is_terminal { shown } else { bytes.to_vec() }
    };
    // There is no other place to say that stderr cannot be written.
    let _ = io::stderr().lock().write_all(&shown(&outcome.stderr.0, io::stderr().is_terminal()));
    bytes(&shown(&outcome.stdout.0, io::stdout().is_terminal()))?;
    reset();
    Ok(())
}

/// Ends whatever a guest left open on the terminal, before the host says anything there.
pub(crate) fn reset() {
    // There is no other place to say that it cannot be written.
    let _ = match (io::stderr().is_terminal(), io::stdout().is_terminal()) {
        (true, _) => io::stderr().lock().write_all(RESET.as_bytes()),
        (_, true) => io::stdout().lock().write_all(RESET.as_bytes()),
        _ => Ok(()),
    };
}

/// What an overlay holds, on stderr.
pub(crate) fn changes(changes: &[Change]) {
    for Change { path, kind } in changes {
        let word = match kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "removed",
        };
        let mark = if protected::is_run_by_host(path) {
            format!(" {}", protected::RUN_BY_HOST_MARK)
        } else {
            String::new()
        };
        stderr(&format!("{CYAN}{word}{CYAN:#}: {}{mark}\n", printable(path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_means_the_same_and_holds_nothing_that_a_terminal_acts_on() {
        let value = serde_json::json!({ "a\u{9b}31m": ["\u{1b}[2J", "\u{202e}gnp", "a\nb", "üñ\u{1f600}"] });
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{shown}");
    }

    #[test]
    fn a_message_of_a_guest_keeps_its_lines_and_loses_its_escapes() {
        assert_eq!(lines("one\r\n\u{1b}[31mtwo", 2), "one\n  \\u{1b}[31mtwo");
    }
}
