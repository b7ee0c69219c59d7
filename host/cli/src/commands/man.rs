//! `skillhost man`: write the manual pages.

use std::path::PathBuf;

use crate::args;
use crate::error::{CliError, Exit};
use crate::output;

/// Write the manual pages, one for each command
///
/// `man` finds them if the folder is `man1` in a folder of $MANPATH.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost man --into ~/.local/share/man/man1
  man skillhost-run")]
pub(crate) struct Args {
    /// Write the pages to this folder, which is created if it is missing
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let folder = &args.into;
    let failed = |error| CliError::io(format_args!("write to {}", folder.display()), error);
    #[expect(clippy::disallowed_methods, reason = "the folder is named by the operator")]
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(args::command().disable_help_subcommand(true), folder)
        .map_err(failed)?;
    output::text(&format!(
        "wrote the manual pages to {}",
        output::lines(&folder.display().to_string(), 0)
    ))?;
    Ok(Exit::Ok)
}
