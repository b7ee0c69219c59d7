//! Announces changes in the workspace of a session. Bounded: of each path only the latest change is
//! kept, and of the paths only those that changed last. Who missed some is told so.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use tokio::sync::Notify;

use super::{Vfs, lock};
use skillhost_policy::outcome::ChangeKind;

/// The most paths whose changes are kept. A path may have 4 KiB.
const PATHS_MAX: usize = 1_024;

/// The latest changes.
#[derive(Debug, Default)]
pub struct ChangeLog {
    latest: Mutex<Latest>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Latest {
    /// The number of the last change; the first one has 1.
    last: u64,
    /// The last change that was dropped.
    dropped: u64,
    changes: BTreeMap<u64, (String, ChangeKind)>,
    numbers: HashMap<String, u64>,
}

/// A change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedChange {
    /// Its number; later changes have greater ones.
    pub number: u64,
    /// The path in the workspace.
    pub path: String,
    /// What happened to it last.
    pub kind: ChangeKind,
}

/// The changes since a number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedChanges {
    /// The latest change of each path, in order.
    pub changes: Vec<LoggedChange>,
    /// The number to continue after.
    pub last: u64,
    /// Whether changes were dropped in between.
    pub is_incomplete: bool,
}

impl ChangeLog {
    pub(super) fn add(&self, path: &str, kind: ChangeKind) {
        {
            let mut guard = lock(&self.latest);
            let latest = &mut *guard;
            latest.last += 1;
            if let Some(before) = latest.numbers.get_mut(path) {
                let before = std::mem::replace(before, latest.last);
                latest.changes.remove(&before);
            } else {
                latest.numbers.insert(path.to_owned(), latest.last);
            }
            latest.changes.insert(latest.last, (path.to_owned(), kind));
            if latest.changes.len() > PATHS_MAX
                && let Some((number, (path, _))) = latest.changes.pop_first()
            {
                latest.numbers.remove(&path);
                latest.dropped = number;
            }
        }
        self.added.notify_waiters();
    }

    /// Announces that everything may have changed.
    pub fn reset(&self) {
        {
            let mut latest = lock(&self.latest);
            latest.last += 1;
            latest.dropped = latest.last;
            latest.changes.clear();
            latest.numbers.clear();
        }
        self.added.notify_waiters();
    }

    /// Returns what changed after the change of this number.
    pub fn since(&self, number: u64) -> LoggedChanges {
        let latest = lock(&self.latest);
        let after = number.saturating_add(1);
        let changes = latest.changes.range(after..).map(|(number, (path, kind))| LoggedChange {
            number: *number,
            path: path.clone(),
            kind: *kind,
        });
        LoggedChanges {
            changes: changes.collect(),
            last: latest.last,
            is_incomplete: number < latest.dropped,
        }
    }

    /// Waits for a change after the change of this number.
    pub async fn wait(&self, number: u64) {
        loop {
            // Created before looking, so that no change is missed.
            let mut added = std::pin::pin!(self.added.notified());
            added.as_mut().enable();
            if lock(&self.latest).last > number {
                return;
            }
            added.await;
        }
    }
}

impl Vfs {
    /// Announces a change of a path.
    pub(super) fn note_event(&self, m: usize, rel: &str, kind: ChangeKind) {
        if let Some(log) = self.log_of(m) {
            log.add(rel, kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn each_path_has_its_latest_change_and_the_log_is_bounded() {
        let log = ChangeLog::default();
        assert_eq!(log.since(0), LoggedChanges::default());
        log.add("a", ChangeKind::Added);
        log.add("b", ChangeKind::Added);
        log.add("a", ChangeKind::Removed);
        let paths = |changes: &LoggedChanges| {
            changes.changes.iter().map(|one| (one.path.clone(), one.kind)).collect::<Vec<_>>()
        };
        let all = log.since(0);
        let expected = [("b".to_owned(), ChangeKind::Added), ("a".to_owned(), ChangeKind::Removed)];
        assert_eq!(paths(&all), expected);
        assert_eq!((all.last, all.is_incomplete), (3, false));
        assert!(log.since(3).changes.is_empty() && log.wait(3).now_or_never().is_none());
        assert!(log.wait(2).now_or_never().is_some());
        for number in 0..PATHS_MAX {
            log.add(&number.to_string(), ChangeKind::Changed);
        }
        let rest = log.since(all.last);
        assert_eq!((rest.changes.len(), rest.is_incomplete), (PATHS_MAX, false));
        assert!(log.since(1).is_incomplete, "`b` was dropped");
        log.reset();
        assert!(log.since(rest.last).is_incomplete && log.since(rest.last).changes.is_empty());
    }
}
