//! What people see: messages with their fixes, findings as snippets, tables, JSON. Colours appear
//! only on a terminal.
//!
//! Results go to stdout; everything else that skillhost says goes to stderr, how much of it as
//! [`Verbosity`] says. Text that a skill or a
//! guest wrote is printed through [`printable`], which leaves it no way to move the cursor, to
//! imitate a message in colour, or to reverse a line.

pub(crate) mod compatibility;
pub(crate) mod differences;
mod limits;
pub(crate) mod pager;

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use skillhost_policy::diagnostic::{self, Diagnostic, is_hidden, printable, printable_lines};
use skillhost_policy::manifest::rules::{self, LoadEffect};
use skillhost_policy::outcome::{Change, ChangeKind, Denial, LimitHit, Outcome, Status};
use skillhost_policy::{Policy, blocking_entry, protected};
use skillhost_sandbox::terminal::{Filter, RESET};
use skillhost_skill::Skill;

use crate::error::CliError;

pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default().bold();

/// What skillhost says on stderr besides errors, and questions with what they are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Nothing.
    Quiet,
    /// Warnings, fixes, notes and progress.
    Normal,
    /// What it does, as well.
    Verbose,
}

static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Normal as u8);

impl Verbosity {
    /// Sets the verbosity of this process.
    pub(crate) fn write_global(self) {
        VERBOSITY.store(self as u8, Relaxed);
    }
}

/// Whether `--quiet` was given.
pub(crate) fn is_quiet() -> bool {
    VERBOSITY.load(Relaxed) == Verbosity::Quiet as u8
}

/// Whether `--verbose` was given.
pub(crate) fn is_verbose() -> bool {
    VERBOSITY.load(Relaxed) == Verbosity::Verbose as u8
}

/// With `--verbose`, prints what skillhost does to stderr. The text must contain no token, and no
/// value of a variable.
pub(crate) fn info(text: impl FnOnce() -> String) {
    if is_verbose() {
        stderr(&format!("{CYAN}info{CYAN:#}: {}\n", lines(&text(), 6)));
    }
}

/// Prints why a command failed: findings, message and fix to stderr, and with `--json` an object to
/// stdout.
pub(crate) fn failure(error: &CliError) {
    if let Some(found) = &error.findings {
        findings(&found.0, &found.1);
    }
    self::error(&error.message, error.fix.as_deref());
    error_object(error);
}

/// Prints an error and its fix to stderr.
pub(crate) fn error(message: &str, fix: Option<&str>) {
    stderr(&format!("{RED}error{RED:#}: {}\n", lines(message, 0)));
    help(fix);
}

/// Prints a warning and its fix to stderr.
pub(crate) fn warning(message: &str, fix: Option<&str>) {
    notice(&format!("{YELLOW}warning{YELLOW:#}: {}\n", lines(message, 0)));
    help(fix);
}

/// Prints a fix to stderr.
pub(crate) fn help(fix: Option<&str>) {
    if let Some(fix) = fix {
        notice(&format!("  {CYAN}help{CYAN:#}: {}\n", lines(fix, 8)));
    }
}

/// Prints more about the message before it to stderr.
pub(crate) fn note(message: &str) {
    notice(&format!("  {}\n", lines(message, 2)));
}

/// Prints what a question, a verdict or an error is about to stderr, also with `--quiet`.
pub(crate) fn explanation(message: &str) {
    stderr(&format!("  {}\n", lines(message, 2)));
}

/// Prints a question to stderr; the answer is typed after it.
pub(crate) fn question(text: &str) {
    stderr(&printable(text));
}

/// Whether the operator sees stderr while a command runs.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Prints to stderr what a command does at the moment; [`progress_end`] finishes the line.
pub(crate) fn progress(text: &str) {
    notice(&format!("{text} ... "));
}

/// Finishes the line of [`progress`].
pub(crate) fn progress_end(text: &str) {
    notice(&format!("{text}\n"));
}

/// Prints findings about a file to stderr.
pub(crate) fn findings(diagnostics: &[Diagnostic], source: &str) {
    stderr(&format!("{}\n", snippets(diagnostics, source)));
}

/// Findings about a file as text.
pub(crate) fn snippets(diagnostics: &[Diagnostic], source: &str) -> String {
    diagnostic::render(diagnostics, source).trim_end().to_owned()
}

