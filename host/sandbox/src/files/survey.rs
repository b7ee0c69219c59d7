//! Lists everything that a guest can see in its folders, for a recording: enough to create folders
//! that look the same to it.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use rustix::fs::{Access, AtFlags, FileType};
use rustix::io::Errno;

use super::mount::Rules;
use super::overlay::Tree;
use super::snapshot::{BYTES_MAX, ENTRIES_MAX};
use super::{Snapshot, SnapshotError, Vfs, beneath, changes};
use crate::recording::blobs::BlobStore;
use crate::recording::scene::SKILL;
use crate::recording::{EntryKind, Folder, RecordedEntry};
use skillhost_policy::SITE_PACKAGES;
use skillhost_policy::capabilities::PathAccess;

impl Vfs {
    /// Lists the skill's folder, the operator's packages, `/state` and the granted folders. Stores
    /// all files of the first two; for the others, takes the digests of `snapshot`, and their files
    /// are stored when a guest reads them.
    ///
    /// # Errors
    /// There are too many entries, or one cannot be read or stored.
    pub fn survey(
        &self,
        snapshot: &Snapshot,
        blobs: &BlobStore,
    ) -> Result<Vec<Folder>, SnapshotError> {
        let tree = self.tree();
        let mut folders = Vec::new();
        let mut names = HashMap::new();
        for (m, mount) in self.mounts.iter().enumerate() {
            let whole = match &mount.rules {
                Rules::Granted(_) | Rules::State(_) => false,
                Rules::Skill(_) if mount.guest == SKILL => true,
                Rules::Packages if mount.guest.starts_with(SITE_PACKAGES) => true,
                Rules::Packages | Rules::Skill(_) | Rules::Scratch | Rules::Root(_) => continue,
            };
            let blobs = whole.then_some(blobs);
            let mut survey = Survey {
                vfs: self,
                tree: &tree,
                m,
                snapshot,
                blobs,
                names: &mut names,
                entries: Vec::new(),
                bytes: 0,
            };
            survey.folder("")?;
            folders.push(Folder { guest: mount.guest.clone(), entries: survey.entries });
        }
        Ok(folders)
    }
}

struct Survey<'a> {
    vfs: &'a Vfs,
    tree: &'a Tree,
    m: usize,
    snapshot: &'a Snapshot,
    /// Stores all files, not just those that are read.
    blobs: Option<&'a BlobStore>,
    /// A number for each file with several names, by device and inode.
    names: &'a mut HashMap<(u64, u64), u64>,
    entries: Vec<RecordedEntry>,
    bytes: u64,
}

impl Survey<'_> {
    /// Lists a folder. Returns whether it contains entries that guests do not see.
    fn folder(&mut self, rel: &str) -> Result<bool, SnapshotError> {
        let mut hides = false;
        if self.vfs.access(self.m, rel) == PathAccess::None {
            return Ok(true);
        }
        let listed = match self.vfs.list(self.tree, self.m, rel) {
            // Another file system, which guests cannot enter either.
            Err(Errno::XDEV) => return Ok(true),
            listed => listed.map_err(|error| self.unreadable(rel, error))?,
        };
        let mut listed: Vec<_> = listed.into_iter().collect();
        listed.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in listed {
            let Ok(name) = name.into_string() else {
                hides = true;
                continue;
            };
            let rel = beneath::join(rel, &name);
            let access = self.vfs.access(self.m, &rel);
            let folder = kind == FileType::Directory && access > PathAccess::None;
            if !folder && access < PathAccess::Read {
                hides = true;
                continue;
            }
            if self.entries.len() >= ENTRIES_MAX {
                return Err(SnapshotError::TooMuch);
            }
            let at = self.entries.len();
            let kind = self
                .kind(&rel, kind)
                .map_err(|error| error.unwrap_or_else(|error| self.unreadable(&rel, error)))?;
            self.entries.push(RecordedEntry { path: rel.clone(), kind });
            if folder {
                let hidden = self.folder(&rel)?;
                if let EntryKind::Folder { hides, .. } = &mut self.entries[at].kind {
                    *hides = hidden;
                }
            }
        }
        Ok(hides)
    }

    fn kind(
        &mut self,
        rel: &str,
        kind: FileType,
    ) -> Result<EntryKind, Result<SnapshotError, Errno>> {
        let root = self.vfs.storage(self.tree, self.m, rel).map_err(Err)?;
        let (parent, name) = beneath::parent(root, rel).map_err(Err)?;
        let writable =
            rustix::fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        match kind {
            FileType::Directory => Ok(EntryKind::Folder { writable, hides: false }),
            FileType::Symlink => {
                let target =
                    rustix::fs::readlinkat(parent.as_fd(), name, Vec::new()).map_err(Err)?;
                let bytes = target.to_bytes().len() as u64;
                let target = target
                    .into_string()
                    .ok()
                    .filter(|target| !target.is_empty() && !target.starts_with('/'));
                Ok(EntryKind::Link { target, bytes })
            }
            FileType::RegularFile => {
                let file = changes::file(root, rel).map_err(Err)?;
                let stat = rustix::fs::fstat(&file).map_err(Err)?;
                let bytes = beneath::size(&stat);
                let digest = match self.blobs {
                    Some(blobs) => {
                        self.bytes += bytes;
                        if self.bytes > BYTES_MAX {
                            return Err(Ok(SnapshotError::TooMuch));
                        }
                        blobs.store_file(file.as_fd()).map_err(|error| {
                            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
                        })?
                    }
                    None => self
                        .snapshot
                        .files
                        .get(&self.vfs.mounts[self.m].guest_path(rel))
                        .cloned()
                        .unwrap_or_default(),
                };
                let next = self.names.len() as u64 + 1;
                let names = (stat.st_nlink > 1)
                    .then(|| *self.names.entry((stat.st_dev, stat.st_ino)).or_insert(next));
                Ok(EntryKind::File { bytes, digest, kept: self.blobs.is_some(), writable, names })
            }
            _ => Ok(EntryKind::Other),
        }
    }

    fn unreadable(&self, rel: &str, error: Errno) -> SnapshotError {
        SnapshotError::Unreadable(self.vfs.mounts[self.m].guest_path(rel), error)
    }
}
