//! `skillhost logs`: the output of a run on a server.

use bytes::Bytes;
use http::Method;
use skillhost_policy::outcome::{Outcome, Output};

use crate::client::ClientArgs;
use crate::error::{CliError, Exit};
use crate::{output, remote};

/// Print what a run on a server has written so far, or follow it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost logs 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b
  skillhost logs -f 5f0c9a6c2b9f4e1d8a7b6c5d4e3f2a1b")]
pub(crate) struct Args {
    /// The run
    #[arg(value_parser = remote::run_id)]
    run: String,
    /// Follow the output until the run has ended
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// The most bytes of a stream: the default limit of a run, four times.
const STREAM: usize = 256 << 20;

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let client = args.client.client()?;
    if args.follow {
        remote::follow(&client, &args.run)?;
        return Ok(Exit::Ok);
    }
    let stream = |name: &str| -> Result<Output, CliError> {
        let path = format!("/v1/runs/{}/{name}", args.run);
        let bytes = client.bytes(Method::GET, &path, &[], None, Bytes::new(), STREAM)?;
        Ok(Output(bytes.to_vec()))
    };
    let (stdout, stderr) = (stream("stdout")?, stream("stderr")?);
    output::captured(&Outcome { stdout, stderr, ..Outcome::default() })?;
    Ok(Exit::Ok)
}
