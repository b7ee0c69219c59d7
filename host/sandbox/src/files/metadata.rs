//! Reads and sets metadata, and identifies entries.

use rustix::fs::{self, AtFlags, FileType, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::handle::Handle;
use super::overlay::Tree;
use super::path::Location;
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;

/// The metadata that guests see. The number of links is always 1, and the size of a folder 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// The file type.
    pub kind: FileType,
    /// Bytes.
    pub size: u64,
    /// Last access, in seconds and nanoseconds since 1970.
    pub accessed: (i64, u32),
    /// Last write.
    pub modified: (i64, u32),
    /// Last change of the metadata.
    pub changed: (i64, u32),
}

/// The new value of a file time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// Unchanged.
    BlobStore,
    /// The current time.
    Now,
    /// Seconds and nanoseconds (below 1,000,000,000) since 1970.
    At(i64, u32),
}

impl Vfs {
    /// Returns the metadata of an open file or folder.
    ///
    /// # Errors
    /// `NOENT` for a folder that no longer exists; otherwise the host's error.
    pub fn stat(&self, handle: &Handle) -> Result<Metadata, Errno> {
        match handle {
            Handle::File(file) => {
                let stat = fs::fstat(&file.fd)?;
                Ok(self.with_run_times(Metadata { kind: file.kind(), ..metadata(&stat) }, &stat))
            }
            Handle::Folder(folder) => {
                let stat = self.look(&self.tree(), folder.mount, &folder.rel)?;
                Ok(self.with_run_times(metadata(&stat), &stat))
            }
        }
    }

    /// Returns the metadata of `path` below the folder `base`.
    ///
    /// # Errors
    /// `NOENT` for an entry that does not exist or is not visible; otherwise as for `fstatat`.
    pub fn stat_at(&self, base: &Handle, path: &str, follow: bool) -> Result<Metadata, Errno> {
        if let Some(known) = self.take_metadata(base, path, follow) {
            return Ok(known);
        }
        let (metadata, guest_path) = self.metadata_at(base, path, follow)?;
        let (mount, rel) = base.location();
        self.remember_lookup(mount, rel, path, follow, guest_path, None);
        Ok(metadata)
    }

    fn metadata_at(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
    ) -> Result<(Metadata, String), Errno> {
        self.look_up(base, path, follow, |at, guest_path, stat| {
            let metadata = self.with_run_times(metadata(stat), stat);
            let kind = self.guest_kind(at.m, at.rel, metadata.kind);
            (Metadata { kind, ..metadata }, guest_path)
        })
    }

    /// Returns 128 bits that identify an open file or folder: a digest of its guest path, which is
    /// the same on every machine and in every run.
    pub fn metadata_hash(&self, handle: &Handle) -> (u64, u64) {
        let (m, rel) = handle.location();
        hash(&self.mounts[m].guest_path(rel))
    }

    /// Returns the identifying bits of `path` below the folder `base`.
    ///
    /// # Errors
    /// As for [`Vfs::stat_at`].
    pub fn metadata_hash_at(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
    ) -> Result<(u64, u64), Errno> {
        if let Some(guest_path) = self.take_lookup(base, path, follow) {
            return Ok(hash(&guest_path));
        }
        let (metadata, guest_path) = self.metadata_at(base, path, follow)?;
        let number = hash(&guest_path);
        let (mount, rel) = base.location();
        self.remember_lookup(mount, rel, path, follow, guest_path, Some(metadata));
        Ok(number)
    }

    /// Sets the times of an open file or folder. A handle opened for reading suffices if the rules
    /// allow writing to its path.
    ///
    /// # Errors
    /// `ACCESS`, `ROFS`, `PERM` as for writing; `INVAL` for nanoseconds out of range.
    pub fn set_times(
        &self,
        handle: &Handle,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), Errno> {
        let (accessed, modified) = (self.to_run_time(accessed), self.to_run_time(modified));
        let times = timestamps(accessed, modified)?;
        self.forget_lookup();
        let (m, rel) = handle.location();
        self.check_write(&self.tree(), m, rel, Attempt::Change)?;
        match handle {
            // In writable storage: the handle works even if the name is gone.
            Handle::File(file) if file.inode.is_some() => {
                let stat = fs::fstat(&file.fd)?;
                self.check_links(m, rel, &stat)?;
                fs::futimens(&file.fd, &times)?;
                self.note_times(&stat, accessed, modified);
                Ok(())
            }
            _ => self.set_times_of(&mut self.tree(), m, rel, &times, (accessed, modified)),
        }
    }

    /// Sets the times of `path` below the folder `base`. The times of a symlink itself can be set
    /// where guests may create symlinks.
    ///
    /// # Errors
    /// As for [`Vfs::set_times`].
    pub fn set_times_at(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
        accessed: NewTime,
        modified: NewTime,
    ) -> Result<(), Errno> {
        let (accessed, modified) = (self.to_run_time(accessed), self.to_run_time(modified));
        let times = timestamps(accessed, modified)?;
        let mut tree = self.tree();
        self.resolve(&mut tree, base, path, follow, |tree, at| {
            let stat = self.look(tree, at.m, at.rel)?;
            let is_link = beneath::kind(&stat) == FileType::Symlink;
            if is_link && (follow || at.folder || !self.may_change_links(at.m)) {
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
            // The mount's own folder belongs to the host.
            return Err(Errno::PERM);
        }
        self.check_links(m, rel, &self.lstat(tree, m, rel)?)?;
        self.copy_up(tree, m, rel, false)?;
        let (parent, name) = beneath::parent(self.storage(tree, m, rel)?, rel)?;
        fs::utimensat(&parent, name, times, AtFlags::SYMLINK_NOFOLLOW)?;
        self.note_times(&self.lstat(tree, m, rel)?, new.0, new.1);
        Ok(())
    }

    /// Refuses to set times that other names of the file share. An overlay's copy has one name.
    fn check_links(&self, m: usize, rel: &str, stat: &Stat) -> Result<(), Errno> {
        let shared = beneath::kind(stat) != FileType::Directory && stat.st_nlink > 1;
        if !shared || self.is_overlay(m) {
            return Ok(());
        }
        self.refuse_kind(m, rel, Attempt::Change, "the file has more than one name (hard links)");
        Err(Errno::PERM)
    }

    /// Calls `get` with the guest path and the metadata of a visible path.
    fn look_up<T>(
        &self,
        base: &Handle,
        path: &str,
        follow: bool,
        get: impl Fn(Location<'_>, String, &Stat) -> T,
    ) -> Result<T, Errno> {
        let mut tree = self.tree();
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

    /// Checks whether an open folder's descriptor should say that its entries can be changed: only
    /// in a mount that can be written at all.
    pub fn is_mutable(&self, handle: &Handle) -> bool {
        let (m, rel) = handle.location();
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
        NewTime::BlobStore => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        NewTime::Now => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        // UTIME_OMIT and UTIME_NOW are numbers outside this range.
        NewTime::At(_, nanoseconds) if nanoseconds >= 1_000_000_000 => Err(Errno::INVAL),
        NewTime::At(seconds, nanoseconds) => {
            Ok(Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() })
        }
    };
    Ok(Timestamps { last_access: spec(accessed)?, last_modification: spec(modified)? })
}
