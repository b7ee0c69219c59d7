//! How much a folder contains.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cap_std::fs::Dir;

use crate::runtime::cache_quota::used;

/// The number and size of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When one of them was last read, if the file system records that, or written.
    pub last_used: Option<SystemTime>,
}

impl Extent {
    /// Measures a folder of the host.
    ///
    /// # Errors
    /// The folder does not exist, or cannot be read.
    pub fn of_folder(folder: &Path) -> io::Result<Extent> {
        #[expect(clippy::disallowed_methods, reason = "only counts what is in the folder")]
        let dir = Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
        Extent::of(&dir, ".")
    }

    /// Measures a file or folder in `dir`. Does not follow symlinks; each counts as a file.
    ///
    /// # Errors
    /// The entry does not exist, or a folder cannot be read.
    pub fn of(dir: &Dir, name: impl AsRef<Path>) -> io::Result<Extent> {
        let mut extent = Extent::default();
        let mut left: Vec<PathBuf> = vec![name.as_ref().to_owned()];
        let first = dir.symlink_metadata(&left[0])?;
        if !first.is_dir() {
            extent.add_file(first.len(), used(&first));
            return Ok(extent);
        }
        while let Some(folder) = left.pop() {
            for entry in dir.read_dir(&folder)? {
                let entry = entry?;
                // Another process may remove files at the same time.
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    left.push(folder.join(entry.file_name()));
                } else {
                    extent.add_file(metadata.len(), used(&metadata));
                }
            }
        }
        Ok(extent)
    }

    /// Adds another extent.
    pub fn add(&mut self, other: Extent) {
        self.files += other.files;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.last_used = self.last_used.max(other.last_used);
    }

    fn add_file(&mut self, bytes: u64, used: SystemTime) {
        self.add(Extent { files: 1, bytes, last_used: Some(used) });
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    #[test]
    fn symlinks_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        std::fs::create_dir_all(folder.join("inner")).unwrap();
        std::fs::write(folder.join("inner/file"), [0; 100]).unwrap();
        std::fs::write(root.path().join("outside"), [0; 5_000]).unwrap();
        let dir = Dir::open_ambient_dir(root.path(), cap_std::ambient_authority()).unwrap();
        let before = Extent::of(&dir, "folder").unwrap();
        assert_eq!((before.files, before.bytes), (1, 100));
        assert!(before.last_used.is_some());
        std::os::unix::fs::symlink("../outside", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("up")).unwrap();
        let with_links = Extent::of(&dir, "folder").unwrap();
        assert_eq!(with_links.files, 3);
        assert!(with_links.bytes < 200, "{with_links:?}");
        assert_eq!(Extent::of(&dir, "outside").unwrap().bytes, 5_000);
        assert_eq!(Extent::of(&dir, "none").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
