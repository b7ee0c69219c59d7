//! `skillhost ci`: fetch exactly what is locked, and read every byte of it again.

use serde::Serialize;
use skillhost_policy::diagnostic::printable;
use skillhost_sources::project::{Change, Mismatch, Verification};

use crate::args::permissions::PolicyFile;
use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output;
use crate::sources::{self, SourcesFileArg};

/// Fetch exactly what skills.lock names, and verify every byte of it
///
/// The same as `sync --frozen`, and a verification in which every file is read and every entry of
/// skills.lock is compared. Without a network it works if everything is in the store.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost ci
  skillhost ci --file ./skills.yaml --confirm \"$(sha256sum skills.yaml | cut -c-64)\"
  skillhost ci --json | jq -r '.mismatches[].name'")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: SourcesFileArg,
    #[command(flatten)]
    policy: PolicyFile,
}

/// Output of `--json`.
#[derive(Serialize)]
struct Report {
    skills: Vec<Change>,
    mismatches: Vec<Mismatch>,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    let context = Context::with_file(&args.policy)?;
    let project = args.file.open(&context.places)?;
    let project = args.file.confirm(project, &context.places)?;
    let network = sources::network(&context)?;
    network.allow_all(&project)?;
    let Verification { changes: skills, mismatches, files } = project.ci(&network)?;
    let exit = if mismatches.is_empty() { Exit::Ok } else { Exit::Invalid };
    if args.json {
        output::json(&Report { skills, mismatches })?;
        return Ok(exit);
    }
    for Mismatch { name, why } in &mismatches {
        let fix = "restore skills.lock, and then: skillhost sync";
        output::error(&printable(&format!("{name}: {why}")), Some(fix));
    }
    if mismatches.is_empty() {
        let skills = output::count(skills.len() as u64, "skill");
        output::text(&format!("OK: {skills}, {} verified", output::count(files as u64, "file")))?;
    }
    Ok(exit)
}
