//! Asking for and setting metadata, reading links, identity.

use rustix::fs::{self, AtFlags, FileType, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::access::Attempt;
use super::handle::Handle;
use super::overlay::Tree;
use super::path::{At, climbs_out};
use super::{Vfs, beneath, lock};
use skillhost_policy::capabilities::PathAccess;

/// What guests learn of a file. The number of links is always 1, the size of a folder 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, folder, symlink or something else.
    pub kind: FileType,
    /// Bytes.
    pub size: u64,
    /// Last access: seconds and nanoseconds since 1970.
    pub accessed: (i64, u32),
    /// Last write, likewise.
    pub modified: (i64, u32),
    /// Last change of the metadata, likewise.
    pub changed: (i64, u32),
}

/// What becomes of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// It stays.
    Keep,
    /// The host's time.
    Now,
    /// Seconds and nanoseconds (below 1,000,000,000) since 1970.
    At(i64, u32),
}

impl Vfs {
    /// The metadata of an open file or folder.
    ///
    /// # Errors
    /// `NOENT` for a folder that is gone; the host's own.
    pub fn stat(&self, handle: &Handle) -> Result<Metadata, Errno> {
        match handle {
            Handle::File(file) => {
                let stat = fs::fstat(&file.fd)?;
                Ok(self.timed(Metadata { kind: file.kind(), ..metadata(&stat) }, &stat))
            }
            Handle::Folder(folder) => {
                let stat = self.look(&lock(&self.tree), folder.mount, &folder.rel)?;
                Ok(self.timed(metadata(&stat), &stat))
            }
        }
    }

    /// The metadata of `path` below the folder `base`.
    ///
    /// # Errors
    /// `NOENT` for what is not there or not visible; else as `fstatat`.
    pub fn stat_at(&self, base: &Handle, path: &str, follow: bool) -> Result<Metadata, Errno> {
        let (found, guest_path) = self.seen(base, path, follow, |at, guest_path, stat| {
            let found = self.timed(metadata(stat), stat);
            (Metadata { kind: self.shown_kind(at.m, at.rel, found.kind), ..found }, guest_path)
        })?;
        let (mount, rel) = base.place();
        self.note_shown(mount, rel, path, follow, guest_path);
        Ok(found)
    }

    /// 128 bits that stand for an open file or folder: a digest of its guest path, the same on
    /// every machine and in every run.
    pub fn metadata_hash(&self, handle: &Handle) -> (u64, u64) {
        let (m, rel) = handle.place();
        hash(&self.mounts[m].guest_path(rel))
    }

    /// The same of `path` below the folder `base`.
    ///
    /// # Errors
    /// As [`Vfs::stat_at`].
    pub fn metadata_hash_at(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
    ) -> Result<(u64, u64), Errno> {
        match self.take_shown(base, path, follow) {
            Some(guest_path) => Ok(hash(&guest_path)),
            None => self.seen(base, path, follow, |_, guest_path, _| hash(&guest_path)),
        }
    }

    /// Where the symlink `path` points, relative to its folder.
    ///
    /// # Errors
    /// `INVAL` where it is no symlink; `PERM` where its target is outside the mount, and so a host
    /// path; `NOENT` as ever.
    pub fn read_link(&self, base: &Handle, path: &str) -> Result<String, Errno> {
        let mut tree = lock(&self.tree);
        self.resolve(&mut tree, base, path, false, |tree, at| {
            self.look(tree, at.m, at.rel)?;
            let target = self.link_target(tree, at.m, at.rel)?;
            if climbs_out(at.rel, &target) { Err(Errno::PERM) } else { Ok(target) }
        })
    }

    /// Sets the times of an open file or folder, for which a handle opened for reading will do if
    /// the rules let its path be written.
    ///
    /// # Errors
    /// `ACCESS`, `ROFS`, `PERM` as for writing; `INVAL` for nanoseconds out of range.
    pub fn set_times(
        &self,
        handle: &Handle,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), Errno> {
        let (accessed, modified) = (self.timely(accessed), self.timely(modified));
        let times = timestamps(accessed, modified)?;
        let (m, rel) = handle.place();
        self.check_write(&lock(&self.tree), m, rel, Attempt::Change)?;
        match handle {
            // In writable storage: the handle serves even if the name is gone.
            Handle::File(file) if file.body.is_some() => {
                let stat = fs::fstat(&file.fd)?;
                self.check_links(m, rel, &stat)?;
                fs::futimens(&file.fd, &times)?;
                self.note_times(&stat, accessed, modified);
                Ok(())
            }
            _ => self.set_times_of(&mut lock(&self.tree), m, rel, &times, (accessed, modified)),
        }
    }

