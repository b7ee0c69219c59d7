//! `skillhost shell`: an interactive shell in the sandbox of a skill.

use std::io::{self, IsTerminal as _, PipeReader, Read as _, Write as _};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use skillhost_compat::quote_word;
use skillhost_policy::outcome::Status;
use skillhost_sandbox::terminal::Filter;

use crate::args::HostArgs;
use crate::args::permissions::Permissions;
use crate::args::skills::Skills;
use crate::commands::run::{self, PreparedRun};
use crate::error::{CliError, Exit};
use crate::output;

/// Open a shell in the sandbox of a skill
///
/// Shows what the skill sees: /skill, /workspace (the folder given by --workspace), /tmp, its variables
/// and its permissions. Lines can be edited and recalled. Ctrl-C ends the command that runs, and not the
/// shell; Ctrl-D or `exit` ends the shell.
///
/// Each line is a run of its own, with its own limits and its own record. The current folder is kept, and
/// so are variables, functions and options that a line only sets. /tmp is new for each line, and stdin is
/// empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost shell skills/log-triage
  skillhost shell SKILL --workspace .
  skillhost shell SKILL --workspace .:overlay --allow 'WebFetch(domain:api.example.com)'")]
pub(crate) struct Args {
    /// The skill: its folder, as a path with a `/` (`./NAME`), or a name from `skillhost list`
    skill: PathBuf,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    skills: Skills,
}

/// What an approval is asked for: each line is a shell command.
const ANY: &str = "# an interactive shell";

pub(crate) fn main(args: Args) -> Result<Exit, CliError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CliError::usage("a shell needs a terminal")
            .fix("run a script: skillhost run SKILL --command bash < SCRIPT"));
    }
    let run = run::Args::of_command(args.skill, ANY, args.host, args.permissions, args.skills);
    let run = PreparedRun::of(run)?;
    if run.is_deterministic() {
        let message = "a shell cannot be deterministic, because a person types in it";
        return Err(CliError::usage(message).fix("leave out --deterministic"));
    }
    let failed = |error: ReadlineError| CliError::io("use the terminal", error);
    let mut editor = DefaultEditor::new().map_err(failed)?;
    let prompt = format!("{}$ ", run.skill_name());
    let mut shell = Shell::default();
    while let Some(line) = read_line(&mut editor, &prompt) {
        if line.trim().is_empty() {
            continue;
        }
        if let Some(exit) = shell.run(&run, &line)? {
            return Ok(exit);
        }
    }
    Ok(shell.last)
}

/// What is kept from line to line.
struct Shell {
    /// Lines that only set something, which run again before each line.
    settings: Vec<String>,
    folder: Option<String>,
    last: Exit,
    /// Marks the end of a line's output, where the shell tells its folder.
    mark: String,
}

impl Default for Shell {
    fn default() -> Shell {
        let mark = format!("\u{1e}{:032x}\u{1e}", rand::random::<u128>());
        Shell { settings: Vec::new(), folder: None, last: Exit::Ok, mark }
    }
}

impl Shell {
    /// Runs a line. Returns the exit code if it ends the shell.
    fn run(&mut self, run: &PreparedRun, line: &str) -> Result<Option<Exit>, CliError> {
        let failed = |error: io::Error| CliError::io("show the output", error);
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mark = self.mark.clone();
        let show = std::thread::Builder::new().name("output".into());
        let show = show.spawn(move || show_until(reader, mark.as_bytes())).map_err(failed)?;
        let (exit, outcome) = run.start(&self.script(line), writer.into())?;
        // The run has closed its end of the pipe.
        let folder = show.join().unwrap_or_default();
        let is_exit = line.trim_start().starts_with("exit");
        if folder.is_none() && is_exit && matches!(outcome.status, Status::Exited { .. }) {
            return Ok(Some(exit));
        }
        if exit == Exit::Ok && is_setting(line) {
            self.settings.push(line.to_owned());
        }
        self.folder = folder.or(self.folder.take());
        self.last = exit;
        Ok(None)
    }

