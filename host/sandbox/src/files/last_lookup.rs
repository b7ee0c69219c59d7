//! Caches the most recent lookup. A libc asks for a file's metadata and its metadata hash, in either
//! order, and asks for the hash of each entry that it lists; looking up the same name again would
//! cost three more system calls.
//!
//! wasi-libc asks for the hash without following a symlink, even for `stat`, which follows. Both
//! find the same entry unless the name is a symlink.
//!
//! Metadata is reused only immediately: neither after the run has changed a file, nor a moment
//! later, when another process may have changed it.

use std::time::{Duration, Instant};

use rustix::fs::FileType;

use super::handle::Handle;
use super::metadata::Metadata;
use super::quota::Quota;
use super::{Vfs, beneath, lock};

/// How long metadata is reused. A guest's two calls are microseconds apart.
const FRESH: Duration = Duration::from_millis(1);

/// A lookup as the guest requested it, and the guest path that it found.
#[derive(Debug)]
pub(super) struct LastLookup {
    mount: usize,
    rel: String,
    name: String,
    follow: bool,
    /// The guest path of what was found.
    path: String,
    found: Option<Found>,
}

/// Metadata that was found, when, and the changes to files until then.
#[derive(Debug)]
struct Found {
    metadata: Metadata,
    at: Instant,
    changes: u64,
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
        metadata: Option<Metadata>,
    ) {
        let found = metadata.map(|metadata| Found {
            metadata,
            at: Instant::now(),
            changes: self.content_changes(),
        });
        let (rel, name) = (rel.to_owned(), name.to_owned());
        *lock(&self.last_lookup) = Some(LastLookup { mount, rel, name, follow, path, found });
    }

    /// Returns the metadata of `name` if the previous lookup was for its hash, and forgets it.
    pub(super) fn take_metadata(
        &self,
        base: &Handle,
        name: &str,
        follow: bool,
    ) -> Option<Metadata> {
        let (mount, rel) = base.location();
        let mut last = lock(&self.last_lookup);
        let known = last.as_ref().filter(|last| {
            last.mount == mount && last.rel == rel && last.name == name && last.found.is_some()
        })?;
        let followed = known.follow;
        let Found { metadata, at, changes } = last.take()?.found?;
        let same = followed == follow || (follow && metadata.kind != FileType::Symlink);
        (same && at.elapsed() < FRESH && changes == self.content_changes()).then_some(metadata)
    }

    /// Returns a number that grows with every change to the content of a file.
    fn content_changes(&self) -> u64 {
        self.quota.changes() + self.own_quotas().map(Quota::changes).sum::<u64>()
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
