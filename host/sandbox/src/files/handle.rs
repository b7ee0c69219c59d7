//! Guest descriptors, and reading and writing through them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, FileType};
use rustix::io::{self, Errno};

use super::account::Account;
use super::lock;
use super::quota::{HandleSlot, Inode, Quota};
use super::root::Device;
use super::times::{Key, Times};
use super::watch::ChangeLog;
use skillhost_policy::outcome::ChangeKind;

/// A guest's descriptor.
///
/// A folder is a path, not a host handle: entries below it are looked up and checked each time. If
/// the folder is renamed, the descriptor no longer finds it.
#[derive(Debug, Clone)]
pub enum Handle {
    /// A folder.
    Folder(Arc<OpenFolder>),
    /// A file.
    File(Arc<OpenFile>),
}

/// An open folder.
#[derive(Debug)]
pub struct OpenFolder {
    pub(super) mount: usize,
    pub(super) rel: String,
    pub(super) _slot: HandleSlot,
}

/// An open file. In an overlay, a handle that was opened before the file's first change keeps
/// reading the original.
#[derive(Debug)]
pub struct OpenFile {
    pub(super) mount: usize,
    pub(super) rel: String,
    pub(super) read: bool,
    pub(super) write: bool,
    /// The device, if this is not a regular file.
    pub(super) device: Option<Device>,
    /// Only for files in writable storage. Declared before `fd` so that it is dropped first: the
    /// inode number may be reused as soon as `fd` is closed.
    pub(super) inode: Option<Arc<Inode>>,
    pub(super) fd: OwnedFd,
    /// Whether the file outlives the invocation, so that `sync` has an effect.
    pub(super) durable: bool,
    pub(super) account: Arc<Account>,
    pub(super) quota: Arc<Quota>,
    /// Where changes are announced, in the workspace of a session.
    pub(super) log: Option<Arc<ChangeLog>>,
    pub(super) times: Option<(Arc<Times>, Key)>,
    pub(super) _slot: HandleSlot,
}

impl Handle {
    /// Returns the mount's index and the canonical path in it.
    pub(super) fn location(&self) -> (usize, &str) {
        match self {
            Handle::Folder(folder) => (folder.mount, &folder.rel),
            Handle::File(file) => (file.mount, &file.rel),
        }
    }

    /// Checks whether two descriptors refer to the same file or folder.
    pub fn is_same(&self, other: &Handle) -> bool {
        self.location() == other.location()
    }

    /// Returns the file.
    ///
    /// # Errors
    /// `ISDIR` for a folder.
    pub fn file(&self) -> Result<&Arc<OpenFile>, Errno> {
        match self {
            Handle::File(file) => Ok(file),
            Handle::Folder(_) => Err(Errno::ISDIR),
        }
    }
}

impl OpenFile {
    /// Returns the file type that guests see.
    pub fn kind(&self) -> FileType {
        if self.device.is_some() { FileType::CharacterDevice } else { FileType::RegularFile }
    }

    /// Returns the permission bits of the file on the host.
    pub fn mode(&self) -> u32 {
        fs::fstat(&self.fd).map_or(0o644, |stat| stat.st_mode & 0o777)
    }

    /// Whether the handle is open for reading.
    pub fn readable(&self) -> bool {
        self.read
    }

    /// Whether the handle is open for writing.
    pub fn writable(&self) -> bool {
        self.write
    }

