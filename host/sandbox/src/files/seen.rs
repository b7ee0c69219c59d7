//! Which paths of the granted folders guests saw and wrote: evidence for the smallest grant.
//! Nothing is kept unless that was asked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use rustix::fs::{FileType, Stat};

use super::mount::Rules;
use super::{Vfs, beneath, lock};
use skillhost_policy::outcome::uses::PathUse;

/// Paths that are kept.
const PATHS_MAX: usize = 10_000;

/// The notes of an invocation; empty where none are taken.
#[derive(Debug, Default)]
pub(super) struct Seen(OnceLock<Mutex<Notes>>);

#[derive(Debug, Default)]
struct Notes {
    paths: BTreeMap<String, PathUse>,
    omitted: u64,
}

impl Vfs {
    /// Takes notes from here on.
    pub fn note_uses(&self) {
        self.seen.0.get_or_init(Mutex::default);
    }

    /// The paths that were used, and how many more there were; `None` where no notes were taken.
    pub fn uses(&self) -> Option<(BTreeMap<String, PathUse>, u64)> {
        let notes = lock(self.seen.0.get()?);
        Some((notes.paths.clone(), notes.omitted))
    }

    /// Something was looked at and is there. A mounted folder itself says nothing: every program
    /// looks at the one that it starts in.
    pub(super) fn note_seen(&self, m: usize, rel: &str, stat: &Stat) {
        if rel.is_empty() {
            return;
        }
        self.note(m, rel, || PathUse {
            folder: beneath::kind(stat) == FileType::Directory,
            ..PathUse::default()
        });
    }

    /// A folder was listed, and these entries shown.
    pub(super) fn note_listed(&self, m: usize, rel: &str, entries: &[(String, FileType)]) {
        if self.seen.0.get().is_none() {
            return;
        }
        self.note(m, rel, || PathUse { folder: true, listed: true, ..PathUse::default() });
        for (name, kind) in entries {
            let folder = *kind == FileType::Directory;
            self.note(m, &beneath::join(rel, name), || PathUse { folder, ..PathUse::default() });
        }
    }

    /// A change of a path was let through.
    pub(super) fn note_written(&self, m: usize, rel: &str) {
        self.note(m, rel, || PathUse { written: true, ..PathUse::default() });
    }

    /// A folder was made.
    pub(super) fn note_folder_made(&self, m: usize, rel: &str) {
        self.note(m, rel, || PathUse { folder: true, written: true, ..PathUse::default() });
    }

    /// A folder was renamed, for which its whole mount has to be writable.
    pub(super) fn note_moved(&self, m: usize) {
        self.note(m, "", || PathUse { folder: true, whole: true, ..PathUse::default() });
    }

    fn note(&self, m: usize, rel: &str, what: impl FnOnce() -> PathUse) {
        let Some(notes) = self.seen.0.get() else { return };
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
        *entry = entry.merge(what());
    }
}
