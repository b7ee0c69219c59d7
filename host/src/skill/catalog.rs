//! The skills of a folder: those folders below it that hold a SKILL.md. Symlinks are not followed.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// Levels below the folder that are looked into.
const MAX_DEPTH: usize = 16;
/// Files and folders that are looked at.
const MAX_ENTRIES: usize = 1_000_000;
/// Folders that hold no skills and very many files.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The skills of a folder, by path: itself, if it is one, else those below it. What lies inside a skill belongs to that skill.
///
/// # Errors
/// The folder cannot be read, or it holds more than a million files and folders. A folder below that cannot be read is passed over.
pub fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    #[expect(clippy::disallowed_methods, reason = "the operator named this folder; everything below goes through the handle")]
    let root = Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
    let mut skills = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut folders = vec![(PathBuf::new(), 0)];
    while let Some((path, depth)) = folders.pop() {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path.as_path() };
        let entries = match root.read_dir(here) {
            Err(error) if depth == 0 => return Err(error),
            Err(_) => continue,
            Ok(entries) => entries,
        };
        let mut below = Vec::new();
        let mut skill = false;
        for entry in entries.flatten() {
            left = left.checked_sub(1).ok_or_else(|| io::Error::other(format!("it holds more than {MAX_ENTRIES} files and folders")))?;
            let name = entry.file_name();
            skill |= name.to_str().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && depth < MAX_DEPTH && !SKIPPED.iter().any(|skipped| name == *skipped) {
                below.push((path.join(name), depth + 1));
            }
        }
        match skill {
            true => skills.push(if depth == 0 { folder.to_owned() } else { folder.join(&path) }),
            false => folders.append(&mut below),
        }
    }
    skills.sort();
    Ok(skills)
}
