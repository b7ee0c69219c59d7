//! `skillhost approve`: approve or reject what is pending.

use jiff::Timestamp;
use skillhost_ledger::approval::{PendingId, Term};

use crate::args::numbers::whole_number;
use crate::commands::permissions::label;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::{operator, output};

/// Approve or reject a pending request
///
/// An approval holds for this digest of the skill and these permissions; if either changes, the
/// request is pending again. Without a flag it holds for one run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost pending
  skillhost approve 7
  skillhost approve 7 --always
  skillhost approve 7 --for 2h
  skillhost approve 7 --no")]
pub(crate) struct Args {
    /// The number from `skillhost pending`
    #[arg(value_parser = whole_number::<i64>)]
    id: i64,
    /// Approve one run (the default)
    #[arg(long, group = "term")]
    once: bool,
    /// Approve all runs of this session: an agent's or a login session
    #[arg(long, group = "term")]
    session: bool,
    /// Approve all runs until the approval is revoked
    #[arg(long, group = "term")]
    always: bool,
    /// Reject the request
    #[arg(long, group = "term")]
    no: bool,
    /// Approve all runs for this long, or with --session those of the session: 30m, 2h, 7d
    #[arg(long = "for", value_name = "TIME", conflicts_with_all = ["once", "no"], value_parser = time_limit)]
    limit: Option<Timestamp>,
}

/// Reads how long something is to last, and returns its end.
pub(crate) fn time_limit(text: &str) -> Result<Timestamp, String> {
    let end = humantime::parse_duration(text)
        .ok()
        .filter(|limit| !limit.is_zero())
        .and_then(|limit| Timestamp::now().checked_add(limit).ok());
    end.ok_or_else(|| format!("`{text}` is not a time such as 30m, 2h or 7d"))
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let places = Places::find()?;
    operator::require(&places)?;
    let (approvals, id, operator) = (places.approvals(), PendingId(args.id), operator::name());
    let term = match (args.session, args.always) {
        (true, _) => Term::Session,
        (_, true) => Term::Always,
        _ if args.limit.is_some() => Term::Always,
        _ => Term::Once,
    };
    let answered = if args.no {
        approvals.deny(id, &operator)
    } else {
        approvals.approve_until(id, term, args.limit, &operator)
    };
    let request = answered.map_err(|error| CliError::from(error).fix("skillhost pending"))?;
    output::explanation(&request.text);
    let done = match (args.no, term) {
        (true, _) => "rejected",
        _ if request.diff.is_some() => "changes written",
        (_, Term::Once) => "approved for one run",
        (_, Term::Session) => "approved for this session",
        (_, Term::Always) if args.limit.is_some() => "approved",
        (_, Term::Always) => "approved until revoked",
    };
    let end = args
        .limit
        .filter(|_| request.diff.is_none())
        .map_or_else(String::new, |end| format!(", until {}", output::seconds(&end.to_string())));
    output::text(&format!("{done}{end}: {}", label(&request.skill, &request.part)))?;
    Ok(Exit::Ok)
}
