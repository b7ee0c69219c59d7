//! `skillhost pending`: list runs and changes awaiting approval.

use skillhost_ledger::approval::PendingRequest;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// List runs and changes awaiting approval
///
/// Shows for each its number, who requested it, what it is, and what has changed since you last
/// approved the same skill.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost pending
  skillhost pending --json | jq -r '.[].id'")]
pub(crate) struct Args {
    /// Print one JSON list (`skillhost schema pending`)
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let pending = Places::find()?.approvals().pending()?;
    if args.json {
        output::json(&pending)?;
    } else if pending.is_empty() {
        output::text("nothing is pending")?;
    } else {
        let requests: Vec<String> = pending.iter().map(request).collect();
        output::text(&requests.join("\n\n"))?;
    }
    Ok(Exit::Ok)
}

fn request(request: &PendingRequest) -> String {
    // The rest of it only tells terminals with the same number apart.
    let session = request.session.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let head = format!(
        "{} ({}, {})\n  {}",
        request.id,
        output::lines(&session, 0),
        output::seconds(&request.time),
        output::lines(&request.text, 2)
    );
    match &request.diff {
        Some(diff) => format!("{head}\n{}", output::lines(diff.trim_end(), 0)),
        None => head,
    }
}
