//! Replaces the content of a file of a session in one step, for a client that writes it.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::copy_up::copy;
use super::handle::Handle;
use super::mount::Layer;
use super::overlay::{Tree, UpperEntry};
use super::path::Location;
use super::quota::Quota;
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::outcome::ChangeKind;

/// The number of the next new file of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A complete file that has no path yet. It is removed, and no longer counts, unless it gets one.
struct NewFile<'a> {
    folder: BorrowedFd<'a>,
    /// Not UTF-8: no path of a guest names it, and no listing has it.
    name: Vec<u8>,
    fd: OwnedFd,
    quota: &'a Quota,
    size: u64,
    is_placed: bool,
}

impl Vfs {
    /// Replaces a file of a session by `size` bytes of `content`, read from its current position, or
    /// creates it. The replacement is atomic: readers see either the old or the new content, and the old
    /// one after an error. `mode` sets the permission bits that guests see; otherwise those of the
    /// old file stay.
    ///
    /// Until the old content is gone, both count towards the quota.
    ///
    /// # Errors
    /// As for [`Vfs::open_at`] with `create` and `write`; `ROFS` outside the files of a session.
    pub fn replace_file(
        &self,
        base: &Handle,
        path: &str,
        content: &File,
        size: u64,
        mode: Option<u32>,
    ) -> Result<(), Errno> {
        let shared = self.shared.as_ref().ok_or(Errno::ROFS)?;
        // On the same file system as `/tmp` of the session.
        let upper = shared.workspace().and_then(|m| self.upper(m)).ok_or(Errno::ROFS)?;
        let mut new = NewFile::create(upper.folder()?, &shared.quota, size)
            .inspect_err(|error| self.quota.note_failure(*error))?;
        copy(content, &new.fd, size).inspect_err(|error| self.quota.note_failure(*error))?;
        let mut tree = self.tree();
        self.resolve(&mut tree, base, path, true, |tree, at| {
            self.put_in_place(tree, at, &mut new, mode)
        })
    }

    /// Returns the permission bits that were set for the entry at a path below the folder `base`.
    pub fn mode_at(&self, base: &Handle, path: &str) -> Option<u32> {
        let mut tree = self.tree();
        let bits = self.resolve(&mut tree, base, path, false, |tree, at| {
            Ok(self.bits_of(&self.look(tree, at.m, at.rel)?))
        });
        bits.ok().flatten()
    }

    fn put_in_place(
        &self,
        tree: &mut Tree,
        Location { m, rel, folder }: Location<'_>,
        new: &mut NewFile<'_>,
        mode: Option<u32>,
    ) -> Result<(), Errno> {
        let old = match self.look(tree, m, rel) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) if !folder => None,
            Err(error) => return Err(error),
        };
        match old.as_ref().map(beneath::kind) {
            None => {}
            Some(FileType::Directory) => return Err(Errno::ISDIR),
            Some(FileType::Symlink) => return Err(Errno::LOOP),
            Some(FileType::RegularFile) if folder => return Err(Errno::NOTDIR),
            Some(FileType::RegularFile) => {}
            Some(_) => {
                let rule = "devices, FIFOs and sockets cannot be opened";
                self.refuse_kind(m, rel, Attempt::Change, rule);
                return Err(Errno::ACCESS);
            }
        }
        let attempt = if old.is_some() { Attempt::Change } else { Attempt::Create };
        self.check_write(tree, m, rel, attempt)?;
        let is_session = self.shared.as_ref().is_some_and(|shared| shared.has(m));
        if !is_session || matches!(self.mounts[m].layer, Layer::ReadOnly) {
            return Err(Errno::ROFS);
        }
        if old.is_none() {
            self.quota_of(m).charge_file()?;
        }
        let placed = self.copy_up_parents(tree, m, rel).and_then(|root| {
            if let Some(old) = &old {
                fs::fchmod(&new.fd, Mode::from_raw_mode(old.st_mode & 0o777 | 0o600))?;
            }
            let (parent, name) = beneath::parent(root, rel)?;
            if self.is_overlay(m) {
                self.remember_lower(tree, m, rel);
            }
            fs::renameat(new.folder, new.name.as_slice(), &parent, name)
        });
        if let Err(error) = placed {
            self.quota.note_failure(error);
            if old.is_none() {
                self.quota_of(m).undo_file_charge(error);
            }
            return Err(error);
        }
        new.is_placed = true;
        match &old {
            None => {
                self.note_new(tree, m, rel, false);
                self.account(m, rel).note_created();
            }
            Some(old) => self.note_replaced(tree, m, rel, old),
        }
        if let (Some(mode), Ok(stat)) = (mode, self.lstat(tree, m, rel)) {
            self.set_bits(&stat, mode)?;
        }
        self.quota_of(m).count_written(&self.account(m, rel), written(new.size));
        Ok(())
    }

    /// Notes that another file is now at the path of this one.
    fn note_replaced(&self, tree: &mut Tree, m: usize, rel: &str, old: &Stat) {
        let mut was_writable = true;
        if self.is_overlay(m) {
            let upper = &mut tree.overlay_mut(m).upper;
            let before = upper.get(rel).copied();
            // The path stays what it was: a new one, or a changed one of the lower folder.
            let created = before.is_some_and(|entry| entry.created);
            upper.insert(rel.to_owned(), UpperEntry { folder: false, created });
            was_writable = before.is_some();
        }
        if let Ok(stat) = self.lstat(tree, m, rel) {
            self.copy_bits(old, &stat);
        }
        // What is in the lower folder was never charged. The number of files is the same.
        if was_writable {
            self.quota_of(m).release(old, false);
            self.forget(old);
            self.forget_mode_of(old);
        }
        self.note_event(m, rel, ChangeKind::Changed);
        self.quota_of(m).note_change();
        self.account(m, rel).note_resized();
    }
}

impl<'a> NewFile<'a> {
    /// Creates an empty file for this many bytes, which are charged.
    fn create(folder: BorrowedFd<'a>, quota: &'a Quota, size: u64) -> Result<NewFile<'a>, Errno> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = [b"\xff".as_slice(), number.to_string().as_bytes()].concat();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        quota.charge_all(size)?;
        let opened = fs::openat(
            folder,
            name.as_slice(),
            flags | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o666),
        );
        let fd = opened.inspect_err(|_| quota.refund(size))?;
        Ok(NewFile { folder, name, fd, quota, size, is_placed: false })
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if self.is_placed {
            return;
        }
        self.quota.refund(self.size);
        let removed = fs::unlinkat(self.folder.as_fd(), self.name.as_slice(), AtFlags::empty());
        if let Err(error) = removed {
            tracing::warn!(%error, "cannot remove a file that was not written");
        }
    }
}

fn written(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
