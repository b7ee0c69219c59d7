//! Records which paths of the granted folders guests looked up and wrote: evidence for the smallest
//! grant. Records nothing unless asked to.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use rustix::fs::{FileType, Stat};

use super::mount::Rules;
use super::{Vfs, beneath, lock};
use skillhost_policy::outcome::uses::PathUse;

/// The most paths recorded.
const PATHS_MAX: usize = 10_000;

/// The recorded paths of an invocation; empty if recording is off.
#[derive(Debug, Default)]
pub(super) struct PathUses(OnceLock<Mutex<UsedPaths>>);

#[derive(Debug, Default)]
struct UsedPaths {
    paths: BTreeMap<String, PathUse>,
    omitted: u64,
}

impl Vfs {
    /// Starts recording.
    pub fn record_uses(&self) {
        self.uses.0.get_or_init(Mutex::default);
    }

    /// Returns the paths that were used, and how many did not fit; `None` if recording is off.
    pub fn uses(&self) -> Option<(BTreeMap<String, PathUse>, u64)> {
        let notes = lock(self.uses.0.get()?);
        Some((notes.paths.clone(), notes.omitted))
    }

    /// Records that an entry was looked up and exists. A mount's own folder proves nothing: every
    /// program looks at its working directory.
    pub(super) fn note_lookup(&self, m: usize, rel: &str, stat: &Stat) {
        if rel.is_empty() {
            return;
        }
        self.note(m, rel, || PathUse {
            folder: beneath::kind(stat) == FileType::Directory,
            ..PathUse::default()
        });
    }

    /// Records that a folder was listed with these entries.
    pub(super) fn note_listed(&self, m: usize, rel: &str, entries: &[(String, FileType)]) {
        if self.uses.0.get().is_none() {
            return;
        }
        self.note(m, rel, || PathUse { folder: true, listed: true, ..PathUse::default() });
        for (name, kind) in entries {
            let folder = *kind == FileType::Directory;
            self.note(m, &beneath::join(rel, name), || PathUse { folder, ..PathUse::default() });
        }
    }

    /// Records that a change was allowed.
    pub(super) fn note_written(&self, m: usize, rel: &str) {
        self.note(m, rel, || PathUse { written: true, ..PathUse::default() });
    }

    /// Records that a folder was created.
    pub(super) fn note_created_folder(&self, m: usize, rel: &str) {
        self.note(m, rel, || PathUse { folder: true, written: true, ..PathUse::default() });
    }

    /// Records that a folder was renamed, which requires that its whole mount is writable.
    pub(super) fn note_renamed_folder(&self, m: usize) {
        self.note(m, "", || PathUse { folder: true, whole: true, ..PathUse::default() });
    }

    fn note(&self, m: usize, rel: &str, path_use: impl FnOnce() -> PathUse) {
        let Some(notes) = self.uses.0.get() else { return };
        if !matches!(self.mounts[m].rules, Rules::Granted(_) | Rules::State(_)) {
            return;
        }
        let path = self.mounts[m].guest_path(rel);
        let mut notes = lock(notes);
        if notes.paths.len() >= PATHS_MAX && !notes.paths.contains_key(&path) {
            notes.omitted += 1;
            return;
        }
        let entry = notes.paths.entry(path).or_default();
        *entry = entry.merge(path_use());
    }
}