    /// Sets the times of `path` below the folder `base`. A symlink's own times cannot be set.
    ///
    /// # Errors
    /// As [`Vfs::set_times`].
    pub fn set_times_at(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), Errno> {
        let (accessed, modified) = (self.timely(accessed), self.timely(modified));
        let times = timestamps(accessed, modified)?;
        let mut tree = lock(&self.tree);
        self.resolve(&mut tree, base, path, follow, |tree, at| {
            let stat = self.look(tree, at.m, at.rel)?;
            if beneath::kind(&stat) == FileType::Symlink {
                return Err(Errno::LOOP);
            }
            self.check_write(tree, at.m, at.rel, Attempt::Change)?;
            self.set_times_of(tree, at.m, at.rel, &times, (accessed, modified))
        })
    }

    fn set_times_of(
        &self,
        tree: &mut Tree,
        m: usize,
        rel: &str,
        times: &Timestamps,
        new: (NewTime, NewTime),
    ) -> Result<(), Errno> {
        if rel.is_empty() {
            // The mount itself is the host's.
            return Err(Errno::PERM);
        }
        self.check_links(m, rel, &self.lstat(tree, m, rel)?)?;
        self.raise(tree, m, rel, false)?;
        let (parent, name) = beneath::parent(self.storage(tree, m, rel)?, rel)?;
        fs::utimensat(&parent, name, times, AtFlags::SYMLINK_NOFOLLOW)?;
        self.note_times(&self.lstat(tree, m, rel)?, new.0, new.1);
        Ok(())
    }

    /// The times of a file belong to all its names; an overlay's copy has one.
    fn check_links(&self, m: usize, rel: &str, stat: &Stat) -> Result<(), Errno> {
        let shared = beneath::kind(stat) != FileType::Directory && stat.st_nlink > 1;
        if !shared || self.is_overlay(m) {
            return Ok(());
        }
        self.refuse_kind(m, rel, Attempt::Change, "the file has several names (hard links)");
        Err(Errno::PERM)
    }

    /// Runs `get` on the guest path and the metadata of a visible path.
    fn seen<T>(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
        get: impl Fn(At<'_>, String, &Stat) -> T,
    ) -> Result<T, Errno> {
        let mut tree = lock(&self.tree);
        self.resolve(&mut tree, base, path, follow, |tree, at| {
            let stat = self.look(tree, at.m, at.rel)?;
            match beneath::kind(&stat) {
                FileType::Symlink if follow || at.folder => Err(Errno::LOOP),
                FileType::Directory => Ok(get(at, self.mounts[at.m].guest_path(at.rel), &stat)),
                _ if at.folder => Err(Errno::NOTDIR),
                _ => Ok(get(at, self.mounts[at.m].guest_path(at.rel), &stat)),
            }
        })
    }

    /// Whether an open folder's descriptor should say that entries may be changed: where the mount
    /// can be written at all.
    pub fn is_mutable(&self, handle: &Handle) -> bool {
        let (m, rel) = handle.place();
        let read_only = matches!(self.mounts[m].layer, super::mount::Layer::ReadOnly);
        !read_only && self.access(m, rel) != PathAccess::None
    }
}

fn metadata(stat: &Stat) -> Metadata {
    let kind = beneath::kind(stat);
    let time = |seconds, nanoseconds| (seconds, u32::try_from(nanoseconds).unwrap_or(0));
    Metadata {
        kind,
        size: if kind == FileType::Directory { 0 } else { beneath::size(stat) },
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

fn hash(path: &str) -> (u64, u64) {
    let digest = Sha256::digest(path.as_bytes());
    let half = |from: usize| {
        digest[from..from + 8].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    (half(0), half(8))
}

fn timestamps(accessed: NewTime, modified: NewTime) -> Result<Timestamps, Errno> {
    let spec = |time| match time {
        NewTime::Keep => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        NewTime::Now => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        // The two constants above are numbers out of this range.
        NewTime::At(_, nanoseconds) if nanoseconds >= 1_000_000_000 => Err(Errno::INVAL),
        NewTime::At(seconds, nanoseconds) => {
            Ok(Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() })
        }
    };
    Ok(Timestamps { last_access: spec(accessed)?, last_modification: spec(modified)? })
}
