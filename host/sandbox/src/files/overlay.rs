//! Copy-on-write: writes go to a separate folder (`upper`), and the mount's own folder (`lower`)
//! stays unchanged.
//!
//! The map `upper` lists the entries that live in the upper folder. The set `whiteouts` lists the
//! entries that are removed from the lower folder, with everything below them. A folder that was
//! removed and created again is in both, so it shows nothing of the lower folder.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::host_dir::HostDir;
use super::mount::{Layer, Rules};
use super::{Vfs, beneath};
use skillhost_policy::outcome::ChangeKind;

/// The state of the overlays, by mount.
#[derive(Debug)]
pub(super) struct Tree {
    overlays: Vec<Overlay>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Overlay {
    pub(super) upper: BTreeMap<String, UpperEntry>,
    pub(super) whiteouts: BTreeSet<String>,
    /// The lower folder's entry when a path was first changed; `None` if there was none.
    pub(super) stamps: BTreeMap<String, Option<LowerStamp>>,
}

/// An entry of the upper folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpperEntry {
    pub(super) folder: bool,
    /// Whether the guest created it, which was charged as a new file; otherwise it is a copy.
    pub(super) created: bool,
}

/// Identifies a version of a lower entry, to detect later changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LowerStamp {
    pub(super) kind: FileType,
    identity: [i128; 6],
}

/// The folder that holds a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Upper,
    Lower,
}

impl Tree {
    pub(super) fn new(mounts: usize) -> Tree {
        Tree { overlays: (0..mounts).map(|_| Overlay::default()).collect() }
    }

    pub(super) fn overlay(&self, m: usize) -> &Overlay {
        &self.overlays[m]
    }

    pub(super) fn overlay_mut(&mut self, m: usize) -> &mut Overlay {
        &mut self.overlays[m]
    }
}

impl LowerStamp {
    /// All folders compare equal: changes inside them are detected entry by entry.
    pub(super) fn of(stat: &Stat) -> LowerStamp {
        let kind = beneath::kind(stat);
        let identity = [
            i128::from(stat.st_ino),
            i128::from(stat.st_size),
            i128::from(stat.st_mtime),
            i128::from(stat.st_mtime_nsec),
            i128::from(stat.st_ctime),
            i128::from(stat.st_ctime_nsec),
        ];
        LowerStamp { kind, identity: if kind == FileType::Directory { [0; 6] } else { identity } }
    }
}

impl Overlay {
    /// Returns the folder to look in for a path.
    ///
    /// # Errors
    /// `NOENT` or `NOTDIR` if the path cannot exist, whatever the lower folder holds.
    pub(super) fn side(&self, rel: &str) -> Result<Side, Errno> {
        if self.upper.contains_key(rel) {
            return Ok(Side::Upper);
        }
        if self.whiteouts.contains(rel) {
            return Err(Errno::NOENT);
        }
        for folder in beneath::ancestors(rel).rev() {
            match self.upper.get(folder) {
                Some(entry) if !entry.folder => return Err(Errno::NOTDIR),
                Some(_) if self.hides(folder) => return Err(Errno::NOENT),
                Some(_) => return Ok(Side::Lower),
                None if self.whiteouts.contains(folder) => return Err(Errno::NOENT),
                None => {}
            }
        }
        Ok(Side::Lower)
    }

    /// Checks whether the lower folder's entry at `rel` is hidden by its own whiteout or by one
    /// above it.
    pub(super) fn hides(&self, rel: &str) -> bool {
        !self.whiteouts.is_empty()
            && beneath::ancestors(rel).chain([rel]).any(|path| self.whiteouts.contains(path))
    }

    /// Checks whether the upper folder decides about an entry, so that a listing of the lower
    /// folder must omit it.
    pub(super) fn overrides(&self, rel: &str) -> bool {
        self.upper.contains_key(rel) || self.whiteouts.contains(rel)
    }
}

