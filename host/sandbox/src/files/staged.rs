//! The changes of an overlay as plain data, for someone who makes them later, when the run is over.

use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::changes::file;
use super::{Vfs, beneath, lock};
use skillhost_skill::runtime;

/// A path that a run would change, and what it takes to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Where guests see the folder.
    pub guest: String,
    /// The path in it.
    pub path: String,
    /// What the folder held; what is something else by then is not changed.
    pub before: Option<Before>,
    /// What it is to hold.
    pub after: Option<After>,
}

/// What a folder holds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// A folder.
    Folder,
    /// A file whose bytes have that digest.
    File(String),
}

/// What a folder is to hold at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// The mode of the one that it takes the place of, or that the guest gave it.
        mode: u32,
    },
}

impl Vfs {
    /// What the overlays would change, with the bytes; by mount and path.
    ///
    /// # Errors
    /// A file cannot be read; or they have more than `cap` bytes together, as `FileTooLarge`.
    pub fn staged(&self, cap: u64) -> io::Result<Vec<Staged>> {
        let tree = lock(&self.tree);
        let (mut all, mut left) = (Vec::new(), cap);
        for m in self.overlays() {
            for difference in self.differences(&tree, m) {
                let rel = difference.rel.clone();
                let before = match &difference.lower {
                    None => None,
                    Some(stat) if beneath::kind(stat) == FileType::Directory => {
                        Some(Before::Folder)
                    }
                    Some(stat) => {
                        let mut all = u64::MAX;
                        Some(Before::File(runtime::digest(&bytes(
                            self.lower(m)?,
                            &rel,
                            stat,
                            &mut all,
                        )?)))
                    }
                };
                let after = match &difference.view {
                    None => None,
                    Some(stat) if beneath::kind(stat) == FileType::Directory => Some(After::Folder),
                    Some(stat) => {
                        let bytes = bytes(self.storage(&tree, m, &rel)?, &rel, stat, &mut left)?;
                        let replaced =
                            difference.lower.as_ref().filter(|_| !difference.changes_kind());
                        Some(After::File { bytes, mode: replaced.unwrap_or(stat).st_mode & 0o777 })
                    }
                };
                all.push(Staged { guest: self.mounts[m].guest_path(""), path: rel, before, after });
            }
        }
        Ok(all)
    }
}

/// The bytes of a regular file, as long as they are within what is left.
fn bytes(root: BorrowedFd<'_>, rel: &str, stat: &Stat, left: &mut u64) -> io::Result<Vec<u8>> {
    if beneath::kind(stat) != FileType::RegularFile {
        return Err(Errno::NOTSUP.into());
    }
    let mut bytes = Vec::new();
    file(root, rel)?.take(left.saturating_add(1)).read_to_end(&mut bytes)?;
    *left = left
        .checked_sub(bytes.len() as u64)
        .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    Ok(bytes)
}
