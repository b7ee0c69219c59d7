//! File times that are the same on every machine: files that existed before the run carry its start
//! time, and files that it changes carry its clock's time. Guests do not see the host's own times.

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
    /// The times of changed files, by device and inode.
    changed_files: Mutex<HashMap<Key, FileTimes>>,
}

pub(super) type Key = (u64, u64);

#[derive(Debug, Clone, Copy)]
struct FileTimes {
    accessed: Time,
    modified: Time,
    changed: Time,
}

impl Times {
    /// Creates file times from a clock, whose current time is the start of the run.
    pub fn new(now: impl Fn() -> Time + Send + Sync + 'static) -> Times {
        Times { start: now(), now: Box::new(now), changed_files: Mutex::default() }
    }

    /// Notes that a file or folder was created.
    fn created(&self, stat: &Stat) {
        let now = (self.now)();
        lock(&self.changed_files)
            .insert(key(stat), FileTimes { accessed: now, modified: now, changed: now });
    }

    /// Notes that a file's content changed.
    pub(super) fn changed(&self, key: Key) {
        let now = (self.now)();
        self.update(key, |times| FileTimes { modified: now, changed: now, ..times });
    }

    /// Notes that a file's times were set.
    fn set(&self, stat: &Stat, accessed: NewTime, modified: NewTime) {
        let now = (self.now)();
        let time = |new, old| match new {
            NewTime::BlobStore => old,
            NewTime::Now => now,
            NewTime::At(seconds, nanoseconds) => (seconds, nanoseconds),
        };
        self.update(key(stat), |times| FileTimes {
            accessed: time(accessed, times.accessed),
            modified: time(modified, times.modified),
            changed: now,
        });
    }

    /// Notes that a file was copied. Forgets the file that had its inode before.
    fn copied(&self, from: Option<Stat>, to: &Stat) {
        let mut changed_files = lock(&self.changed_files);
        match from.and_then(|from| changed_files.get(&key(&from)).copied()) {
            Some(times) => changed_files.insert(key(to), times),
            None => changed_files.remove(&key(to)),
        };
    }

    fn update(&self, key: Key, update: impl FnOnce(FileTimes) -> FileTimes) {
        let mut changed_files = lock(&self.changed_files);
        let times = changed_files.get(&key).copied().unwrap_or_else(|| self.before());
        changed_files.insert(key, update(times));
    }

    fn before(&self) -> FileTimes {
        FileTimes { accessed: self.start, modified: self.start, changed: self.start }
    }

    fn apply(&self, metadata: Metadata, stat: &Stat) -> Metadata {
        let FileTimes { accessed, modified, changed } =
            lock(&self.changed_files).get(&key(stat)).copied().unwrap_or_else(|| self.before());
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
    /// Replaces the host's times by those of the run.
    pub(super) fn with_run_times(&self, metadata: Metadata, stat: &Stat) -> Metadata {
        self.times.as_ref().map_or(metadata, |times| times.apply(metadata, stat))
    }

    /// Replaces "now" by the time of the run's clock.
    pub(super) fn to_run_time(&self, new: NewTime) -> NewTime {
        match (new, &self.times) {
            (NewTime::Now, Some(times)) => {
                let (seconds, nanoseconds) = (times.now)();
                NewTime::At(seconds, nanoseconds)
            }
            (new, _) => new,
        }
    }

    /// Notes that a guest set the times of a file.
    pub(super) fn note_times(&self, stat: &Stat, accessed: NewTime, modified: NewTime) {
        if let Some(times) = &self.times {
            times.set(stat, accessed, modified);
        }
    }

    /// Notes that a file or folder was created.
    pub(super) fn note_created(&self, tree: &Tree, m: usize, rel: &str) {
        self.forget_mode(tree, m, rel);
        if let (Some(times), Ok(stat)) = (&self.times, self.lstat(tree, m, rel)) {
            times.created(&stat);
            self.note_entry(tree, m, rel);
        }
    }

    /// Notes that a file or folder was copied into an overlay before a change.
    pub(super) fn note_copy(&self, tree: &Tree, m: usize, rel: &str) {
        self.copy_mode(tree, m, rel);
        if let (Some(times), Ok(stat)) = (&self.times, self.lstat(tree, m, rel)) {
            times.copied(self.lower_stat(m, rel), &stat);
        }
    }

    /// Notes that an entry was created, removed or renamed, which changes its folder.
    pub(super) fn note_entry(&self, tree: &Tree, m: usize, rel: &str) {
        let Some(times) = &self.times else { return };
        let folder = rel.rsplit_once('/').map_or("", |(folder, _)| folder);
        if let Ok(stat) = self.lstat(tree, m, folder) {
            times.changed(key(&stat));
        }
    }
}
