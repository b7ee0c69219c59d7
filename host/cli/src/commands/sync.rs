//! `skillhost sync`: make the lock file and the store what the sources file says.

use skillhost_sources::project::ChangeKind;

use crate::args::permissions::PolicyFile;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Fetch what skills.yaml names and is missing, and lock what is new
///
/// Skills that are locked stay at their revisions: what is fetched for them must have the locked
/// digests. Locks of skills that skills.yaml no longer names are removed. A file that is not yours
/// must be confirmed once for each version of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost sync
  skillhost sync --frozen                             fail if skills.lock would change
  skillhost sync --file ./skills.yaml --confirm \"$(sha256sum skills.yaml | cut -c-64)\"")]
pub(crate) struct Args {
    /// Fail if skills.lock does not lock exactly what skills.yaml names
    #[arg(long)]
    frozen: bool,
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
    let changes = project.sync(args.frozen, &network)?;
    sources::revoke_approvals(&changes, &context.places)?;
    if args.json {
        output::json(&changes)?;
        return Ok(Exit::Ok);
    }
    let changed: Vec<_> =
        changes.iter().filter(|change| change.kind != ChangeKind::Unchanged).cloned().collect();
    sources::report(&changed)?;
    let same = changes.len() - changed.len();
    if same > 0 || changes.is_empty() {
        output::text(&format!("{} unchanged", output::count(same as u64, "skill")))?;
    }
    Ok(Exit::Ok)
}
