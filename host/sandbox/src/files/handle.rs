//! What a guest's descriptor stands for, and reading and writing through it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{self, FileType};
use rustix::io::{self, Errno};

use super::account::Account;
use super::lock;
use super::quota::{Body, Ledger, Ticket};
use super::root::Device;
use super::times::{Key, Times};

/// A guest's descriptor.
///
/// A folder is a path, not a host handle: what is below it is looked up, and checked, anew each
/// time. A folder renamed under its descriptor is therefore gone for it.
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
    pub(super) _ticket: Ticket,
}

/// An open file. In an overlay, a handle opened before the first change to its file goes on reading
/// the file as it was.
#[derive(Debug)]
pub struct OpenFile {
    pub(super) mount: usize,
    pub(super) rel: String,
    pub(super) read: bool,
    pub(super) write: bool,
    /// What it is, where it is no file.
    pub(super) device: Option<Device>,
    /// In writable storage alone. Before `fd`, so that it is dropped first: an inode number is free
    /// only once its body is forgotten.
    pub(super) body: Option<Arc<Body>>,
    pub(super) fd: OwnedFd,
    /// Whether it outlives the invocation, and so is worth a sync.
    pub(super) durable: bool,
    pub(super) account: Arc<Account>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) times: Option<(Arc<Times>, Key)>,
    pub(super) _ticket: Ticket,
}

impl Handle {
    /// The mount's index and the canonical path in it.
    pub(super) fn place(&self) -> (usize, &str) {
        match self {
            Handle::Folder(folder) => (folder.mount, &folder.rel),
            Handle::File(file) => (file.mount, &file.rel),
        }
    }

    /// Whether two descriptors stand for the same file or folder.
    pub fn is_same(&self, other: &Handle) -> bool {
        self.place() == other.place()
    }

    /// The file.
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
    /// What guests are told that it is.
    pub fn kind(&self) -> FileType {
        if self.device.is_some() { FileType::CharacterDevice } else { FileType::RegularFile }
    }

    /// Whether it may be read.
    pub fn readable(&self) -> bool {
        self.read
    }

    /// Whether it may be written.
    pub fn writable(&self) -> bool {
        self.write
    }

    /// Reads at `offset`; 0 bytes at the end.
    ///
    /// # Errors
    /// `BADF` where it is not open for reading; the host's own.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if !self.read {
            return Err(Errno::BADF);
        }
        if let Some(device) = &self.device {
            return device.read(buffer);
        }
        let count = io::retry_on_intr(|| io::pread(&self.fd, &mut *buffer, offset))
            .inspect_err(|e| self.ledger.note_failure(*e))?;
        self.ledger.count_read(&self.account, count);
        Ok(count)
    }

    /// Writes at `offset`, at the end for `None`: as much as the quota lets in, which may be less
    /// than all.
    ///
    /// # Errors
    /// `NOSPC` where the quota lets nothing in; `BADF` where it is not open for writing; the host's
    /// own.
    pub fn write_at(&self, bytes: &[u8], offset: Option<u64>) -> Result<usize, Errno> {
        if self.device.is_some() {
            return if self.write { Ok(bytes.len()) } else { Err(Errno::BADF) };
        }
        let mut state = lock(&self.writable_body()?.state);
        let offset = offset.unwrap_or(state.size);
        let end = offset
            .checked_add(bytes.len() as u64)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or(Errno::FBIG)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let growth = end.saturating_sub(state.size);
        let granted = if growth > 0 { self.ledger.charge(growth) } else { 0 };
        // What is denied is denied from the end; a gap before `offset` is part of the growth.
        let denied = usize::try_from(growth - granted).unwrap_or(usize::MAX);
        let count = bytes.len().saturating_sub(denied);
        if count == 0 {
            self.ledger.refund(granted);
            return Err(Errno::NOSPC);
        }
        match io::retry_on_intr(|| io::pwrite(&self.fd, &bytes[..count], offset)) {
            Ok(written) => {
                let size = state.size.max(offset + written as u64);
                self.ledger.refund(granted - (size - state.size));
                state.size = size;
                self.ledger.count_written(&self.account, written);
                self.note_change();
                Ok(written)
            }
            Err(e) => {
                self.ledger.refund(granted);
                self.ledger.note_failure(e);
                Err(e)
            }
        }
    }

    /// Bytes that a write at `offset` (`None`: at the end) can place before the quota stops it.
    pub fn room(&self, offset: Option<u64>) -> u64 {
        if self.device.is_some() {
            return u64::MAX;
        }
        let Some(body) = &self.body else { return 0 };
        let size = lock(&body.state).size;
        let left = self.ledger.bytes_left();
        let offset = offset.unwrap_or(size);
        if offset < size {
            left.saturating_add(size - offset)
        } else {
            left.saturating_sub(offset - size)
        }
    }

    /// The error of a write that finds no room, which is a limit hit.
    pub fn no_room(&self) -> Errno {
        self.ledger.note_full();
        Errno::NOSPC
    }

    /// Cuts the file, or extends it with zeros, which count like any bytes.
    ///
    /// # Errors
    /// `NOSPC` over the quota; `BADF` where it is not open for writing; the host's own.
    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        if self.device.is_some() {
            return if self.write { Ok(()) } else { Err(Errno::BADF) };
        }
        let mut state = lock(&self.writable_body()?.state);
        let growth = size.saturating_sub(state.size);
        self.ledger.charge_all(growth)?;
        if let Err(e) = fs::ftruncate(&self.fd, size) {
            self.ledger.refund(growth);
            self.ledger.note_failure(e);
            return Err(e);
        }
        self.ledger.refund(state.size.saturating_sub(size));
        state.size = size;
        self.account.note_resized();
        self.note_change();
        Ok(())
    }

    /// Waits until what was written is on the disk; nothing to wait for where the file goes with
    /// the invocation. Blocks.
    ///
    /// # Errors
    /// The host's own.
    pub fn sync(&self) -> Result<(), Errno> {
        if self.durable && self.write { fs::fdatasync(&self.fd) } else { Ok(()) }
    }

    /// Notes that its content has changed.
    pub(super) fn note_change(&self) {
        if let Some((times, key)) = &self.times {
            times.changed(*key);
        }
    }

    fn writable_body(&self) -> Result<&Body, Errno> {
        self.body.as_deref().filter(|_| self.write).ok_or(Errno::BADF)
    }
}
