//! `skillhost remove`: forget a fetched skill.

use skillhost_policy::limits::show_size;
use skillhost_sources::project::Project;
use skillhost_sources::store::Collected;

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Remove a fetched skill from skills.yaml and skills.lock
///
/// If no server is running, also removes from the store what no other lock file names.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost remove pdf
  skillhost remove pdf --file ./skills.yaml")]
pub(crate) struct Args {
    /// The skill
    name: String,
    /// Print one JSON object with what was removed
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SourcesFileArg,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let places = Places::find()?;
    let project = args.file.open(&places)?;
    let project = args.file.confirm(project, &places)?;
    let (change, digest) = project.remove(&args.name)?;
    sources::remember(&places, project.file(), digest)?;
    // What it frees is only disk space, and a broken lock file of another project keeps it all.
    match Project::collect(&places.state) {
        Ok(Some(Collected { bytes, .. })) if bytes > 0 => {
            output::info(|| format!("freed {}", show_size(bytes)));
        }
        Ok(_) => {}
        Err(error) => output::warning(&error.to_string(), error.fix()),
    }
    match args.json {
        true => output::json(&change)?,
        false => sources::report(&[change])?,
    }
    Ok(Exit::Ok)
}
