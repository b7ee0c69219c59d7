//! `skillhost result`: the result of a run on a server.

use std::path::PathBuf;

use crate::client::ClientArgs;
use crate::error::{CliError, Exit};
use crate::{output, remote};

/// Get the result of a run on a server that has ended, and end as it did
///
/// Prints the output of the run, and exits with the code that `skillhost run` would have had.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b
  skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --json | jq .outcome.usage
  skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --diff
  skillhost result 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b --apply ./project")]
pub(crate) struct Args {
    /// The run
    #[arg(value_parser = remote::run_id)]
    run: String,
    /// Print one JSON object: the outcome, the changes and the receipt
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Show what the run wrote to its workspace, instead of its output
    #[arg(long)]
    diff: bool,
    /// Apply what the run wrote to this folder, if its files are still those that were submitted
    #[arg(long, value_name = "DIR")]
    apply: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let client = args.client.client()?;
    let result = remote::result(&client, &args.run)?;
    if args.json {
        remote::print_json(&result)?;
    } else if args.diff {
        output::diff(&result.diff)?;
    } else {
        remote::captured(&client, &result)?;
    }
    let exit = remote::ending(&result);
    if let Some(folder) = &args.apply {
        remote::apply(&client, &result, folder)?;
    }
    Ok(exit)
}
