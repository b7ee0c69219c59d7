//! The changes of an overlay as plain data, to be applied later, after the run.

use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::apply::ApplyError;
use super::changes::file;
use super::{Vfs, beneath};
use skillhost_skill::runtime;

/// A path that a run would change, and the data needed to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedChange {
    /// The guest path of the folder.
    pub guest: String,
    /// The path in the folder.
    pub path: String,
    /// The folder's entry; if it differs when the change is applied, it is left alone.
    pub before: Option<OldEntry>,
    /// The new entry; `None` removes the old one.
    pub after: Option<NewEntry>,
}

/// The entry that a folder holds at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldEntry {
    /// A folder.
    Folder,
    /// A file with this digest.
    File(String),
    /// A symlink with this target.
    Link(String),
}

/// The entry that a folder is to hold at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewEntry {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Its bytes.
        bytes: Vec<u8>,
        /// The mode of the file that it replaces or that was moved here, or 0666 minus the umask. Bits
        /// that the guest sets are not applied.
        mode: u32,
    },
    /// A symlink with this target, which stays inside the folder.
    Link(String),
}

impl Vfs {
    /// Returns the changes of the overlays, with contents, by mount and path.
    ///
    /// # Errors
    /// A file cannot be read; a symlink may not be written to the folder; or the contents exceed `cap`
    /// bytes in total, as `FileTooLarge`.
    pub fn staged(&self, cap: u64) -> io::Result<Vec<StagedChange>> {
        self.staged_where(cap, |_| true)
    }

    /// Returns the changes of the overlay at one guest path, with contents.
    ///
    /// # Errors
    /// As [`Vfs::staged`].
    pub fn staged_at(&self, guest: &str, cap: u64) -> io::Result<Vec<StagedChange>> {
        self.staged_where(cap, |mount| mount == guest)
    }

    fn staged_where(
        &self,
        cap: u64,
        is_wanted: impl Fn(&str) -> bool,
    ) -> io::Result<Vec<StagedChange>> {
        let tree = self.tree();
        let (mut all, mut left) = (Vec::new(), cap);
        for m in self.overlays() {
            if !is_wanted(self.mounts[m].guest.trim_end_matches('/')) {
                continue;
            }
            for difference in self.differences(&tree, m) {
                let rel = difference.rel.clone();
                let before = match &difference.lower {
                    None => None,
                    Some(stat) if beneath::kind(stat) == FileType::Directory => {
                        Some(OldEntry::Folder)
                    }
                    Some(stat) if beneath::kind(stat) == FileType::Symlink => {
                        match beneath::read_link(self.lower(m)?, &rel) {
                            Ok(target) => Some(OldEntry::Link(target)),
                            // The ledger, which compares it later, reads it like this.
                            Err(Errno::ILSEQ) => Some(OldEntry::File(String::new())),
                            Err(error) => return Err(error.into()),
                        }
                    }
                    Some(stat) => {
                        let mut all = u64::MAX;
                        Some(OldEntry::File(runtime::digest(&bytes(
                            self.lower(m)?,
                            &rel,
                            stat,
                            &mut all,
                        )?)))
                    }
                };
                let after = match &difference.view {
                    None => None,
                    Some(stat) if beneath::kind(stat) == FileType::Directory => {
                        Some(NewEntry::Folder)
                    }
                    Some(stat) if beneath::kind(stat) == FileType::Symlink => {
                        if let Some(refusal) = self.refused_link(&tree, m, &difference) {
                            let path = self.label(m, &difference);
                            return Err(io::Error::other(ApplyError::Symlink { path, refusal }));
                        }
                        Some(NewEntry::Link(self.link_target(&tree, m, &rel)?.text))
                    }
                    Some(stat) => {
                        let bytes = bytes(self.storage(&tree, m, &rel)?, &rel, stat, &mut left)?;
                        let replaced =
                            difference.lower.as_ref().filter(|_| !difference.changes_kind());
                        Some(NewEntry::File {
                            bytes,
                            mode: replaced.unwrap_or(stat).st_mode & 0o777,
                        })
                    }
                };
                all.push(StagedChange {
                    guest: self.mounts[m].guest_path(""),
                    path: rel,
                    before,
                    after,
                });
            }
        }
        Ok(all)
    }
}

/// Reads a regular file, and subtracts its size from what is left.
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
