//! `skillhost status`: where runs on a server are in their life.

use http::Method;
use skillhost_server::api::types::{RunInfo, RunList};

use crate::client::ClientArgs;
use crate::error::{CliError, Exit};
use crate::{output, remote};

/// Show where a run on a server is in its life, or list the latest runs
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost status 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b
  skillhost status --wait 30 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b
  skillhost status --limit 20
  skillhost status --only failed --json")]
pub(crate) struct Args {
    /// The run; without one, the latest runs are listed
    #[arg(value_parser = remote::run_id)]
    run: Option<String>,
    /// Wait until the run has ended, at most this many seconds
    #[arg(long, value_name = "SECONDS", requires = "run", value_parser = clap::value_parser!(u64).range(0..=60))]
    wait: Option<u64>,
    /// List only runs with this status: queued, running, succeeded, failed, cancelled or lost
    #[arg(long, value_name = "STATUS", conflicts_with = "run", value_parser = ["queued", "running", "succeeded", "failed", "cancelled", "lost", "unknown"], hide_possible_values = true)]
    only: Option<String>,
    /// List at most this many runs
    #[arg(long, value_name = "NUMBER", default_value_t = 20, conflicts_with = "run", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue the list after the page that ended with this cursor
    #[arg(long, value_name = "CURSOR", conflicts_with = "run", value_parser = clap::value_parser!(u64))]
    cursor: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    client: ClientArgs,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let client = args.client.client()?;
    let Some(run) = &args.run else {
        let only = args.only.as_ref().map_or(String::new(), |status| format!("&status={status}"));
        let cursor = args.cursor.map_or(String::new(), |cursor| format!("&cursor={cursor}"));
        let path = format!("/v1/runs?limit={}{only}{cursor}", args.limit);
        let found: RunList = client.json(Method::GET, &path, &[], None::<&()>)?;
        if args.json {
            output::json(&found)?;
        } else {
            found.runs.iter().try_for_each(remote::show)?;
            if let Some(next) = &found.next {
                output::note(&format!("there may be more: --cursor {next}"));
            }
        }
        return Ok(Exit::Ok);
    };
    let path = match args.wait {
        Some(seconds) => format!("/v1/runs/{run}/wait?timeout={seconds}"),
        None => format!("/v1/runs/{run}"),
    };
    let found: RunInfo = client.json(Method::GET, &path, &[], None::<&()>)?;
    if args.json {
        output::json(&found)?
    } else {
        remote::show(&found)?
    }
    Ok(Exit::Ok)
}
