//! `skillhost hook`: a hook that an agent's client runs before each shell command.

mod claude_code;
mod configuration;
mod decision;
mod known_skills;
mod rewrite;

use std::io::Read as _;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::args::permissions::PolicyFile;
use crate::args::skills::Skills;
use crate::error::{CliError, Exit};
use crate::output;

/// Decide on an agent's shell commands before its client runs them
///
/// The client starts this command before each shell command, with a description on stdin, and reads
/// the decision from stdout. A command that runs a script of a known skill is replaced by one that
/// runs it in the sandbox, with the current folder as /workspace. The client asks its user, unless
/// the policy and your approvals let the run start without a question. A command that mentions a
/// skill's files in any other way is denied, with the line to use instead. All others pass.
///
/// If the hook fails, the client must not run the command: the exit code is then 2, and the hook
/// refuses settings of the client that do not block on other failures, such as a timeout.
///
/// An agent can evade the hook, for example by copying a script. The hook is for agents that use
/// skills as they are written.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost hook claude-code < event.json
  skillhost hook claude-code --policy policy.yaml < event.json

As a hook in ~/.claude/settings.json:
  { \"hooks\": { \"PreToolUse\": [ { \"matcher\": \"Bash|Monitor|PowerShell\", \"hooks\": [
    { \"type\": \"command\", \"command\": \"skillhost\", \"args\": [\"hook\", \"claude-code\"],
      \"timeout\": 10, \"onFailure\": \"block\" } ] } ] } }")]
pub(crate) struct Args {
    /// The client that starts the hook: claude-code. Codex is refused, because it runs a command
    /// although its hook failed
    #[arg(value_enum, hide_possible_values = true)]
    client: Client,
    /// The file with the client's settings that starts the hook, if it is not one of the client's
    /// usual files
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyFile,
    #[command(flatten)]
    skills: Skills,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    Codex,
}

/// The tools of Claude Code before which the hook runs.
pub(crate) const TOOLS: &str = "Bash|Monitor|PowerShell";

/// Returns the entry of Claude Code's settings that starts the hook by this command line.
pub(crate) fn handler(program: &str, args: &[String]) -> Value {
    json!({ "type": "command", "command": program, "args": args, "timeout": 10, "onFailure": "block" })
}

/// The most bytes of a description of a tool call, which may contain a whole file.
const LARGEST_EVENT: u64 = 64 << 20;

/// How long the hook may take. The client's own timeout must be longer.
const TIME: Duration = Duration::from_secs(8);

/// Whatever happens, this returns [`Exit::Ok`] or [`Exit::Blocked`]: clients run the command if a hook
/// ends with another code.
pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    limit_time();
    let answered = std::panic::catch_unwind(AssertUnwindSafe(|| answer(args)));
    let error = match answered {
        Ok(Ok(())) => return Ok(Exit::Ok),
        Ok(Err(error)) => error,
        Err(_) => CliError::new(Exit::Blocked, "the hook failed, so the command must not run"),
    };
    Err(CliError { exit: Exit::Blocked, ..error })
}

fn answer(args: &Args) -> Result<(), CliError> {
    if args.client == Client::Codex {
        let message = "Codex runs a command although its hook failed or took too long, and has no setting that prevents this, so it cannot use this hook";
        return Err(CliError::new(Exit::Blocked, message)
            .fix("remove the hook, and connect the MCP server instead: skillhost connect codex"));
    }
    let mut event = Vec::new();
    let read = std::io::stdin().lock().take(LARGEST_EVENT + 1).read_to_end(&mut event);
    read.map_err(|error| CliError::io("read the tool call from stdin", error))?;
    if event.len() as u64 > LARGEST_EVENT {
        return Err(CliError::invalid("the tool call is larger than 64 MiB"));
    }
    // The command may be for another folder than this process's.
    let args = Args {
        settings: args.settings.as_deref().map(absolute),
        policy: args.policy.absolute(),
        skills: args.skills.absolute(),
        client: args.client,
    };
    match claude_code::answer(&args, &event)? {
        Some(answer) => output::json(&answer),
        None => Ok(()),
    }
}

/// Makes a path independent of the current folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Ends the process with [`Exit::Blocked`] before the client's timeout, after which some versions of
/// clients would run the command.
fn limit_time() {
    let end = || {
        std::thread::sleep(TIME);
        output::error("the hook took too long, so the command must not run", None);
        std::process::exit(i32::from(Exit::BLOCKED));
    };
    // Without the thread, the client's own timeout blocks the command.
    drop(std::thread::Builder::new().name("timeout".into()).spawn(end));
}
