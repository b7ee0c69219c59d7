//! Permission bits, which WASI has no word for: what `chmod` said in this shell, else what a file
//! of its kind has.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bashkit::Metadata;

/// By path. Another program of the sandbox does not see them.
#[derive(Default)]
pub(super) struct Modes(Mutex<HashMap<PathBuf, u32>>);

impl Modes {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that nobody here could have made executable is taken to be it: the bit was lost on
    /// the way here.
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

    pub(super) fn moved(&self, from: &Path, to: &Path) {
        let mut modes = self.lock();
        match modes.remove(from) {
            Some(mode) => modes.insert(to.to_owned(), mode),
            None => modes.remove(to),
        };
    }

    pub(super) fn copied(&self, from: &Path, to: &Path) {
        let mut modes = self.lock();
        if let Some(mode) = modes.get(from).copied() {
            modes.insert(to.to_owned(), mode);
        }
    }
}