/// Prints why a skill that loads is granted nothing, with the places in SKILL.md.
pub(crate) fn withheld_grant(skill: &Skill) {
    if skill.manifest.ungranted && !is_quiet() {
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

/// The heading above a report about one skill.
pub(crate) fn title(name: &str, path: &std::path::Path) -> String {
    format!("{CYAN}{}{CYAN:#} ({})", printable(name), printable(&path.display().to_string()))
}

/// Makes untrusted text printable and keeps its line breaks. Lines after the first are indented.
pub(crate) fn lines(text: &str, indent: usize) -> String {
    printable_lines(text).replace('\n', &format!("\n{:indent$}", ""))
}

/// A time of a record, in seconds. `--json` has the rest.
pub(crate) fn seconds(time: &str) -> String {
    time.split_once('.').map_or(time.to_owned(), |(second, _)| format!("{second}Z"))
}

/// `1 run`, `2 runs`.
pub(crate) fn count(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}

/// The width of a table in columns: that of the terminal, or of a page if there is none.
pub(crate) fn width() -> u16 {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(100, |size| size.ws_col.clamp(40, 160))
}

/// A table without lines. Columns from `numbers` on are aligned to the right.
pub(crate) fn table<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    numbers: std::ops::Range<usize>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width())
        .set_header(head)
        .add_rows(rows);
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints a value as JSON to stdout.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::io("write the result as JSON", error))?;
    bytes(format!("{}\n", visible_json(&text)).as_bytes())
}

/// Set when anything is printed to stdout.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// With `--json`, and if nothing is on stdout yet, prints an error as a JSON object.
pub(crate) fn error_object(error: &CliError) {
    // Only a flag of the command itself: arguments after `--` are for the skill.
    let is_wanted =
        std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    if !is_wanted || PRINTED.load(Relaxed) {
        return;
    }
    let CliError { exit, message, fix, details, findings } = error;
    let mut object = serde_json::json!({ "code": exit.code(), "message": message });
    if let Some(findings) = findings {
        object["diagnostics"] = serde_json::json!(findings.0);
    }
    if let (Some(object), Some(details)) =
        (object.as_object_mut(), details.as_ref().and_then(|details| details.as_object()))
    {
        object.extend(details.clone());
    }
    object["fix"] = fix.as_deref().into();
    // One line, which is a document of JSON and of JSON Lines. If stdout cannot be written, stderr
    // already has the error.
    let line = visible_json(&serde_json::json!({ "error": object }).to_string());
    bytes(format!("{line}\n").as_bytes()).ok();
}

/// Prints text to stdout with its styles. Untrusted parts must have passed [`lines`] or
/// [`printable`].
pub(crate) fn text(text: &str) -> Result<(), CliError> {
    PRINTED.store(true, Relaxed);
    written(writeln!(anstream::stdout().lock(), "{}", text.trim_end()))
}

/// Prints a line to stdout for a command that follows something. Returns `false` if the reader of
/// stdout has closed it.
pub(crate) fn line(text: &str) -> Result<bool, CliError> {
    PRINTED.store(true, Relaxed);
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => written(result).map(|()| true),
    }
}

/// Prints untrusted text to stdout: unchanged to a file or a pipe, escaped to a terminal.
pub(crate) fn foreign(text: &str) -> Result<(), CliError> {
    if io::stdout().is_terminal() {
        bytes(format!("{}\n", lines(text, 0)).as_bytes())
    } else {
        bytes(text.as_bytes())
    }
}

/// Prints a diff to stdout: unchanged to a file or a pipe, in colour to a terminal.
pub(crate) fn diff(diff: &str) -> Result<(), CliError> {
    if !io::stdout().is_terminal() {
        return bytes(diff.as_bytes());
    }
    let lines: Vec<String> = diff.lines().map(coloured).collect();
    text(&lines.join("\n"))
}

/// A line of a diff, made printable.
pub(crate) fn coloured(line: &str) -> String {
    let style = match line.as_bytes().first() {
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    };
    format!("{style}{}{style:#}", printable(line))
}

/// Prints bytes to stdout unchanged.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CliError> {
    PRINTED.store(true, Relaxed);
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// A reader that has closed the pipe (`| head -1`) has all that it wanted.
fn written(result: io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::io("write to stdout", error))
        }
        _ => Ok(()),
    }
}

/// Prints to stderr unless `--quiet` was given.
fn notice(text: &str) {
    if !is_quiet() {
        stderr(text);
    }
}

