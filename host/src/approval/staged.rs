//! Changes that a run kept aside until a person has seen them: made later, in folders that may have changed meanwhile.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};

use crate::runtime;
use crate::sandbox::files::{After, Before, Staged};

/// A change, and the folder of the host's that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The folder.
    pub folder: PathBuf,
    /// The change.
    pub staged: Staged,
}

/// Makes changes: all of them or, where a path is not what it was, none.
pub(super) fn apply(changes: &[Change]) -> io::Result<()> {
    let mut folders: BTreeMap<&Path, Dir> = BTreeMap::new();
    for Change { folder, .. } in changes {
        if !folders.contains_key(folder.as_path()) {
            folders.insert(folder, open(folder)?);
        }
    }
    for Change { folder, staged } in changes {
        if found(&folders[folder.as_path()], &staged.path)? != staged.before {
            let path = folder.join(&staged.path);
            return Err(io::Error::other(format!("{} changed meanwhile, so nothing was written", path.display())));
        }
    }
    // What goes makes room for what comes: the deepest first. What comes stands in folders that come before it.
    let goes = |staged: &Staged| staged.after.is_none() || is_folder(&staged.before) != matches!(staged.after, Some(After::Folder));
    for Change { folder, staged } in changes.iter().rev().filter(|change| goes(&change.staged)) {
        let dir = &folders[folder.as_path()];
        match &staged.before {
            Some(Before::Folder) => dir.remove_dir(&staged.path)?,
            Some(Before::File(_)) => dir.remove_file(&staged.path)?,
            None => {}
        }
    }
    for Change { folder, staged } in changes {
        let dir = &folders[folder.as_path()];
        match &staged.after {
            Some(After::Folder) if !dir.is_dir(&staged.path) => dir.create_dir(&staged.path)?,
            Some(After::File { bytes, mode }) => put(dir, &staged.path, bytes, *mode)?,
            _ => {}
        }
    }
    Ok(())
}

fn is_folder(before: &Option<Before>) -> bool {
    *before == Some(Before::Folder)
}

#[expect(clippy::disallowed_methods, reason = "a folder that the operator granted; everything below goes through the handle")]
fn open(folder: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(folder, cap_std::ambient_authority())
}

/// What is at a path now.
fn found(dir: &Dir, path: &str) -> io::Result<Option<Before>> {
    let meta = match dir.symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    };
    if meta.is_dir() {
        return Ok(Some(Before::Folder));
    }
    let mut bytes = Vec::new();
    if meta.is_file() {
        dir.open(path)?.read_to_end(&mut bytes)?;
    }
    // What is neither has no digest that a run could have seen.
    Ok(Some(Before::File(if meta.is_file() { runtime::digest(&bytes) } else { String::new() })))
}

/// Writes a file beside its place, and renames it into it.
fn put(dir: &Dir, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temporary = match path.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/.skillhost-{}", std::process::id()),
        None => format!(".skillhost-{}", std::process::id()),
    };
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
    let written = dir.open_with(&temporary, &options).and_then(|mut file| {
        file.write_all(bytes)?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(mode))?;
        dir.rename(&temporary, dir, path)
    });
    written.inspect_err(|_| {
        // The error at hand says more than a second one would.
        let _ = dir.remove_file(&temporary);
    })
}
