//! What an invocation did with files, in all and path by path.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use skillhost_policy::outcome::FileActivity;

/// What an invocation did with files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileUsage {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Files and folders created, those since removed included.
    pub files_created: u64,
    /// Bytes that files have grown by and still take, handles of removed files included.
    pub disk: u64,
}

/// What happened to one path.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) read: AtomicU64,
    pub(super) written: AtomicU64,
    resized: AtomicBool,
    created: AtomicBool,
    removed: AtomicBool,
}

impl Account {
    pub(super) fn note_resized(&self) {
        self.resized.store(true, Relaxed);
    }

    pub(super) fn note_created(&self) {
        self.created.store(true, Relaxed);
    }

    pub(super) fn note_removed(&self) {
        self.removed.store(true, Relaxed);
    }

    pub(super) fn snapshot(&self) -> FileActivity {
        FileActivity {
            read: self.read.load(Relaxed),
            written: self.written.load(Relaxed),
            resized: self.resized.load(Relaxed),
            created: self.created.load(Relaxed),
            removed: self.removed.load(Relaxed),
        }
    }
}
