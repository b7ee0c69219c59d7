//! Caches the most recent lookup. A libc asks for a file's metadata and then for its metadata hash,
//! and asks for the hash of each entry that it lists; looking up the same name again would cost
//! three more system calls.
//!
//! wasi-libc asks for the hash without following a symlink, even after `stat`, which follows. Both
//! find the same entry unless the name is a symlink.

use super::handle::Handle;
use super::{Vfs, beneath, lock};

/// A lookup as the guest requested it, and the guest path that it found.
#[derive(Debug)]
pub(super) struct LastLookup {
    mount: usize,
    rel: String,
    name: String,
    follow: bool,
    /// The guest path of what was found.
    path: String,
}

impl Vfs {
    /// Remembers what was found at `name` below an open folder, replacing the previous lookup.
    pub(super) fn remember_lookup(
        &self,
        mount: usize,
        rel: &str,
        name: &str,
        follow: bool,
        path: String,
    ) {
        *lock(&self.last_lookup) =
            Some(LastLookup { mount, rel: rel.to_owned(), name: name.to_owned(), follow, path });
    }

    /// Returns the guest path of `name` if the previous lookup was the same, and forgets it.
    pub(super) fn take_lookup(&self, base: &Handle, name: &str, follow: bool) -> Option<String> {
        let (mount, rel) = base.location();
        let last = lock(&self.last_lookup).take()?;
        // At the path as it was written, without a symlink, `follow` made no difference.
        let literal = || {
            let written = self.mounts[mount].guest_path(&beneath::join(rel, name));
            last.follow && last.path == written
        };
        let same = last.mount == mount
            && last.rel == rel
            && last.name == name
            && (last.follow == follow || literal());
        same.then_some(last.path)
    }

    /// Forgets the previous lookup, before any other operation on a name.
    pub(super) fn forget_lookup(&self) {
        *lock(&self.last_lookup) = None;
    }
}
