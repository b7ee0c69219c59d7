//! Permission bits, which WASI does not have: `skillhost:files/modes`, which the runtimes call for
//! `chmod` and `stat`.
//!
//! They only inform. Nothing is allowed or denied by them, no file of the host gets them, and they end
//! with the run.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use skillhost_policy::capabilities::PathAccess;
use wasmtime::component::Linker;

use super::mount::Rules;
use super::overlay::Tree;
use super::times::{Key, key};
use super::wasi::{Files, FsView};
use super::{Vfs, beneath, lock};

mod bindings {
    #![allow(
        missing_docs,
        unreachable_pub,
        reason = "generated from WIT, where the documentation is"
    )]
    wasmtime::component::bindgen!({
        inline: "package skillhost:host-modes; world modes-guest { import skillhost:files/modes@0.1.0; }",
        path: "files-wit/modes.wit",
        world: "skillhost:host-modes/modes-guest",
    });
}

use bindings::skillhost::files::modes;

/// The most files that have bits of their own: as many as a run may create by default.
const FILES_MAX: usize = 10_000;

/// The bits that were set, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Modes {
    any: AtomicBool,
    set: Mutex<HashMap<Key, u32>>,
}

impl Modes {
    fn insert(&self, key: Key, mode: u32) -> Result<(), Errno> {
        let mut set = lock(&self.set);
        if set.len() >= FILES_MAX && !set.contains_key(&key) {
            return Err(Errno::NOSPC);
        }
        set.insert(key, mode & 0o7777);
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Links the interface.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> FsView<'_>,
) -> wasmtime::Result<()> {
    modes::add_to_linker::<T, Files>(linker, get)
}

impl modes::Host for FsView<'_> {
    fn any(&mut self) -> bool {
        self.vfs.modes.any.load(Ordering::Relaxed)
    }

    fn get(&mut self, path: String, follow: bool) -> Option<u32> {
        self.vfs.mode(&path, follow)
    }

    fn set(&mut self, path: String, mode: u32, follow: bool) -> Result<(), ()> {
        self.vfs.set_mode(&path, mode, follow).map_err(|_| ())
    }
}

impl Vfs {
    /// Returns the bits that were set for the entry at an absolute guest path.
    pub fn mode(&self, path: &str, follow: bool) -> Option<u32> {
        if !self.modes.any.load(Ordering::Relaxed) {
            return None;
        }
        let key = self.key_of(path, follow, false).ok()?;
        lock(&self.modes.set).get(&key).copied()
    }

    /// Sets the bits of the entry at an absolute guest path, in this run.
    ///
    /// # Errors
    /// `NOENT` for an entry that does not exist or is not visible; `ACCESS` for one of a session that
    /// this run may not write, since other programs would see the bits; `NOSPC` if too many have bits of
    /// their own.
    pub fn set_mode(&self, path: &str, mode: u32, follow: bool) -> Result<(), Errno> {
        let key = self.key_of(path, follow, true)?;
        self.modes.insert(key, mode)
    }

    /// Returns the bits that were set for an entry.
    pub(super) fn bits_of(&self, stat: &Stat) -> Option<u32> {
        lock(&self.modes.set).get(&key(stat)).copied()
    }

    /// Sets the bits of an entry.
    pub(super) fn set_bits(&self, stat: &Stat, mode: u32) -> Result<(), Errno> {
        self.modes.insert(key(stat), mode)
    }

    /// Gives a file the bits of the one that it replaces.
    pub(super) fn copy_bits(&self, from: &Stat, to: &Stat) {
        if self.modes.any.load(Ordering::Relaxed) {
            let mut set = lock(&self.modes.set);
            match set.get(&key(from)).copied() {
                Some(mode) => set.insert(key(to), mode),
                None => set.remove(&key(to)),
            };
        }
    }

    fn key_of(&self, path: &str, follow: bool, changes: bool) -> Result<Key, Errno> {
        let is_root = |mount: &super::OpenMount| matches!(mount.rules, Rules::Root(_));
        let m = self.mounts.iter().position(is_root).ok_or(Errno::NOENT)?;
        let (root, path) = (self.folder(m, "")?, path.trim_start_matches('/'));
        let path = if path.is_empty() { "." } else { path };
        self.resolve(&mut self.tree(), &root, path, follow, |tree, at| {
            let stat = self.look(tree, at.m, at.rel)?;
            let is_shared = changes && self.shared.as_ref().is_some_and(|shared| shared.has(at.m));
            if is_shared && self.access(at.m, at.rel) != PathAccess::Write {
                return Err(Errno::ACCESS);
            }
            match beneath::kind(&stat) {
                FileType::Symlink if follow || at.folder => Err(Errno::LOOP),
                _ => Ok(key(&stat)),
            }
        })
    }

    /// Forgets the bits of an entry that was removed or replaced, so that those of temporary files do
    /// not add up.
    pub(super) fn forget_mode_of(&self, stat: &Stat) {
        let is_gone = stat.st_nlink == 1 || beneath::kind(stat) == FileType::Directory;
        if is_gone && self.modes.any.load(Ordering::Relaxed) {
            lock(&self.modes.set).remove(&key(stat));
        }
    }

    /// Forgets the bits of a file that had the inode of a new one.
    pub(super) fn forget_mode(&self, tree: &Tree, m: usize, rel: &str) {
        if self.modes.any.load(Ordering::Relaxed)
            && let Ok(stat) = self.lstat(tree, m, rel)
        {
            lock(&self.modes.set).remove(&key(&stat));
        }
    }

    /// Gives a copy in an overlay the bits of its original.
    pub(super) fn copy_mode(&self, tree: &Tree, m: usize, rel: &str) {
        if !self.modes.any.load(Ordering::Relaxed) {
            return;
        }
        let Ok(copy) = self.lstat(tree, m, rel) else { return };
        let original = self.lower_stat(m, rel);
        let mut set = lock(&self.modes.set);
        match original.and_then(|original| set.get(&key(&original)).copied()) {
            Some(mode) => set.insert(key(&copy), mode),
            None => set.remove(&key(&copy)),
        };
    }
}
