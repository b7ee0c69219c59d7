//! `skillhost sign`: sign the files of a skill.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use skillhost_ledger::receipt::envelope;
use skillhost_skill::Skill;
use skillhost_sources::digest::{Digest, Listing};
use skillhost_sources::signature;

use crate::args::skills::require_path;
use crate::commands::key;
use crate::context::Places;
use crate::error::{CliError, Exit};
use crate::output;

/// Sign the files of a skill with your key
///
/// Writes skill.dsse.json into the skill's folder: an in-toto statement about the digest of every
/// file, in a DSSE envelope. Users who trust the key (`skillhost key trust`) see in `skillhost why`
/// that it signed the skill. A file that is changed, added or removed afterwards makes the signature
/// invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skillhost sign SKILL
  skillhost sign SKILL && skillhost pack SKILL")]
pub(crate) struct Args {
    /// The skill's folder, as a path with a `/`
    skill: PathBuf,
}

impl Args {
    /// Signs one skill.
    pub(crate) fn of(skill: &Path) -> Args {
        Args { skill: skill.to_owned() }
    }
}

pub(crate) fn main(args: &Args) -> Result<Exit, CliError> {
    require_path(&args.skill)?;
    let key = key::signing(&Places::find()?)?;
    let skill = Skill::load(&args.skill, &Default::default())?;
    let mut files = Listing::default();
    for file in &skill.files {
        let content = skill
            .read(&file.path)
            .map_err(|error| CliError::io(format_args!("read `{}`", file.path), error))?;
        files.0.insert(file.path.clone(), Digest::of(&content));
    }
    let statement = signature::statement(&skill.name, &files).to_string();
    let envelope = envelope::sign_statement(statement.as_bytes(), &key)
        .map_err(|why| CliError::invalid(format!("cannot sign: {why}")))?;
    let path = args.skill.join(signature::FILE);
    write(&path, &[envelope.as_slice(), b"\n"].concat())
        .map_err(|error| CliError::io(format_args!("write {}", path.display()), error))?;
    let count = output::count(files.0.len() as u64, "file");
    output::text(&format!("signed {count} with {}: {}", key.public().id(), path.display()))?;
    Ok(Exit::Ok)
}

/// Writes the signature, and never where a symlink in the skill leads.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    std::fs::File::from(rustix::fs::open(path, flags, mode)?).write_all(bytes)
}
