//! `skillhost completions`: print a completion script for a shell.

use crate::args;
use crate::error::{CliError, Exit};
use crate::output;

/// Print a completion script for a shell
///
/// Save the script where the shell looks for completions, or load it from ~/.bashrc as in the first
/// example.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(skillhost completions bash)
  skillhost completions zsh > ~/.zfunc/_skillhost
  skillhost completions fish > ~/.config/fish/completions/skillhost.fish")]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "skillhost", &mut script);
    output::bytes(&script).map(|()| Exit::Ok)
}