fn stderr(text: &str) {
    // There is no other place to report that stderr cannot be written.
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Escapes characters that a terminal acts on. In JSON they occur only inside strings, except for
/// line breaks.
pub(crate) fn visible_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints the denials of a run to stderr, and why it ended unless it exited by itself. With the
/// skill and the policy, names the entries of `deny` that decided.
pub(crate) fn ending(outcome: &Outcome, rules: Option<(&Skill, &Policy)>) {
    let denied = |Denial { what, rule, kind, .. }: &Denial| {
        let entry = rules.and_then(|(skill, policy)| blocking_entry(&skill.manifest, policy, kind));
        format!("denied: {what}: {}", entry.as_ref().unwrap_or(rule))
    };
    let limit = |hit: &LimitHit| {
        rules.map_or_else(|| hit.explain(), |(skill, policy)| limits::explain(hit, skill, policy))
    };
    for denial in &outcome.denials {
        warning(&denied(denial), denial.fix.as_deref());
    }
    if let Some(hit) = outcome.limit_of_failed_program() {
        warning(&format!("a started program failed: {}", limit(hit)), None);
    }
    match &outcome.status {
        Status::Exited { .. } => outcome.error.iter().for_each(|message| error(message, None)),
        Status::Denied(denial) => error(&denied(denial), denial.fix.as_deref()),
        Status::Invalid { message, fix } | Status::Failed { message, fix } => {
            error(message, fix.as_deref())
        }
        Status::LimitHit(hit) => error(&limit(hit), None),
        Status::Trapped { message } => error(&format!("the guest trapped: {message}"), None),
        Status::Aborted { reason } => {
            error(&format!("deterministic run aborted (no result): {reason}"), None)
        }
        Status::Interrupted => error("interrupted", None),
    }
}

/// Prints the output of a guest that was captured for the outcome: unchanged to a file or a pipe,
/// text and colours only to a terminal.
pub(crate) fn captured(outcome: &Outcome) -> Result<(), CliError> {
    let shown = |bytes: &[u8], is_terminal: bool| {
        let mut shown = Vec::new();
        if is_terminal {
            Filter::default().pass(bytes, &mut shown);
        }
        if is_terminal { shown } else { bytes.to_vec() }
    };
    // There is no other place to report that stderr cannot be written.
    let _ = io::stderr().lock().write_all(&shown(&outcome.stderr.0, io::stderr().is_terminal()));
    bytes(&shown(&outcome.stdout.0, io::stdout().is_terminal()))?;
    reset();
    Ok(())
}

/// Prints the output of a guest while it runs elsewhere, as [`captured`] does at its end.
#[derive(Default)]
pub(crate) struct GuestOutput {
    stdout: Filter,
    stderr: Filter,
}

impl GuestOutput {
    pub(crate) fn stdout(&mut self, text: &[u8]) -> Result<(), CliError> {
        bytes(&passed(&mut self.stdout, text, io::stdout().is_terminal()))
    }

    pub(crate) fn stderr(&mut self, text: &[u8]) {
        let text = passed(&mut self.stderr, text, io::stderr().is_terminal());
        // There is no other place to report that it cannot be written.
        let _ = io::stderr().lock().write_all(&text);
    }
}

fn passed(filter: &mut Filter, text: &[u8], is_terminal: bool) -> Vec<u8> {
    if !is_terminal {
        return text.to_vec();
    }
    let mut shown = Vec::new();
    filter.pass(text, &mut shown);
    shown
}

/// Ends whatever a guest left open on the terminal. Called before the host prints there.
pub(crate) fn reset() {
    // There is no other place to report that it cannot be written.
    let _ = match (io::stderr().is_terminal(), io::stdout().is_terminal()) {
        (true, _) => io::stderr().lock().write_all(RESET.as_bytes()),
        (_, true) => io::stdout().lock().write_all(RESET.as_bytes()),
        _ => Ok(()),
    };
}

/// Prints the changes in an overlay to stderr.
pub(crate) fn changes(changes: &[Change]) {
    for Change { path, kind } in changes {
        let kind = match kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "removed",
        };
        let mark = if protected::is_run_by_host(path) {
            format!(" {}", protected::RUN_BY_HOST_MARK)
        } else {
            String::new()
        };
        stderr(&format!("{CYAN}{kind}{CYAN:#}: {}{mark}\n", printable(path)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_for_a_terminal_is_equal_and_has_no_escapes() {
        let value = serde_json::json!({ "a\u{9b}31m": ["\u{1b}[2J", "\u{202e}gnp", "a\nb", "üñ\u{1f600}", "\u{e0041}"] });
        let shown = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        assert!(shown.chars().all(|c| c == '\n' || !is_hidden(c)), "{shown}");
    }

    #[test]
    fn lines_of_a_diff_are_coloured_and_have_no_other_escapes() {
        assert_eq!(coloured("+a\u{1b}[2J"), "\u{1b}[32m+a\\u{1b}[2J\u{1b}[0m");
        assert_eq!(coloured("-b"), "\u{1b}[31m-b\u{1b}[0m");
        assert_eq!(coloured(" c"), " c");
    }

    #[test]
    fn guest_message_keeps_lines_and_loses_escapes() {
        assert_eq!(lines("one\r\n\u{1b}[31mtwo", 2), "one\n  \\u{1b}[31mtwo");
    }
}