impl Vfs {
    /// Returns the mount's own folder.
    ///
    /// # Errors
    /// The folder is created on first use, and creating it failed.
    pub(super) fn lower(&self, m: usize) -> Result<BorrowedFd<'_>, Errno> {
        self.mounts[m].host_dir.folder().inspect_err(|e| self.quota.note_failure(*e))
    }

    /// Returns the upper folder of an overlay.
    pub(super) fn upper(&self, m: usize) -> Option<&HostDir> {
        match &self.mounts[m].layer {
            Layer::Overlay(upper) => Some(upper),
            Layer::ReadOnly | Layer::InPlace => None,
        }
    }

    /// Returns the host folder that holds a path, under the same relative path.
    pub(super) fn storage(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
    ) -> Result<BorrowedFd<'_>, Errno> {
        match self.upper(m) {
            Some(upper) if tree.overlay(m).side(rel)? == Side::Upper => upper.folder(),
            _ => self.lower(m),
        }
    }

    /// Checks whether the file at a path can be written in place.
    pub(super) fn is_writable_storage(&self, tree: &Tree, m: usize, rel: &str) -> bool {
        match &self.mounts[m].layer {
            Layer::ReadOnly => false,
            Layer::InPlace => true,
            Layer::Overlay(_) => tree.overlay(m).upper.contains_key(rel),
        }
    }

    /// Checks whether writes to a mount outlive the invocation.
    pub(super) fn is_durable(&self, m: usize) -> bool {
        matches!(
            (&self.mounts[m].rules, &self.mounts[m].layer),
            (Rules::Granted(_) | Rules::State(_), Layer::InPlace)
        )
    }

    /// Returns the metadata at a canonical path, whatever the rules say. Does not follow a symlink
    /// at its end.
    pub(super) fn lstat(&self, tree: &Tree, m: usize, rel: &str) -> Result<Stat, Errno> {
        beneath::stat(self.storage(tree, m, rel)?, rel)
    }

    /// Registers an entry that was just created in the folder that [`Vfs::copy_up_parents`]
    /// returned.
    pub(super) fn note_new(&self, tree: &mut Tree, m: usize, rel: &str, folder: bool) {
        if self.is_overlay(m) {
            self.remember_lower(tree, m, rel);
            tree.overlay_mut(m).upper.insert(rel.to_owned(), UpperEntry { folder, created: true });
        }
        self.note_created(tree, m, rel);
        self.note_event(m, rel, ChangeKind::Added);
    }

    /// Removes an entry from the guest's view.
    pub(super) fn remove_in_overlay(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        stat: &Stat,
    ) -> Result<(), Errno> {
        let folder = beneath::kind(stat) == FileType::Directory;
        if folder && !self.list(tree, m, rel)?.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.remember_lower(tree, m, rel);
        if let (Some(upper), Some(entry)) = (self.upper(m), tree.overlay(m).upper.get(rel).copied())
        {
            let (parent, name) = beneath::parent(upper.folder()?, rel)?;
            fs::unlinkat(
                &parent,
                name,
                if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() },
            )?;
            tree.overlay_mut(m).upper.remove(rel);
            self.quota_of(m).release(stat, entry.created);
        }
        self.white_out(tree, m, rel);
        Ok(())
    }

    /// Renames a file in the guest's view.
    pub(super) fn rename_in_overlay(
        &self,
        tree: &mut Tree,
        m: usize,
        from: &str,
        to: &str,
        old: Option<&Stat>,
    ) -> Result<(), Errno> {
        if old.is_some_and(|old| beneath::kind(old) == FileType::Directory) {
            return Err(Errno::ISDIR);
        }
        self.copy_up(tree, m, from, false)?;
        let upper = self.copy_up_parents(tree, m, to)?;
        self.remember_lower(tree, m, from);
        self.remember_lower(tree, m, to);
        let (from_parent, from_name) = beneath::parent(upper, from)?;
        let (to_parent, to_name) = beneath::parent(upper, to)?;
        fs::renameat(&from_parent, from_name, &to_parent, to_name)?;
        let overlay = tree.overlay_mut(m);
        if let Some(entry) = overlay.upper.remove(from)
            && let (Some(replaced), Some(old)) = (overlay.upper.insert(to.to_owned(), entry), old)
        {
            self.quota_of(m).release(old, replaced.created);
        }
        self.white_out(tree, m, from);
        Ok(())
    }

    /// Returns the lower folder's entry at a path.
    pub(super) fn lower_stat(&self, m: usize, rel: &str) -> Option<Stat> {
        beneath::stat(self.lower(m).ok()?, rel).ok()
    }

    /// Stores a stamp of the lower folder's entry before a path is changed for the first time.
    pub(super) fn remember_lower(&self, tree: &mut Tree, m: usize, rel: &str) {
        if !tree.overlay(m).stamps.contains_key(rel) {
            let stamp = self.lower_stat(m, rel).map(|stat| LowerStamp::of(&stat));
            tree.overlay_mut(m).stamps.insert(rel.to_owned(), stamp);
        }
    }

    /// Hides the lower folder's entry, if there is one, after the upper one was removed.
    fn white_out(&self, tree: &mut Tree, m: usize, rel: &str) {
        let hidden = tree.overlay(m).hides(rel) || self.lower_stat(m, rel).is_none();
        let overlay = tree.overlay_mut(m);
        let below = format!("{rel}/");
        let stale: Vec<String> = overlay
            .whiteouts
            .range(below.clone()..)
            .take_while(|path| path.starts_with(&below))
            .cloned()
            .collect();
        for path in stale {
            overlay.whiteouts.remove(&path);
        }
        if !hidden {
            overlay.whiteouts.insert(rel.to_owned());
        }
        // There was no entry and there is none now: a guest that keeps creating and removing new
        // names must not fill memory.
        if overlay.stamps.get(rel) == Some(&None) {
            overlay.stamps.remove(rel);
        }
    }
}
