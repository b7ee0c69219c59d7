//! Files and folders that appear whole or not at all: written beside their place, then renamed into
//! it.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::Error;

/// How the names of folders begin that are not whole yet.
pub(crate) const MAKING: &str = ".making-";

/// Copies a file unless its copy has the same bytes already. Returns whether it did.
pub fn copy_if_changed(from: &Path, to: &Path) -> Result<bool, Error> {
    write_if_changed(to, &fs::read(from).map_err(Error::context(from.display()))?)
}

/// Writes a file, and the folders above it, unless it holds the same bytes already. Returns whether
/// it did.
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
    write().map_err(Error::context(path.display()))?;
    Ok(true)
}

/// Makes the folder `path` by `fill`ing a new one beside it. A folder that exists is whole, and
/// kept.
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
        tempfile::Builder::new().prefix(MAKING).permissions(searchable()).tempdir_in(parent)
    };
    let new: TempDir = new().map_err(Error::context(parent.display()))?;
    fill(new.path())?;
    match fs::rename(new.path(), path) {
        // Another process was quicker.
        Err(_) if path.is_dir() => Ok(()),
        Err(e) => Err(Error::context(path.display())(e)),
        Ok(()) => {
            drop(new.keep());
            Ok(())
        }
    }
}

/// Waits until no other process holds the lock file `path`, and holds it until the result is
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
    fn a_file_is_written_when_its_bytes_changed_and_only_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        assert!(write_if_changed(&path, b"1").unwrap());
        assert!(!write_if_changed(&path, b"1").unwrap());
        assert!(write_if_changed(&path, b"2").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_whose_making_fails_leaves_nothing() {
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
        create_dir_whole(&path, |_| Err(Error::new("a folder that is there is not made again")))
            .unwrap();
        assert!(path.join("all").is_file());
    }
}
