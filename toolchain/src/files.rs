//! Atomic creation of files and folders: each is written under a temporary name, then renamed.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::Error;

/// The prefix of unfinished folders.
pub(crate) const UNFINISHED: &str = ".making-";

/// Copies a file unless the copy already has the same contents. Returns whether it copied.
pub fn copy_if_changed(from: &Path, to: &Path) -> Result<bool, Error> {
    write_if_changed(to, &fs::read(from).map_err(Error::context(from.display()))?)
}

/// Writes a file, and creates the folders above it, unless it already has these contents. Returns
/// whether it wrote.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool, Error> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    let write = || {
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new()
            .prefix(".writing-")
            .permissions(readable())
            .tempfile_in(dir)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.persist(path).map_err(|e| e.error)
    };
    write().map_err(Error::io(path.display()))?;
    Ok(true)
}

/// Creates the folder `path`: `fill` fills a temporary folder, which is then renamed. An existing
/// folder is complete and stays unchanged.
pub fn create_dir_whole(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    let new = || {
        fs::create_dir_all(parent)?;
        tempfile::Builder::new().prefix(UNFINISHED).permissions(searchable()).tempdir_in(parent)
    };
    let new: TempDir = new().map_err(Error::io(parent.display()))?;
    fill(new.path()).map_err(|error| Error {
        what: error.what.replace(&*new.path().to_string_lossy(), &path.to_string_lossy()),
        ..error
    })?;
    match fs::rename(new.path(), path) {
        // Another process created the folder first.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(Error::io(path.display())(error)),
        Ok(()) => {
            drop(new.keep());
            Ok(())
        }
    }
}

/// Takes the lock file `path`, waiting for other processes. The lock is held until the result is
/// dropped.
pub fn lock(path: &Path) -> Result<File, Error> {
    let lock = || {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let file = File::create(path)?;
        file.lock()?;
        Ok::<_, std::io::Error>(file)
    };
    lock().map_err(Error::context(path.display()))
}

fn readable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}

fn searchable() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_written_only_if_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(write_if_changed(&path, b"1").unwrap());
        assert!(!write_if_changed(&path, b"1").unwrap());
        assert!(write_if_changed(&path, b"2").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn failed_folder_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whole");
        let half = |new: &Path| {
            fs::write(new.join("half"), "").map_err(Error::context("half"))?;
            Err(Error::new("stopped"))
        };
        assert_eq!(create_dir_whole(&path, half), Err(Error::new("stopped")));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        create_dir_whole(&path, |new| {
            fs::write(new.join("all"), "").map_err(Error::context("all"))
        })
        .unwrap();
        create_dir_whole(&path, |_| Err(Error::new("an existing folder must not be filled again")))
            .unwrap();
        assert!(path.join("all").is_file());
    }
}
