//! Replaces the sources file and the lock file together: after a crash, both are old or both are new.
//!
//! What both will contain is written down first, in one file that appears complete. From then on
//! every reader finishes the replacement before it reads.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::bounded::read_text;
use crate::digest::Digest;
use crate::error::SourceError;
use crate::store::Store;

/// The most bytes of either file.
const MAX: u64 = 64 << 20;

/// What a file contained, and what it will contain.
#[derive(Debug, Serialize, Deserialize)]
struct Replacement {
    path: PathBuf,
    /// The digest of the text before; `None` if there was no file.
    before: Option<String>,
    text: String,
}

/// Reads a file. Returns an empty text if it does not exist.
pub(crate) fn read(path: &Path) -> Result<String, SourceError> {
    Ok(find(path)?.unwrap_or_default())
}

fn find(path: &Path) -> Result<Option<String>, SourceError> {
    let fail = |error: io::Error| SourceError::io(format!("read {}", path.display()), error);
    read_text(path, MAX).map_err(fail)
}

/// Replaces several files. The caller holds the lock of the store.
///
/// # Errors
/// A file cannot be written. Then none is replaced, or the next reader replaces all.
pub(crate) fn replace(
    store: &Store,
    key: &Path,
    files: &[(&Path, &str)],
) -> Result<(), SourceError> {
    let replacement = |(path, text): &(&Path, &str)| {
        let before = find(path)?.map(|before| Digest::of(before.as_bytes()).to_string());
        Ok(Replacement { path: path.to_path_buf(), before, text: (*text).to_owned() })
    };
    let files = files.iter().map(replacement).collect::<Result<Vec<_>, SourceError>>()?;
    // A path that is not UTF-8 cannot be written down.
    let text = serde_json::to_string(&files)
        .map_err(|error| SourceError::io(format!("replace {}", key.display()), error))?;
    write(&store.journal(key), &text)?;
    recover(store, key)
}

/// Finishes a replacement that was interrupted. The caller holds the lock of the store.
///
/// # Errors
/// A file cannot be written, or was changed since by something else.
pub(crate) fn recover(store: &Store, key: &Path) -> Result<(), SourceError> {
    let journal = store.journal(key);
    let Some(text) = find(&journal)? else { return Ok(()) };
    let fail = |error: io::Error| SourceError::io(format!("use {}", journal.display()), error);
    let files: Vec<Replacement> =
        serde_json::from_str(&text).map_err(|error| fail(io::Error::other(error)))?;
    for file in &files {
        let found = find(&file.path)?.map(|found| Digest::of(found.as_bytes()).to_string());
        let after = Some(Digest::of(file.text.as_bytes()).to_string());
        if found != file.before && found != after {
            return Err(SourceError::request(
                format!(
                    "{} was changed while an earlier change was interrupted",
                    file.path.display()
                ),
                format!("keep the file as it is: rm {}", journal.display()),
            ));
        }
    }
    for file in &files {
        write(&file.path, &file.text)?;
    }
    std::fs::remove_file(&journal).map_err(fail)
}

/// Checks whether a replacement was interrupted.
pub(crate) fn is_interrupted(store: &Store, key: &Path) -> bool {
    store.journal(key).exists()
}

/// Replaces a file with a complete new one. The caller holds the lock of the store, so no other
/// process uses the temporary name; a killed one may have left it.
fn write(path: &Path, text: &str) -> Result<(), SourceError> {
    let fail = |error: io::Error| SourceError::io(format!("write {}", path.display()), error);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    skillhost_skill::private::create_missing(folder).map_err(fail)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd =
        rustix::fs::open(folder, flags, Mode::empty()).map_err(|error| fail(error.into()))?;
    let name = path.file_name().unwrap_or_default();
    let temporary = format!(".{}.tmp", name.to_string_lossy());
    match rustix::fs::unlinkat(&folder, temporary.as_str(), rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(fail(error.into())),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = rustix::fs::openat(&folder, temporary.as_str(), flags, mode);
    let mut file = std::fs::File::from(file.map_err(|error| fail(error.into()))?);
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| {
        rustix::fs::renameat(&folder, temporary.as_str(), &folder, name)?;
        Ok(())
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&folder, temporary.as_str(), rustix::fs::AtFlags::empty());
    }
    written.map_err(fail)
}
