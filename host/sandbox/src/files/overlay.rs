//! Copy-on-write: writes go to a folder of their own (`upper`), and the mount's folder (`lower`)
//! stays as it was.
//!
//! Names in `up` live in the upper folder; names in `gone`, and all below them, are gone from the
//! lower one. A folder that was removed and made again is in both, and so shows nothing of the
//! lower one.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use rustix::fs::{self, AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::host_dir::HostDir;
use super::mount::{Layer, Rules};
use super::{Vfs, beneath};

/// What the overlays hold, by mount.
#[derive(Debug)]
pub(super) struct Tree {
    overlays: Vec<Overlay>,
}

#[derive(Debug, Default)]
pub(super) struct Overlay {
    pub(super) up: BTreeMap<String, Raised>,
    pub(super) gone: BTreeSet<String>,
    /// What the lower folder held when a path was first changed; `None`: nothing.
    pub(super) seen: BTreeMap<String, Option<Seen>>,
}

/// An entry of the upper folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raised {
    pub(super) folder: bool,
    /// It was created, and charged as such; else it is a copy.
    pub(super) created: bool,
}

/// What tells a lower file from what it may have become since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) kind: FileType,
    identity: [i128; 6],
}

/// Which folder holds a path.
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

impl Seen {
    /// A folder is known by being one: what is in it changes without harm.
    pub(super) fn of(stat: &Stat) -> Seen {
        let kind = beneath::kind(stat);
        let identity = [
            i128::from(stat.st_ino),
            i128::from(stat.st_size),
            i128::from(stat.st_mtime),
            i128::from(stat.st_mtime_nsec),
            i128::from(stat.st_ctime),
            i128::from(stat.st_ctime_nsec),
        ];
        Seen { kind, identity: if kind == FileType::Directory { [0; 6] } else { identity } }
    }
}

impl Overlay {
    /// Where to look for a path.
    ///
    /// # Errors
    /// `NOENT` or `NOTDIR` where it cannot be, whatever the lower folder holds.
    pub(super) fn side(&self, rel: &str) -> Result<Side, Errno> {
        if self.up.contains_key(rel) {
            return Ok(Side::Upper);
        }
        if self.gone.contains(rel) {
            return Err(Errno::NOENT);
        }
        for folder in beneath::ancestors(rel).rev() {
            match self.up.get(folder) {
                Some(raised) if !raised.folder => return Err(Errno::NOTDIR),
                Some(_) if self.hides(folder) => return Err(Errno::NOENT),
                Some(_) => return Ok(Side::Lower),
                None if self.gone.contains(folder) => return Err(Errno::NOENT),
                None => {}
            }
        }
        Ok(Side::Lower)
    }

    /// Whether the lower folder's entry at `rel` is gone, by itself or with a folder above it.
    pub(super) fn hides(&self, rel: &str) -> bool {
        !self.gone.is_empty()
            && beneath::ancestors(rel).chain([rel]).any(|path| self.gone.contains(path))
    }

    /// Whether a listing of the lower folder must leave this entry to the upper one.
    pub(super) fn overrides(&self, rel: &str) -> bool {
        self.up.contains_key(rel) || self.gone.contains(rel)
    }
}

