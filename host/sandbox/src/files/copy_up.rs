//! Copy-up: before an entry of an overlay is changed, it and the folders above it are created in
//! the upper folder.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::overlay::{LowerStamp, Tree, UpperEntry};
use super::{Vfs, beneath};

impl Vfs {
    /// Copies a file to the upper folder, or creates a folder there, before it is changed. The copy
    /// is charged. `empty` skips the content of a file that will be truncated anyway.
    pub(super) fn copy_up(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        empty: bool,
    ) -> Result<(), Errno> {
        if self.upper(m).is_none() || tree.overlay(m).upper.contains_key(rel) {
            return Ok(());
        }
        let stat = self.lstat(tree, m, rel)?;
        match beneath::kind(&stat) {
            FileType::RegularFile => self.copy_up_file(tree, m, rel, &stat, empty),
            FileType::Directory => self.copy_up_folder(tree, m, rel),
            FileType::Symlink => self.copy_up_link(tree, m, rel, &stat),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Creates the folders above `rel` in the upper folder, and returns the folder in which a new
    /// `rel` belongs.
    pub(super) fn copy_up_parents(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
    ) -> Result<BorrowedFd<'_>, Errno> {
        let Some(upper) = self.upper(m) else { return self.lower(m) };
        for folder in beneath::ancestors(rel) {
            match tree.overlay(m).upper.get(folder) {
                Some(entry) if entry.folder => {}
                Some(_) => return Err(Errno::NOTDIR),
                None => match beneath::kind(&self.lstat(tree, m, folder)?) {
                    FileType::Directory => self.copy_up_folder(tree, m, folder)?,
                    FileType::Symlink => return Err(Errno::LOOP),
                    _ => return Err(Errno::NOTDIR),
                },
            }
        }
        upper.folder().map_err(|e| self.if_vanished(m, e))
    }

    /// Returns the error of creating an entry in the folder that [`Vfs::copy_up_parents`] returned. In an
    /// overlay, the folder above the entry exists there: if the host does not find it, someone has removed
    /// the run's own folder, and the guest must not go on as if a file were missing.
    pub(super) fn if_vanished(&self, m: usize, error: Errno) -> Errno {
        if error == Errno::NOENT && self.is_overlay(m) { Errno::STALE } else { error }
    }

    fn copy_up_folder(&self, tree: &mut Tree, m: usize, rel: &str) -> Result<(), Errno> {
        let upper = self.copy_up_parents(tree, m, rel)?;
        self.remember_lower(tree, m, rel);
        let (parent, name) = beneath::parent(upper, rel)?;
        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))?;
        tree.overlay_mut(m)
            .upper
            .insert(rel.to_owned(), UpperEntry { folder: true, created: false });
        self.note_copy(tree, m, rel);
        Ok(())
    }

    /// Copies a symlink whose target guests may see: the copy belongs to the guest, and its target
    /// is a guest path.
    fn copy_up_link(&self, tree: &mut Tree, m: usize, rel: &str, stat: &Stat) -> Result<(), Errno> {
        let target = self.link_target(tree, m, rel)?;
        if !target.is_visible(rel) {
            return Err(Errno::PERM);
        }
        let upper = self.copy_up_parents(tree, m, rel)?;
        self.remember_lower(tree, m, rel);
        let bytes = target.text.len() as u64;
        self.quota_of(m).charge_all(bytes)?;
        let copied = beneath::parent(upper, rel).and_then(|(parent, name)| {
            fs::symlinkat(&target.text, &parent, name)?;
            fs::utimensat(&parent, name, &times_of(stat), AtFlags::SYMLINK_NOFOLLOW)
        });
        copied.inspect_err(|e| {
            self.quota_of(m).refund(bytes);
            self.quota_of(m).note_failure(*e);
        })?;
        tree.overlay_mut(m)
            .upper
            .insert(rel.to_owned(), UpperEntry { folder: false, created: false });
        self.note_copy(tree, m, rel);
        Ok(())
    }

    fn copy_up_file(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        stat: &Stat,
        empty: bool,
    ) -> Result<(), Errno> {
        let (parent, name) = beneath::parent(self.lower(m)?, rel)?;
        // A file that is not writable in place is not writable in the overlay either.
        fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)?;
        let from = fs::openat(
            &parent,
            name,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if LowerStamp::of(&fs::fstat(&from)?) != LowerStamp::of(stat) {
            return Err(Errno::BUSY);
        }
        if !empty {
            self.touch(tree, m, rel, stat)?;
        }
        let upper = self.copy_up_parents(tree, m, rel)?;
        self.remember_lower(tree, m, rel);
        let size = if empty { 0 } else { beneath::size(stat) };
        self.quota_of(m).charge_all(size)?;
        let copied = beneath::open(upper, rel, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
            .and_then(|to| {
                fs::fchmod(&to, Mode::from_raw_mode(stat.st_mode & 0o777 | 0o600))?;
                if !empty {
                    copy(&from, &to, size)?;
                    fs::futimens(&to, &times_of(stat))?;
                }
                Ok(())
            });
        if let Err(e) = copied {
            self.quota_of(m).refund(size);
            self.quota_of(m).note_failure(e);
            // Best effort: the copy is not registered, so it is not visible; only a later copy
            // would find its name taken.
            let _ = beneath::parent(upper, rel)
                .and_then(|(parent, name)| fs::unlinkat(&parent, name, AtFlags::empty()));
            return Err(e);
        }
        tree.overlay_mut(m)
            .upper
            .insert(rel.to_owned(), UpperEntry { folder: false, created: false });
        self.note_copy(tree, m, rel);
        Ok(())
    }
}

/// Copies exactly `size` bytes, which is how many were charged.
pub(super) fn copy(from: impl AsFd, to: impl AsFd, size: u64) -> Result<(), Errno> {
    let file = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(std::fs::File::from);
    let copied = file(from.as_fd()).and_then(|from| {
        std::io::copy(&mut std::io::Read::take(from, size), &mut file(to.as_fd())?)
    });
    match copied {
        Ok(count) if count == size => Ok(()),
        // The file shrank during the copy.
        Ok(_) => Err(Errno::BUSY),
        Err(e) => Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
    }
}

pub(super) fn times_of(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