    /// Reads at `offset`; returns 0 at the end of the file.
    ///
    /// # Errors
    /// `BADF` if the handle is not open for reading; otherwise the host's error.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if !self.read {
            return Err(Errno::BADF);
        }
        if let Some(device) = &self.device {
            return device.read(buffer);
        }
        let count = io::retry_on_intr(|| io::pread(&self.fd, &mut *buffer, offset))
            .inspect_err(|e| self.quota.note_failure(*e))?;
        self.quota.count_read(&self.account, count);
        Ok(count)
    }

    /// Writes at `offset`, or at the end for `None`. Writes as much as the quota permits, which may
    /// be less than all.
    ///
    /// # Errors
    /// `NOSPC` if the quota permits nothing; `BADF` if the handle is not open for writing;
    /// otherwise the host's error.
    pub fn write_at(&self, bytes: &[u8], offset: Option<u64>) -> Result<usize, Errno> {
        if self.device.is_some() {
            return if self.write { Ok(bytes.len()) } else { Err(Errno::BADF) };
        }
        let mut state = lock(&self.writable_inode()?.state);
        let offset = offset.unwrap_or(state.size);
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or(Errno::FBIG)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let growth = end.saturating_sub(state.size);
        let granted = if growth > 0 { self.quota.charge(growth) } else { 0 };
        // The end of the buffer is what does not fit; a gap before `offset` counts as growth.
        let excess = usize::try_from(growth - granted).unwrap_or(usize::MAX);
        let count = bytes.len().saturating_sub(excess);
        if count == 0 {
            self.quota.refund(granted);
            return Err(Errno::NOSPC);
        }
        match io::retry_on_intr(|| io::pwrite(&self.fd, &bytes[..count], offset)) {
            Ok(written) => {
                let size = state.size.max(offset + written as u64);
                self.quota.refund(granted - (size - state.size));
                state.size = size;
                self.quota.count_written(&self.account, written);
                self.note_change();
                Ok(written)
            }
            Err(e) => {
                self.quota.refund(granted);
                self.quota.note_failure(e);
                Err(e)
            }
        }
    }

    /// Returns how many bytes a write at `offset` (`None`: at the end) can add before it reaches
    /// the quota.
    pub fn room(&self, offset: Option<u64>) -> u64 {
        if self.device.is_some() {
            return u64::MAX;
        }
        let Some(inode) = &self.inode else { return 0 };
        let size = lock(&inode.state).size;
        let left = self.quota.bytes_left();
        let offset = offset.unwrap_or(size);
        if offset < size {
            left.saturating_add(size - offset)
        } else {
            left.saturating_sub(offset - size)
        }
    }

    /// Returns the error of a write that does not fit, and notes that the limit was hit.
    pub fn no_room(&self) -> Errno {
        self.quota.note_full();
        Errno::NOSPC
    }

    /// Truncates the file, or extends it with zeros, which count towards the quota.
    ///
    /// # Errors
    /// `NOSPC` if the quota is exceeded; `BADF` if the handle is not open for writing; otherwise
    /// the host's error.
    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        if self.device.is_some() {
            return if self.write { Ok(()) } else { Err(Errno::BADF) };
        }
        let mut state = lock(&self.writable_inode()?.state);
        let growth = size.saturating_sub(state.size);
        self.quota.charge_all(growth)?;
        if let Err(e) = fs::ftruncate(&self.fd, size) {
            self.quota.refund(growth);
            self.quota.note_failure(e);
            return Err(e);
        }
        self.quota.refund(state.size.saturating_sub(size));
        state.size = size;
        self.account.note_resized();
        self.note_change();
        Ok(())
    }

    /// Waits until written data is on disk. Returns at once if the file does not outlive the
    /// invocation. Blocks.
    ///
    /// # Errors
    /// The host's error.
    pub fn sync(&self) -> Result<(), Errno> {
        if self.durable && self.write { fs::fdatasync(&self.fd) } else { Ok(()) }
    }

    /// Notes that the content has changed.
    pub(super) fn note_change(&self) {
        self.quota.note_change();
        if let Some(log) = &self.log {
            log.add(&self.rel, ChangeKind::Changed);
        }
        if let Some((times, key)) = &self.times {
            times.changed(*key);
        }
    }

    fn writable_inode(&self) -> Result<&Inode, Errno> {
        self.inode.as_deref().filter(|_| self.write).ok_or(Errno::BADF)
    }
}
