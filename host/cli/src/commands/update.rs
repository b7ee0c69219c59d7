//! `skillhost update`: fetch newer revisions of fetched skills.

use crate::args::permissions::PolicyFile;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Fetch the newest revisions of fetched skills, and show what changes
///
/// Branches, archives and folders are fetched again; a commit stays, and so must a tag. Shows each
/// file that differs with its digests, and the permissions that the skill requests now and did not
/// before. An updated skill needs approval again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost update --dry-run
  skillhost update pdf
  skillhost update --json | jq -r '.[] | select(.more_permissions != []) | .name'")]
pub(crate) struct Args {
    /// The skills [default: all]
    names: Vec<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON array with an object for each skill
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SourcesFileArg,
    #[command(flatten)]
    policy: PolicyFile,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let project = args.file.open(&context.places)?;
    let project = args.file.confirm(project, &context.places)?;
    let network = sources::network(&context)?;
    network.allow_all(&project)?;
    let changes = project.update(&args.names, args.dry_run, &network)?;
    if !args.dry_run {
        sources::revoke_approvals(&changes, &context.places)?;
    }
    if args.json {
        output::json(&changes)?;
        return Ok(Exit::Ok);
    }
    sources::report(&changes)?;
    if args.dry_run {
        output::note("nothing was changed (--dry-run)");
    }
    Ok(Exit::Ok)
}
