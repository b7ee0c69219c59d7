//! `check --fix`: repairs a SKILL.md where that is certain.

use std::io::Write as _;
use std::path::Path;

use skillhost_policy::manifest::fix::fixed;
use skillhost_skill::files::SkillFile;
use skillhost_skill::{SizeLimits, Skill};

use crate::error::CliError;
use crate::output;

/// Prints the diff of a skill's SKILL.md and writes it. A skill that does not load, and one that
/// cannot be repaired, are left to the report.
pub(super) fn fix(folder: &Path, sizes: &SizeLimits) -> Result<(), CliError> {
    let Ok(skill) = Skill::load(folder, sizes) else { return Ok(()) };
    let file = folder.join(&skill.skill_file);
    // The author of a skill must not choose which other file is read or replaced: the listing says
    // whether this is a symlink, and the file is read through the opened folder.
    let is_link = |file: &SkillFile| file.path == skill.skill_file && file.link.is_some();
    if skill.files.iter().any(is_link) {
        return Ok(());
    }
    let failed =
        |error: std::io::Error| CliError::io(format_args!("repair {}", file.display()), error);
    let old = skill.read(&skill.skill_file).map_err(failed)?;
    // Whatever is not UTF-8 could not be kept byte for byte.
    let Ok(old) = String::from_utf8(old) else { return Ok(()) };
    let real = folder.canonicalize().map_err(failed)?;
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let new = fixed(&old, &name);
    if new == old {
        return Ok(());
    }
    let shown = file.display().to_string();
    let diff = similar::TextDiff::from_lines(&old, &new);
    output::diff(&diff.unified_diff().header(&shown, &shown).to_string())?;
    write(&file, &new).map_err(failed)
}

/// Replaces a file, either completely or not at all.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = tempfile::Builder::new()
        .permissions(file.metadata()?.permissions())
        .tempfile_in(file.parent().unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    new.persist(file).map(drop).map_err(|error| error.error)
}
