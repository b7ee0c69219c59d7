//! `skillhost agent`: run an agent's command line in a home folder of its own.

mod home;
mod process;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;

use skillhost_policy::capabilities::MountMode;

use crate::args::permissions::{PolicyFile, workspace};
use crate::args::skills::{Skills, Tags};
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;
use home::Home;

/// Run an agent in a temporary home folder, with skills, the MCP server and the hook
///
/// Creates a private home folder and starts the command with it as $HOME. It contains your skills,
/// or those of --skills, and the configuration of the clients that `skillhost connect` knows: the MCP
/// server, and for Claude Code also the hook. The command gets $PATH, $TERM, $LANG and the variables
/// that --env names, and no file of your home folder except those that --pass-file names, as copies.
/// Policy, approvals and audit log are yours.
///
/// The folder is removed when the command ends, also by a signal; the next start removes what a
/// killed one has left. The exit code is that of the command. The command is not confined: it runs as
/// you, and can read your files by their paths.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost agent --env ANTHROPIC_API_KEY -- claude -p 'Review the last commit'
  skillhost agent --pass-file ~/.claude/.credentials.json -- claude
  skillhost agent --skills ./skills --tag ci --workspace .:ro -- ./review.sh
  skillhost agent --policy policy.yaml --env OPENAI_API_KEY -- codex exec 'Fix the tests'")]
pub(crate) struct Args {
    /// Pass on the variable of that name (repeatable)
    #[arg(long, value_name = "NAME", value_parser = variable_name)]
    env: Vec<String>,
    /// Copy a file of your home folder, such as a client's login, to the same place in the temporary
    /// one (repeatable)
    #[arg(long, value_name = "PATH")]
    pass_file: Vec<PathBuf>,
    /// The workspace of the MCP server [default: a temporary folder for each session]
    #[arg(long, value_name = "DIR[:ro|:overlay]", value_parser = workspace)]
    workspace: Option<(PathBuf, MountMode)>,
    /// The agent's command line
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    skills: Skills,
    #[command(flatten)]
    tags: Tags,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    // Before the folder exists, so that a signal cannot end this process and leave the folder.
    let signals = process::catch_signals()?;
    let context = Context::with_file(&args.policy)?;
    let home = Home::create(args, &context)?;
    output::info(|| format!("home folder: {}", home.path().display()));
    let ended = process::run(home.command(&args.command, &args.env)?, &signals);
    let removed = home.remove();
    let ended = ended?;
    removed.map_err(|error| CliError::io("remove the temporary home folder", error))?;
    Ok(exit(ended))
}

/// The exit code of a command, as a shell reports it.
fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(0), _) => Exit::Ok,
        (Some(code), _) => Exit::Guest((code & 0xff) as u8),
        (None, signal) => Exit::Guest(128_u8.saturating_add(signal.unwrap_or_default() as u8)),
    }
}

fn variable_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && !text.contains(['=', '\0']);
    if is_name { Ok(text.to_owned()) } else { Err("write the name of a variable only".into()) }
}
