//! `skillhost pack`: write a skill as an archive.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use skillhost_skill::Skill;
use skillhost_sources::digest::Digest;
use skillhost_sources::pack::{self, PackFormat, pack};

use crate::args::skills::require_path;
use crate::error::{CliError, Exit};
use crate::output;

/// Pack a skill as an archive that has the same bytes on every machine
///
/// The archive has one folder with the skill's files. Owners, times and modes of this machine are not
/// in it, symlinks become copies, and what .skillignore leaves out is left out. Prints the digest of
/// the archive. `skillhost add` reads it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost pack SKILL
  skillhost pack SKILL --output report.tar.zst")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/`
    skill: PathBuf,
    /// The archive: its name ends with .tar.gz or .tar.zst [default: NAME.tar.gz]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object with the path and the digest of the archive
    #[arg(long)]
    json: bool,
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    require_path(&args.skill)?;
    let skill = Skill::load(&args.skill, &Default::default())?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => PathBuf::from(format!("{}.tar.gz", skill.name)),
    };
    let Some(format) = PackFormat::of_name(&path.to_string_lossy()) else {
        return Err(CliError::usage(format!("{} is not the name of an archive", path.display()))
            .fix("--output FILE.tar.gz, or FILE.tar.zst"));
    };
    let bytes = pack::read(&skill)
        .and_then(|files| pack(&skill.name, &files, format, Vec::new()))
        .map_err(|error| CliError::io(format_args!("pack {}", args.skill.display()), error))?;
    write(&path, &bytes)?;
    let digest = Digest::of(&bytes);
    if args.json {
        output::json(&serde_json::json!({ "path": path, "digest": digest }))?;
    } else {
        output::text(&format!("{digest}  {}", path.display()))?;
    }
    Ok(Exit::Ok)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let fail =
        |error: std::io::Error| CliError::io(format_args!("write {}", path.display()), error);
    #[expect(clippy::disallowed_methods, reason = "a file that the operator names")]
    let mut file = std::fs::File::create(path).map_err(fail)?;
    file.write_all(bytes).map_err(fail)
}
