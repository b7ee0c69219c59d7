//! `skillhost pending`: runs and changes awaiting approval.

use super::exit::Exit;
use super::{Failure, ask, show};

/// Lists runs and changes awaiting approval
///
/// Each with its number, who asks, what it is, and what changed since you approved the same skill
/// last.
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

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let pending = ask::approvals()?.pending().map_err(ask::failure)?;
    if args.json {
        show::json(&pending)?;
    } else if pending.is_empty() {
        show::text("nothing is pending")?;
    } else {
        let one = |asked: &skillhost_ledger::approval::PendingRequest| {
            // What tells one terminal of a number from the next is for the machine.
            let who = asked.session.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let head = format!(
                "{} ({}, {})\n  {}",
                asked.id,
                show::lines(&who, 0),
                asked.time,
                show::lines(&asked.text, 2)
            );
            asked.diff.as_ref().map_or_else(
                || head.clone(),
                |diff| format!("{head}\n{}", show::lines(diff.trim_end(), 0)),
            )
        };
        show::text(&pending.iter().map(one).collect::<Vec<_>>().join("\n\n"))?;
    }
    Ok(Exit::Ok)
}
