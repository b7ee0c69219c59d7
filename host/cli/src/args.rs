//! What was typed. Parsing does no I/O.

pub(crate) mod numbers;
pub(crate) mod permissions;
pub(crate) mod skills;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser};

use crate::commands::{Command, GROUPS};
use crate::error::{CliError, EXIT_CODES, Exit};
use crate::output::{self, Verbosity};

/// Run untrusted Agent Skills as WebAssembly, with only the permissions that a skill requests and
/// you grant
#[derive(Debug, Parser)]
#[command(name = "skillhost", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

/// What every command takes.
#[derive(Debug, clap::Args)]
struct Global {
    /// Print colours: auto, always or never [default: on a terminal, unless $NO_COLOR is set]
    #[arg(long, value_name = "WHEN", global = true, value_enum, hide_possible_values = true)]
    color: Option<When>,
    /// Print only errors and results: no hints, warnings, notes or progress
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print to stderr what skillhost does: files, skills, compilations, limits and times
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

impl Global {
    fn apply(&self) {
        match self.color {
            None | Some(When::Auto) => {}
            Some(When::Always) => anstream::ColorChoice::Always.write_global(),
            Some(When::Never) => anstream::ColorChoice::Never.write_global(),
        }
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet.write_global(),
            (_, true) => Verbosity::Verbose.write_global(),
            _ => {}
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  skillhost check skills/*                            find problems, show what would be granted
  skillhost run skills/calculator -- '5 km in miles'  run a skill's command
  skillhost run skills/calculator calculate --input '{\"expression\": \"2^64\"}'
  skillhost run SKILL scripts/x.py -- ARGS            run one of a skill's scripts
  skillhost run SKILL --workspace .:overlay --diff    preview what a run would change";

/// Where a host finds things; shared by the commands that make one.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct HostArgs {
    /// Use this audit log instead of the one in the state folder
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) runtimes: RuntimesArg,
}

/// Where the runtimes are.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RuntimesArg {
    /// The folder of runtimes [default: $SKILLHOST_PROGRAMS, else the one next to this executable]
    #[arg(long, value_name = "DIR")]
    pub(crate) programs: Option<PathBuf>,
}

/// Parses this process's arguments.
///
/// # Errors
/// The exit code, if the help or an error was printed instead.
pub(crate) fn parse() -> Result<Command, Exit> {
    if let Some(command) = parse_alone() {
        return Ok(command);
    }
    let parsed = command().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = parsed.map_err(|error| report(&error))?;
    cli.global.apply();
    Ok(cli.command)
}

/// The whole command line, with the commands in groups.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let heading = command.get_styles().get_header().to_owned();
    let name = command.get_styles().get_literal().to_owned();
    let mut list = String::new();
    for (title, names) in GROUPS {
        list += &format!("\n{heading}{title}:{heading:#}\n");
        for found in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            list += &format!("  {name}{:<12}{name:#} {about}\n", found.get_name());
        }
    }
    command
        .help_template(format!("{{about}}\n\n{{usage-heading}} {{usage}}\n{list}\n{heading}Options:{heading:#}\n{{options}}{{after-help}}"))
        .after_help(format!("{EXAMPLES}\n\n{EXIT_CODES}"))
}

/// Parses `run` and `hook` without building the arguments of the other commands, which would take as
/// long as a small guest runs. `None` for another command, for help, and for errors: the whole
/// command line reports those.
fn parse_alone() -> Option<Command> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    match words.first()?.to_str()? {
        "run" => parse_as(words).map(Command::Run),
        "hook" => parse_as(words).map(Command::Hook),
        _ => None,
    }
}

fn parse_as<A: clap::Args>(words: Vec<OsString>) -> Option<A> {
    let command = Global::augment_args(A::augment_args(clap::Command::new("skillhost")));
    let found = command.try_get_matches_from(words).ok()?;
    Global::from_arg_matches(&found).ok()?.apply();
    A::from_arg_matches(&found).ok()
}

/// Prints the help to stdout or the error to stderr, and returns the exit code.
fn report(error: &clap::Error) -> Exit {
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    let exit = match error.use_stderr() {
        // A client would run the command although its hook failed.
        true if verb == "hook" => Exit::Blocked,
        true => Exit::Usage,
        false => Exit::Ok,
    };
    let printed = error.print();
    if error.use_stderr() {
        output::error_object(&CliError::new(exit, summary(error)));
    }
    if error.kind() == ErrorKind::UnknownArgument && verb == "run" {
        output::help(Some("arguments for the skill go after `--`: `skillhost run SKILL -- ARGS`"));
    }
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Io,
        _ => exit,
    }
}

/// The error without the usage and the hints that clap adds.
pub(crate) fn summary(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    text.strip_prefix("error: ").unwrap_or(text).replace("\n  ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_each_command_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Cli::command();
        let mut all: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