impl Vfs {
    /// The mount's own folder.
    ///
    /// # Errors
    /// It is one that is made when it is first needed, and could not be.
    pub(super) fn lower(&self, m: usize) -> Result<BorrowedFd<'_>, Errno> {
        self.mounts[m].ground.folder().inspect_err(|e| self.ledger.note_failure(*e))
    }

    /// The upper folder of an overlay.
    pub(super) fn upper(&self, m: usize) -> Option<&HostDir> {
        match &self.mounts[m].layer {
            Layer::Overlay(upper) => Some(upper),
            Layer::ReadOnly | Layer::InPlace => None,
        }
    }

    /// The host folder that holds a path, under the same relative path.
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

    /// Whether the file at a path may be written where it is.
    pub(super) fn is_writable_storage(&self, tree: &Tree, m: usize, rel: &str) -> bool {
        match &self.mounts[m].layer {
            Layer::ReadOnly => false,
            Layer::InPlace => true,
            Layer::Overlay(_) => tree.overlay(m).up.contains_key(rel),
        }
    }

    /// Whether what is written in a mount outlives the invocation.
    pub(super) fn is_durable(&self, m: usize) -> bool {
        matches!(
            (&self.mounts[m].rules, &self.mounts[m].layer),
            (Rules::Granted(_) | Rules::State(_), Layer::InPlace)
        )
    }

    /// The metadata at a canonical path, of the link itself where it is one, whatever the rules
    /// say.
    pub(super) fn lstat(&self, tree: &Tree, m: usize, rel: &str) -> Result<Stat, Errno> {
        beneath::stat(self.storage(tree, m, rel)?, rel)
    }

    /// Books an entry that was just created where [`Vfs::raise_parents`] said.
    pub(super) fn note_new(&self, tree: &mut Tree, m: usize, rel: &str, folder: bool) {
        if self.is_overlay(m) {
            self.remember(tree, m, rel);
            tree.overlay_mut(m).up.insert(rel.to_owned(), Raised { folder, created: true });
        }
        self.note_created(tree, m, rel);
    }

    /// Removes an entry from the view.
    pub(super) fn remove_over(
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
        self.remember(tree, m, rel);
        if let (Some(upper), Some(raised)) = (self.upper(m), tree.overlay(m).up.get(rel).copied()) {
            let (parent, name) = beneath::parent(upper.folder()?, rel)?;
            fs::unlinkat(
                &parent,
                name,
                if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() },
            )?;
            tree.overlay_mut(m).up.remove(rel);
            self.ledger.release(stat, raised.created);
        }
        self.white_out(tree, m, rel);
        Ok(())
    }

    /// Renames a file in the view.
    pub(super) fn rename_over(
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
        self.raise(tree, m, from, false)?;
        let upper = self.raise_parents(tree, m, to)?;
        self.remember(tree, m, from);
        self.remember(tree, m, to);
        let (from_parent, from_name) = beneath::parent(upper, from)?;
        let (to_parent, to_name) = beneath::parent(upper, to)?;
        fs::renameat(&from_parent, from_name, &to_parent, to_name)?;
        let overlay = tree.overlay_mut(m);
        if let Some(raised) = overlay.up.remove(from)
            && let (Some(replaced), Some(old)) = (overlay.up.insert(to.to_owned(), raised), old)
        {
            self.ledger.release(old, replaced.created);
        }
        self.white_out(tree, m, from);
        Ok(())
    }

    /// What the lower folder holds at a path.
    pub(super) fn lower_stat(&self, m: usize, rel: &str) -> Option<Stat> {
        beneath::stat(self.lower(m).ok()?, rel).ok()
    }

    /// Keeps what the lower folder holds at a path that is about to be changed for the first time.
    pub(super) fn remember(&self, tree: &mut Tree, m: usize, rel: &str) {
        if !tree.overlay(m).seen.contains_key(rel) {
            let seen = self.lower_stat(m, rel).map(|stat| Seen::of(&stat));
            tree.overlay_mut(m).seen.insert(rel.to_owned(), seen);
        }
    }

    /// Hides the lower folder's entry at a path that was just removed from the upper one, if there
    /// is one to hide.
    fn white_out(&self, tree: &mut Tree, m: usize, rel: &str) {
        let hidden = tree.overlay(m).hides(rel) || self.lower_stat(m, rel).is_none();
        let overlay = tree.overlay_mut(m);
        let below = format!("{rel}/");
        let stale: Vec<String> = overlay
            .gone
            .range(below.clone()..)
            .take_while(|path| path.starts_with(&below))
            .cloned()
            .collect();
        for path in stale {
            overlay.gone.remove(&path);
        }
        if !hidden {
            overlay.gone.insert(rel.to_owned());
        }
        // Nothing was here and nothing is: a guest that makes and removes new names for ever must
        // not fill the memory.
        if overlay.seen.get(rel) == Some(&None) {
            overlay.seen.remove(rel);
        }
    }
}
