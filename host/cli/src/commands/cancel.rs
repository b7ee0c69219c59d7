//! `skillhost cancel`: cancel a run on a server.

use http::Method;
use skillhost_server::api::types::RunInfo;

use crate::client::ClientArgs;
use crate::error::{CliError, Exit};
use crate::{output, remote};

/// Cancel a run on a server
///
/// A run in the queue never starts, and a running guest is interrupted at once. A run that has ended
/// stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost cancel 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b")]
pub(crate) struct Args {
    /// The run
    #[arg(value_parser = remote::run_id)]
    run: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let client = args.client.client()?;
    let path = format!("/v1/runs/{}/cancel", args.run);
    let found: RunInfo = client.json(Method::POST, &path, &[], None::<&()>)?;
    if args.json {
        output::json(&found)?
    } else {
        remote::show(&found)?
    }
    Ok(Exit::Ok)
}
