//! `skillhost remove`: forget a fetched skill.

use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Remove a fetched skill from skills.yaml and skills.lock
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
    match args.json {
        true => output::json(&change)?,
        false => sources::report(&[change])?,
    }
    Ok(Exit::Ok)
}
