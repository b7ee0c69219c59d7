//! A case's script outside the sandbox, for `test --native` alone.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use skillhost_policy::WORKSPACE;
use skillhost_policy::case::{Content, Difference, Expected, Observed};
use skillhost_skill::Skill;
use skillhost_skill::cases::SkillCase;
use skillhost_skill::private::{self, TempFolder};
use skillhost_skill::runtime::Program;
use skillhost_skill::runtime::spawn::SKILL_MOUNT;

use crate::error::CliError;
use crate::native::Script;

/// Runs the script of a case with the machine's own interpreter, on a copy of the skill that was
/// approved, and returns how the run differs from the one in the sandbox. Does not compare stderr,
/// in which interpreters differ, and denials.
pub(super) fn differences(
    program: &Program,
    skill: &Skill,
    case: &SkillCase,
    stdin: &[u8],
    folder: &TempFolder,
    sandboxed: &Observed,
) -> Result<Vec<Difference>, CliError> {
    let failed = |error: io::Error| {
        CliError::io(format_args!("prepare the native run of the case {}", case.name), error)
    };
    let copy = copy_skill(skill, folder).map_err(failed)?;
    let workspace = folder.create("native").and_then(|fd| case.workspace(fd)).map_err(failed)?;
    let here = folder.path().join("native");
    let script = Script::of(Some(program), &copy, Some(&here))?;
    let output = script.output(file_of(stdin).map_err(failed)?)?;
    let replaced = [(copy.as_path(), SKILL_MOUNT), (here.as_path(), WORKSPACE)];
    let observed = Observed {
        exit: output.status.code().map_or_else(
            || 128_u8.saturating_add(output.status.signal().unwrap_or(0).unsigned_abs() as u8),
            |code| code as u8,
        ),
        stdout: as_in_sandbox(output.stdout, &replaced),
        files: workspace.changes().map_err(failed)?,
        ..Observed::default()
    };
    let expected = Expected {
        stderr: Content::Contains(Vec::new()),
        denials: Vec::new(),
        ..Expected::of(sandboxed)
    };
    Ok(expected.differences(&observed))
}

/// Copies the files of the loaded skill, which are those that were digested and approved.
fn copy_skill(skill: &Skill, folder: &TempFolder) -> io::Result<PathBuf> {
    folder.create("skill")?;
    let root = folder.path().join("skill");
    for file in &skill.files {
        let to = root.join(&file.path);
        if let Some(parent) = to.parent() {
            private::create_missing(parent)?;
        }
        match &file.link {
            Some(target) => std::os::unix::fs::symlink(target, &to)?,
            None => {
                #[expect(clippy::disallowed_methods, reason = "a new file in a folder of our own")]
                std::fs::write(&to, skill.read(&file.path)?)?;
            }
        }
    }
    root.canonicalize()
}

/// An input as an open file, which the script reads at its own pace.
fn file_of(bytes: &[u8]) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Replaces the paths of folders with those that a guest sees.
fn as_in_sandbox(bytes: Vec<u8>, folders: &[(&Path, &str)]) -> Vec<u8> {
    match String::from_utf8(bytes) {
        Ok(text) => folders
            .iter()
            .fold(text, |text, (path, guest)| text.replace(&*path.to_string_lossy(), guest))
            .into_bytes(),
        Err(error) => error.into_bytes(),
    }
}