    /// The line, after what it depends on. The parentheses restore `$?` of the line before.
    fn script(&self, line: &str) -> String {
        let mut script = String::new();
        for setting in &self.settings {
            script += &format!("eval {} > /dev/null 2>&1\n", quote_word(setting));
        }
        if let Some(folder) = &self.folder {
            script += &format!("cd {} 2> /dev/null\n", quote_word(folder));
        }
        let status = match self.last {
            Exit::Ok => 0,
            Exit::Findings => 1,
            Exit::Guest(code) => code,
            _ => 130,
        };
        let mark = self.mark.trim_matches('\u{1e}');
        script
            + &format!(
                "(exit {status})\neval {}\n__status=$?\nprintf '\\036{mark}\\036%s' \"$PWD\"\nexit $__status",
                quote_word(line)
            )
    }
}

/// Whether a line only sets variables, functions, aliases or options.
fn is_setting(line: &str) -> bool {
    let line = line.trim();
    let name = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(line.len());
    let (name, rest) = line.split_at(name);
    let is_function = rest.starts_with("()") && line.ends_with('}');
    let sets = rest.starts_with('=')
        || matches!(name, "alias" | "declare" | "export" | "set" | "shopt" | "unset");
    !name.is_empty() && (is_function || (sets && !line.contains(['\n', ';', '&', '|', '`', '('])))
}

/// Shows output on the terminal up to the mark. Returns what follows it.
fn show_until(mut reader: PipeReader, mark: &[u8]) -> Option<String> {
    let mut filter = Filter::default();
    let (mut held, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = reader.read(&mut chunk).unwrap_or(0);
        held.extend_from_slice(&chunk[..count]);
        let found = held.windows(mark.len()).position(|part| part == mark);
        // A mark may have begun.
        let begun = held.iter().position(|byte| *byte == mark[0]).filter(|_| count > 0);
        let shown = found.or(begun).unwrap_or(held.len());
        let mut out = Vec::new();
        filter.pass(&held[..shown], &mut out);
        // There is no other place to report that the terminal is gone.
        io::stdout().lock().write_all(&out).and_then(|()| io::stdout().flush()).ok();
        held.drain(..shown);
        if found.is_some() {
            reader.read_to_end(&mut held).ok();
            return String::from_utf8(held[mark.len()..].to_vec()).ok();
        }
        if count == 0 {
            return None;
        }
    }
}

/// Reads a line, and those that continue it; `None` at Ctrl-D or if the terminal is gone.
fn read_line(editor: &mut DefaultEditor, prompt: &str) -> Option<String> {
    // Ends colours that the last command has left.
    output::reset();
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { prompt } else { "> " }) {
            Ok(line) => text.push_str(&line),
            // Ctrl-C discards the line.
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(_) => return None,
        }
        if !is_open(&text) {
            break;
        }
        text.push('\n');
    }
    if !text.trim().is_empty() {
        // The line is only missing from the history.
        editor.add_history_entry(text.as_str()).ok();
    }
    Some(text)
}

/// Whether a text continues on the next line: in a quoted string, or after a backslash.
fn is_open(text: &str) -> bool {
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' && quote != Some('\'') {
            // The next character means itself.
            if chars.next().is_none() {
                return true;
            }
            continue;
        }
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            _ => {}
        }
    }
    quote.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_strings_continue_on_the_next_line() {
        for (text, expected) in [
            ("echo a", false),
            ("echo 'a", true),
            ("echo \"a 'b\"", false),
            ("echo 'a\"'", false),
            ("echo \\", true),
            ("echo \\\\", false),
            ("echo '\\", true),
            ("echo '\\'", false),
        ] {
            assert_eq!(is_open(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_that_only_set_something_are_kept() {
        for (line, expected) in [
            ("x=1", true),
            ("export A='b c'", true),
            ("f() { echo; }", true),
            ("set -u", true),
            ("x=1; rm a", false),
            ("x=$(rm a)", false),
            ("echo x=1", false),
            ("x=1 || rm a", false),
            ("ls", false),
        ] {
            assert_eq!(is_setting(line), expected, "{line}");
        }
    }
}
