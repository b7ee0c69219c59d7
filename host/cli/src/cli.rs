//! The command line: argv as typed values, one file a verb, and the only place that prints.

mod approve;
mod ask;
mod audit;
mod bench;
mod build;
mod check;
mod compatibility;
mod diff;
mod evidence;
mod exit;
mod idle;
mod inspect;
mod key;
mod learn;
mod levels;
mod list;
mod log;
mod mcp;
mod new;
mod operator;
mod pending;
mod permissions;
mod places;
mod plan;
mod programs;
mod prompt;
mod receipt;
mod record;
mod replay;
mod run;
mod schema;
mod search;
mod secrets;
mod serve;
mod show;
mod skill;
mod skills;
mod stale;
mod state;
mod stats;
mod traces;
mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use exit::Exit;

/// Runs untrusted Agent Skills as WebAssembly, with exactly the permissions that a skill asked for
/// and you granted.
#[derive(Debug, Parser)]
#[command(name = "skillhost", version, max_term_width = 110, after_help = exit::TABLE)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Args),
    Check(check::Args),
    List(list::Args),
    Search(search::Args),
    Show(skill::Args),
    Prompt(prompt::Args),
    Approve(approve::Args),
    Pending(pending::Args),
    Permissions(levels::Args),
    Inspect(inspect::Args),
    Programs(programs::Args),
    Bench(bench::Args),
    New(new::Args),
    Build(build::Args),
    Verify(verify::Args),
    Replay(replay::Args),
    Diff(diff::Args),
    Mcp(mcp::Args),
    Serve(serve::Args),
    Audit(audit::Args),
    Key(key::Args),
    State(state::Args),
    Stats(stats::Args),
    Schema(schema::Args),
    /// Prints a completion script for a shell
    ///
    /// It goes where the shell looks for them; or, for bash, into ~/.bashrc as in the example.
    #[command(after_help = "\
Examples:
  source <(skillhost completions bash)
  skillhost completions zsh > ~/.zfunc/_skillhost
  skillhost completions fish > ~/.config/fish/completions/skillhost.fish")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Parses the command line and does what it says.
pub(crate) fn main() -> ExitCode {
    let verb = match run_alone()
        .map_or_else(|| Cli::try_parse().map(|cli| cli.verb), |args| Ok(Verb::Run(args)))
    {
        Ok(verb) => verb,
        Err(error) => {
            // Help and version come this way too, and go to stdout.
            let code = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            let printed = error.print();
            if error.use_stderr() {
                show::error_object(&Failure::new(code, error.kind().to_string()));
            }
            if error.kind() == ErrorKind::UnknownArgument
                && std::env::args_os().nth(1).is_some_and(|verb| verb == "run")
            {
                show::help(Some(
                    "what is meant for the skill comes after `--`: `skillhost run SKILL -- ARGS`",
                ));
            }
            return match printed {
                Err(failure) if failure.kind() != std::io::ErrorKind::BrokenPipe => Exit::Io.into(),
                _ => code.into(),
            };
        }
    };
    let runs = matches!(verb, Verb::Run(_) | Verb::Verify(_) | Verb::Replay(_));
    let result = match verb {
        Verb::Run(args) => run::main(args),
        Verb::Check(args) => check::main(&args),
        Verb::List(args) => list::main(&args),
        Verb::Search(args) => search::main(&args),
        Verb::Show(args) => skill::main(&args),
        Verb::Prompt(args) => prompt::main(&args),
        Verb::Approve(args) => approve::main(&args),
        Verb::Pending(args) => pending::main(&args),
        Verb::Permissions(args) => levels::main(&args),
        Verb::Inspect(args) => inspect::main(&args),
        Verb::Programs(args) => programs::main(&args),
        Verb::Bench(args) => bench::main(&args),
        Verb::New(args) => new::main(&args),
        Verb::Build(args) => build::main(&args),
        Verb::Verify(args) => verify::main(args),
        Verb::Replay(args) => replay::main(args),
        Verb::Diff(args) => diff::main(&args),
        Verb::Mcp(args) => mcp::main(&args),
        Verb::Serve(args) => serve::main(&args),
        Verb::Audit(args) => audit::main(args),
        Verb::Key(args) => key::main(&args),
        Verb::State(args) => state::main(args),
        Verb::Stats(args) => stats::main(&args),
        Verb::Schema(args) => schema::main(args),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "skillhost", &mut script);
            show::bytes(&script).map(|()| Exit::Ok)
        }
    };
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => {
            show::error(&failure.message, failure.fix.as_deref());
            show::error_object(&failure);
            failure.exit
        }
    };
    if runs {
        stale::sweep_after_run();
    }
    exit.into()
}

/// The arguments of a run, for which those of the other verbs are not made: that takes as long as a
/// small guest. `None` for another verb, for help and for what is wrong, which the whole command
/// line tells.
fn run_alone() -> Option<run::Args> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if words.first()? != "run" {
        return None;
    }
    let matches =
        run::Args::augment_args(clap::Command::new("run")).try_get_matches_from(words).ok()?;
    run::Args::from_arg_matches(&matches).ok()
}

/// Why a verb ended early: what to print, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    fix: Option<String>,
    /// The error as JSON, where there is more to say than the message.
    details: Option<Box<serde_json::Value>>,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into(), fix: None, details: None }
    }

    /// With an error that serialises.
    fn details(self, error: &impl serde::Serialize) -> Failure {
        Failure { details: serde_json::to_value(error).ok().map(Box::new), ..self }
    }

    fn fix(self, fix: impl Into<String>) -> Failure {
        Failure { fix: Some(fix.into()), ..self }
    }
}
