//! What a guest finds in its folders, by name, for a recording: enough to make folders again that
//! look the same to it.

use std::collections::HashMap;
use std::os::fd::AsFd as _;

use rustix::fs::{Access, AtFlags, FileType};
use rustix::io::Errno;

use super::mount::Rules;
use super::overlay::Tree;
use super::snapshot::{BYTES_MAX, ENTRIES_MAX};
use super::{Snapshot, SnapshotError, Vfs, beneath, changes, lock};
use crate::recording::keep::Keep;
use crate::recording::scene::SKILL;
use crate::recording::{Entry, EntryKind, Folder};
use skillhost_policy::SITE_PACKAGES;
use skillhost_policy::capabilities::PathAccess;

impl Vfs {
    /// Lists the folders of the skill, of the operator's packages, what the skill keeps, and those
    /// that were granted. The first two are kept whole; of the others `snapshot` has the digests,
    /// and what is read is kept when it is.
    ///
    /// # Errors
    /// There is too much in them, or something cannot be read or kept.
    pub fn survey(&self, snapshot: &Snapshot, keep: &Keep) -> Result<Vec<Folder>, SnapshotError> {
        let tree = lock(&self.tree);
        let mut folders = Vec::new();
        let mut names = HashMap::new();
        for (m, mount) in self.mounts.iter().enumerate() {
            let whole = match &mount.rules {
                Rules::Granted(_) | Rules::State(_) => false,
                Rules::Skill(_) if mount.guest == SKILL => true,
                Rules::Packages if mount.guest.starts_with(SITE_PACKAGES) => true,
                Rules::Packages | Rules::Skill(_) | Rules::Scratch | Rules::Root(_) => continue,
            };
            let keep = whole.then_some(keep);
            let mut survey = Survey {
                vfs: self,
                tree: &tree,
                m,
                snapshot,
                keep,
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
    /// Where all files are kept, not those alone that are read.
    keep: Option<&'a Keep>,
    /// The numbers of the files that have several names, by device and inode.
    names: &'a mut HashMap<(u64, u64), u64>,
    entries: Vec<Entry>,
    bytes: u64,
}

impl Survey<'_> {
    /// Lists a folder. Says whether it holds what guests are not shown.
    fn folder(&mut self, rel: &str) -> Result<bool, SnapshotError> {
        let mut hides = false;
        if self.vfs.access(self.m, rel) == PathAccess::None {
            return Ok(true);
        }
        let listed = match self.vfs.list(self.tree, self.m, rel) {
            // Another mount, which guests do not enter either.
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
            self.entries.push(Entry { path: rel.clone(), kind });
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
                let digest = match self.keep {
                    Some(keep) => {
                        self.bytes += bytes;
                        if self.bytes > BYTES_MAX {
                            return Err(Ok(SnapshotError::TooMuch));
                        }
                        keep.file(file.as_fd()).map_err(|error| {
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
                Ok(EntryKind::File { bytes, digest, kept: self.keep.is_some(), writable, names })
            }
            _ => Ok(EntryKind::Other),
        }
    }

    fn unreadable(&self, rel: &str, error: Errno) -> SnapshotError {
        SnapshotError::Unreadable(self.vfs.mounts[self.m].guest_path(rel), error)
    }
}
