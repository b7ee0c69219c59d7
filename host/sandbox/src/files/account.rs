//! File usage of an invocation, in total and by path.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use skillhost_policy::outcome::FileActivity;

/// Total file usage of an invocation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileUsage {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Files and folders created, including ones removed since.
    pub files_created: u64,
    /// Bytes by which files have grown and that are still in use, including removed files that are
    /// still open.
    pub disk: u64,
}

/// Usage of one path.
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
