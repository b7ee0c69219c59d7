//! `skillhost approve`: a person's word for what waits for it.

use skillhost_ledger::approval::{PendingId, Term};

use super::exit::Exit;
use super::places::Places;
use super::{Failure, ask, operator, show};

/// Approves or denies a pending run or change
///
/// The word is for this digest of the skill and these permissions: where either changes, it is
/// asked again. Without a flag it is for one run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost pending
  skillhost approve 7
  skillhost approve 7 --always
  skillhost approve 7 --no")]
pub(crate) struct Args {
    /// The number that `skillhost pending` shows
    id: i64,
    /// For one run; this is the default
    #[arg(long, group = "term")]
    once: bool,
    /// For all runs of whoever asked: an agent's session, or a login
    #[arg(long, group = "term")]
    session: bool,
    /// For all runs, until it is revoked
    #[arg(long, group = "term")]
    always: bool,
    /// Say no
    #[arg(long, group = "term")]
    no: bool,
}

pub(crate) fn main(args: &Args) -> Result<Exit, Failure> {
    let places = Places::find()?;
    operator::require(&places)?;
    let (approvals, id, who) = (places.approvals(), PendingId(args.id), ask::person());
    let term = match (args.session, args.always) {
        (true, _) => Term::Session,
        (_, true) => Term::Always,
        _ => Term::Once,
    };
    let asked = if args.no { approvals.deny(id, &who) } else { approvals.approve(id, term, &who) };
    let asked = asked.map_err(|error| ask::failure(error).fix("skillhost pending"))?;
    show::note(&asked.text);
    let said = match (args.no, term) {
        (true, _) => "denied",
        _ if asked.diff.is_some() => "its changes are written",
        (_, Term::Once) => "approved for one run",
        (_, Term::Session) => "approved for its session",
        (_, Term::Always) => "approved until it is revoked",
    };
    show::text(&format!("{}: {said}", show::lines(&ask::of(&asked.skill, &asked.what), 0)))?;
    Ok(Exit::Ok)
}
