//! Permission bits, which WASI does not have: those set by `chmod` in this run, otherwise defaults.

use std::io;
use std::path::Path;

use bashkit::Metadata;

use super::mounts::normalize;
use crate::bindings::skillhost::files::modes;

/// Replaces the default bits of a file. Files on read-only mounts count as executable: their bit was
/// lost.
pub(super) fn apply(path: &Path, mut found: Metadata, writable: bool, follow: bool) -> Metadata {
    let set = modes::any().then(|| modes::get(&text(path), follow)).flatten();
    if let Some(mode) = set {
        found.mode = mode;
    } else if found.file_type.is_file() && !writable {
        found.mode = 0o755;
    }
    found
}

/// Sets the bits of a file that exists, for all programs of the run.
///
/// # Errors
/// Too many files have bits of their own.
pub(super) fn set(path: &Path, mode: u32) -> io::Result<()> {
    modes::set(&text(path), mode, true).map_err(|()| io::ErrorKind::StorageFull.into())
}

/// Gives a copy the bits of its original.
pub(super) fn copy(from: &Path, to: &Path) {
    if let Some(mode) = modes::any().then(|| modes::get(&text(from), true)).flatten() {
        // The copy exists, even if its bits cannot be kept.
        set(to, mode).ok();
    }
}

fn text(path: &Path) -> String {
    normalize(path).to_string_lossy().into_owned()
}
