//! File times that are the same on every machine: what was there before the run is as old as the
//! run, and what the run changes gets the run's own time. The times on the disk are the host's, and
//! are not shown.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

use rustix::fs::Stat;

use super::metadata::{Metadata, NewTime};
use super::overlay::Tree;
use super::{Vfs, lock};

/// Seconds and nanoseconds since 1970.
pub(super) type Time = (i64, u32);

/// The times of an invocation's files.
pub struct Times {
    now: Box<dyn Fn() -> Time + Send + Sync>,
    start: Time,
    /// Of what the run has changed, by device and inode.
    known: Mutex<HashMap<Key, Stamps>>,
}

pub(super) type Key = (u64, u64);

#[derive(Debug, Clone, Copy)]
struct Stamps {
    accessed: Time,
    modified: Time,
    changed: Time,
}

impl Times {
    /// By a clock that now says when the run started.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Times {
        Times { start: now(), now: Box::new(now), known: Mutex::default() }
    }

    /// A file or folder that was just made.
    fn created(&self, stat: &Stat) {
        let now = (self.now)();
        lock(&self.known).insert(key(stat), Stamps { accessed: now, modified: now, changed: now });
    }

    /// One whose content was just changed.
    pub(super) fn changed(&self, key: Key) {
        let now = (self.now)();
        self.update(key, |stamps| Stamps { modified: now, changed: now, ..stamps });
    }

    /// One whose times were just set.
    fn set(&self, stat: &Stat, accessed: NewTime, modified: NewTime) {
        let now = (self.now)();
        let time = |new, old| match new {
            NewTime::Keep => old,
            NewTime::Now => now,
            NewTime::At(seconds, nanoseconds) => (seconds, nanoseconds),
        };
        self.update(key(stat), |stamps| Stamps {
            accessed: time(accessed, stamps.accessed),
            modified: time(modified, stamps.modified),
            changed: now,
        });
    }

    /// A copy of another. What had its inode before is gone.
    fn copied(&self, from: Option<Stat>, to: &Stat) {
        let mut known = lock(&self.known);
        match from.and_then(|from| known.get(&key(&from)).copied()) {
            Some(stamps) => known.insert(key(to), stamps),
            None => known.remove(&key(to)),
        };
    }

    fn update(&self, key: Key, update: impl FnOnce(Stamps) -> Stamps) {
        let mut known = lock(&self.known);
        let stamps = known.get(&key).copied().unwrap_or_else(|| self.before());
        known.insert(key, update(stamps));
    }

    fn before(&self) -> Stamps {
        Stamps { accessed: self.start, modified: self.start, changed: self.start }
    }

    fn shown(&self, metadata: Metadata, stat: &Stat) -> Metadata {
        let Stamps { accessed, modified, changed } =
            lock(&self.known).get(&key(stat)).copied().unwrap_or_else(|| self.before());
        Metadata { accessed, modified, changed, ..metadata }
    }
}

pub(super) fn key(stat: &Stat) -> Key {
    (stat.st_dev, stat.st_ino)
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Times")
    }
}

impl Vfs {
    /// What guests are told, with the times that they are told.
    pub(super) fn timed(&self, metadata: Metadata, stat: &Stat) -> Metadata {
        self.times.as_ref().map_or(metadata, |times| times.shown(metadata, stat))
    }

    /// The times to set on the disk for those that a guest sets.
    pub(super) fn timely(&self, new: NewTime) -> NewTime {
        match (new, &self.times) {
            (NewTime::Now, Some(times)) => {
                let (seconds, nanoseconds) = (times.now)();
                NewTime::At(seconds, nanoseconds)
            }
            (new, _) => new,
        }
    }

    /// Notes times that were set.
    pub(super) fn note_times(&self, stat: &Stat, accessed: NewTime, modified: NewTime) {
        if let Some(times) = &self.times {
            times.set(stat, accessed, modified);
        }
    }

    /// Notes that a file or folder was made.
    pub(super) fn note_created(&self, tree: &Tree, m: usize, rel: &str) {
        if let (Some(times), Ok(stat)) = (&self.times, self.lstat(tree, m, rel)) {
            times.created(&stat);
            self.note_entry(tree, m, rel);
        }
    }

    /// Notes that a file or folder was copied into an overlay before it is changed.
    pub(super) fn note_copy(&self, tree: &Tree, m: usize, rel: &str) {
        if let (Some(times), Ok(stat)) = (&self.times, self.lstat(tree, m, rel)) {
            times.copied(self.lower_stat(m, rel), &stat);
        }
    }

    /// Notes that an entry was made, removed or renamed: its folder has changed.
    pub(super) fn note_entry(&self, tree: &Tree, m: usize, rel: &str) {
        let Some(times) = &self.times else { return };
        let folder = rel.rsplit_once('/').map_or("", |(folder, _)| folder);
        if let Ok(stat) = self.lstat(tree, m, folder) {
            times.changed(key(&stat));
        }
    }
}
