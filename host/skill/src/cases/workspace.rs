//! The workspace of one run of a case: filled before the run, and compared with its state after it.
//!
//! A guest writes here, so files are neither followed through symlinks nor kept in memory if they
//! are large.

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use cap_std::fs::Dir;
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use super::{SkillCase, entries, open_below};
use crate::files;
use skillhost_policy::case::{ObservedFile, check_path};

/// The most files and folders that a run may leave.
const MAX_LEFT: usize = 10_000;
/// The most bytes of a file whose content is kept; of larger ones, the digest is.
const MAX_KEPT: u64 = 1 << 20;
/// The most bytes that are kept of all files together.
const MAX_KEPT_TOTAL: u64 = 32 << 20;

/// The workspace of one run.
#[derive(Debug)]
pub struct CaseWorkspace {
    folder: Dir,
    before: Files,
}

type Files = BTreeMap<String, ObservedFile>;

impl CaseWorkspace {
    pub(super) fn new(case: &SkillCase, folder: Dir) -> io::Result<CaseWorkspace> {
        case.fill(&folder)?;
        let before = snapshot(&folder)?;
        Ok(CaseWorkspace { folder, before })
    }

    /// Returns the files that have been created, changed or removed since. Folders do not count.
    ///
    /// # Errors
    /// There are more than 10,000 files and folders, a path is too long or not UTF-8, or a file
    /// cannot be read.
    pub fn changes(&self) -> io::Result<Files> {
        let mut changes = snapshot(&self.folder)?;
        for path in self.before.keys() {
            if !changes.contains_key(path) {
                changes.insert(path.clone(), ObservedFile::Removed);
            }
        }
        changes.retain(|path, file| self.before.get(path) != Some(file));
        Ok(changes)
    }
}

/// Returns every file and symlink below a folder.
fn snapshot(root: &Dir) -> io::Result<Files> {
    let (mut found, mut folders) = (Files::new(), vec![String::new()]);
    let (mut count, mut left) = (0, MAX_KEPT_TOTAL);
    while let Some(below) = folders.pop() {
        let folder = open_below(root, &below)?;
        let names = entries(&folder, MAX_LEFT).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_many(),
            _ => error,
        })?;
        for (name, kind) in names {
            count += 1;
            if count > MAX_LEFT {
                return Err(too_many());
            }
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            check_path(&path).map_err(|why| io::Error::other(format!("`{path}`: {why}")))?;
            let file = match kind {
                FileType::Directory => {
                    folders.push(path);
                    continue;
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(&folder, &name, Vec::new())?;
                    ObservedFile::Link(target.to_string_lossy().into_owned())
                }
                FileType::RegularFile => read(&folder, &name, &mut left)?,
                _ => continue,
            };
            found.insert(path, file);
        }
    }
    Ok(found)
}

fn read(folder: &Dir, name: &str, left: &mut u64) -> io::Result<ObservedFile> {
    let mut file = files::open(folder, name)?;
    let bytes = file.metadata()?.len();
    if bytes <= MAX_KEPT.min(*left) {
        let content = files::read_bounded(folder, name, bytes)?;
        *left -= bytes;
        return Ok(ObservedFile::Content(content));
    }
    let (mut hash, mut buffer, mut bytes) = (Sha256::new(), vec![0; 64 << 10], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
    let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ObservedFile::Large { bytes, digest })
}

fn too_many() -> io::Error {
    io::Error::other(format!("the workspace has more than {MAX_LEFT} files and folders"))
}
