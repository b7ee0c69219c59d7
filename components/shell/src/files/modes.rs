//! Permission bits, which WASI does not have: those set by `chmod` in this shell, otherwise
//! defaults.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bashkit::Metadata;

/// Modes by path. Other programs of the sandbox do not see them.
#[derive(Default)]
pub(super) struct Modes(Mutex<HashMap<PathBuf, u32>>);

impl Modes {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files on read-only mounts count as executable: their bit was lost, and no command could set
    /// it.
    pub(super) fn apply(&self, path: &Path, mut found: Metadata, writable: bool) -> Metadata {
        if let Some(mode) = self.lock().get(path) {
            found.mode = mode & 0o7777;
        } else if found.file_type.is_file() && !writable {
            found.mode = 0o755;
        }
        found
    }

    pub(super) fn set(&self, path: &Path, mode: u32) {
        self.lock().insert(path.to_owned(), mode);
    }

    pub(super) fn forget(&self, path: &Path) {
        self.lock().remove(path);
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) {
        let mut modes = self.lock();
        match modes.remove(from) {
            Some(mode) => modes.insert(to.to_owned(), mode),
            None => modes.remove(to),
        };
    }

    pub(super) fn copy(&self, from: &Path, to: &Path) {
        let mut modes = self.lock();
        if let Some(mode) = modes.get(from).copied() {
            modes.insert(to.to_owned(), mode);
        }
    }
}
