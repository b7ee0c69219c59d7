//! `skillhost approve`: approve or reject what is pending.

use skillhost_ledger::approval::{PendingId, Term};

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
  skillhost approve 7 --no")]
pub(crate) struct Args {
    /// The number from `skillhost pending`
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
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let places = Places::find()?;
    operator::require(&places)?;
    let (approvals, id, operator) = (places.approvals(), PendingId(args.id), operator::name());
    let term = match (args.session, args.always) {
        (true, _) => Term::Session,
        (_, true) => Term::Always,
        _ => Term::Once,
    };
    let answered = if args.no {
        approvals.deny(id, &operator)
    } else {
        approvals.approve(id, term, &operator)
    };
    let request = answered.map_err(|error| CliError::from(error).fix("skillhost pending"))?;
    output::explanation(&request.text);
    let done = match (args.no, term) {
        (true, _) => "rejected",
        _ if request.diff.is_some() => "changes written",
        (_, Term::Once) => "approved for one run",
        (_, Term::Session) => "approved for this session",
        (_, Term::Always) => "approved until revoked",
    };
    output::text(&format!("{done}: {}", label(&request.skill, &request.part)))?;
    Ok(Exit::Ok)
}
