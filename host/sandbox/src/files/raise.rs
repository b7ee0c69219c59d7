//! Copying up: what is about to be changed in an overlay, with the folders above it, is made in the
//! upper folder first.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{self, Access, AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::overlay::{Raised, Seen, Tree};
use super::{Vfs, beneath};

impl Vfs {
    /// Copies a file or makes a folder in the upper folder before it is changed; the copy is
    /// charged. `empty`: it will be cut anyway.
    pub(super) fn raise(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        empty: bool,
    ) -> Result<(), Errno> {
        if self.upper(m).is_none() || tree.overlay(m).up.contains_key(rel) {
            return Ok(());
        }
        let stat = self.lstat(tree, m, rel)?;
        match beneath::kind(&stat) {
            FileType::RegularFile => self.raise_file(tree, m, rel, &stat, empty),
            FileType::Directory => self.raise_folder(tree, m, rel),
            FileType::Symlink => Err(Errno::LOOP),
            _ => Err(Errno::ACCESS),
        }
    }

    /// Makes the folders above `rel` exist in the upper folder, and says in which folder a new
    /// `rel` goes.
    pub(super) fn raise_parents(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
    ) -> Result<BorrowedFd<'_>, Errno> {
        let Some(upper) = self.upper(m) else { return self.lower(m) };
        for folder in beneath::ancestors(rel) {
            match tree.overlay(m).up.get(folder) {
                Some(raised) if raised.folder => {}
                Some(_) => return Err(Errno::NOTDIR),
                None => match beneath::kind(&self.lstat(tree, m, folder)?) {
                    FileType::Directory => self.raise_folder(tree, m, folder)?,
                    FileType::Symlink => return Err(Errno::LOOP),
                    _ => return Err(Errno::NOTDIR),
                },
            }
        }
        upper.folder()
    }

    fn raise_folder(&self, tree: &mut Tree, m: usize, rel: &str) -> Result<(), Errno> {
        let upper = self.raise_parents(tree, m, rel)?;
        self.remember(tree, m, rel);
        let (parent, name) = beneath::parent(upper, rel)?;
        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))?;
        tree.overlay_mut(m).up.insert(rel.to_owned(), Raised { folder: true, created: false });
        self.note_copy(tree, m, rel);
        Ok(())
    }

    fn raise_file(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        stat: &Stat,
        empty: bool,
    ) -> Result<(), Errno> {
        let (parent, name) = beneath::parent(self.lower(m)?, rel)?;
        // What could not be written in place cannot be written here.
        fs::accessat(&parent, name, Access::WRITE_OK, AtFlags::EACCESS)?;
        let from = fs::openat(
            &parent,
            name,
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        if Seen::of(&fs::fstat(&from)?) != Seen::of(stat) {
            return Err(Errno::BUSY);
        }
        if !empty {
            self.touch(tree, m, rel, stat)?;
        }
        let upper = self.raise_parents(tree, m, rel)?;
        self.remember(tree, m, rel);
        let size = if empty { 0 } else { beneath::size(stat) };
        self.ledger.charge_all(size)?;
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
            self.ledger.refund(size);
            self.ledger.note_failure(e);
            // Best effort: the copy is not booked, and so not there; only a later copy would find
            // its name taken.
            let _ = beneath::parent(upper, rel)
                .and_then(|(parent, name)| fs::unlinkat(&parent, name, AtFlags::empty()));
            return Err(e);
        }
        tree.overlay_mut(m).up.insert(rel.to_owned(), Raised { folder: false, created: false });
        self.note_copy(tree, m, rel);
        Ok(())
    }
}

/// Copies exactly `size` bytes: as many as were charged.
pub(super) fn copy(from: impl AsFd, to: impl AsFd, size: u64) -> Result<(), Errno> {
    let file = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(std::fs::File::from);
    let copied = file(from.as_fd()).and_then(|from| {
        std::io::copy(&mut std::io::Read::take(from, size), &mut file(to.as_fd())?)
    });
    match copied {
        Ok(count) if count == size => Ok(()),
        // The file shrank while it was read.
        Ok(_) => Err(Errno::BUSY),
        Err(e) => Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
    }
}

fn times_of(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}
