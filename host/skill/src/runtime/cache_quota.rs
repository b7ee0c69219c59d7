//! Limits the size of the cache folder: for each skill, and for all skills together. Files of
//! built-in programs count towards neither limit, and are never removed.

use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, Metadata, OpenOptions};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::{copies, stamp};

/// The limit for one skill.
const SHARE: Bound = Bound { bytes: 256 << 20, entries: 4_096 };
/// The limit for all skills together.
const ROOM: Bound = Bound { bytes: 2 << 30, entries: 32_768 };
/// The age at which a temporary file counts as abandoned.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);
/// The most bytes of a skill's list of entries.
const LIST_MAX: u64 = 4 << 20;

/// The suffix of compiled components that belong to a skill rather than a built-in program.
pub(crate) const OF_SKILL: &str = ".own.cwasm";

#[derive(Clone, Copy)]
struct Bound {
    bytes: u64,
    entries: usize,
}

impl Bound {
    fn holds(self, bytes: u64, entries: usize) -> bool {
        bytes <= self.bytes && entries <= self.entries
    }
}

/// An entry of a skill in the cache folder.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    bytes: u64,
}

/// Charges a new entry of the cache folder to a skill, which is identified by the device and inode of
/// its folder. Removes the skill's oldest entries if it exceeds its share. An entry that is larger
/// than the share is removed at once.
pub fn charge(cache: &Dir, skill: &str, name: &str, bytes: u64) {
    if let Err(error) = charge_to(cache, skill, Entry { name: name.to_owned(), bytes }, SHARE) {
        tracing::debug!(%error, name, "cannot charge a cache entry to its skill");
    }
}

fn charge_to(cache: &Dir, skill: &str, new: Entry, share: Bound) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let file = cache.open_with(format!("{skill}.share"), &options)?.into_std();
    // Other hosts hold the lock only for the duration of this function.
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    let mut text = Vec::new();
    (&file).take(LIST_MAX).read_to_end(&mut text)?;
    let mut entries: Vec<Entry> = serde_json::from_slice(&text).unwrap_or_default();
    entries.retain(|entry| entry.name != new.name);
    entries.push(new);
    let bytes = |entries: &[Entry]| {
        entries.iter().fold(0, |sum: u64, entry| sum.saturating_add(entry.bytes))
    };
    if !share.holds(bytes(&entries), entries.len()) {
        entries.retain(|entry| cache.symlink_metadata(&entry.name).is_ok());
    }
    let mut at = 0;
    while !share.holds(bytes(&entries), entries.len()) && at < entries.len() {
        match remove(cache, &entries[at].name) {
            Ok(()) => drop(entries.remove(at)),
            // A run has it open.
            Err(_) => at += 1,
        }
    }
    let text = serde_json::to_vec(&entries)?;
    file.set_len(0)?;
    file.write_all_at(&text, 0)
}

/// Removes abandoned temporary files, and the least recently used entries of skills until the rest
/// fits the limit. Reads the metadata of every file.
pub fn trim(cache: &Path) {
    if let Err(error) =
        stamp::open_cache_folder(cache).and_then(|cache| trim_to(&cache, ROOM, ABANDONED))
    {
        tracing::warn!(%error, "cannot trim the cache folder");
    }
}

/// An entry that can be removed.
struct Found {
    used: SystemTime,
    name: String,
    bytes: u64,
}

fn trim_to(cache: &Dir, room: Bound, abandoned: Duration) -> io::Result<()> {
    let mut found = Vec::new();
    for folder in ["", "skills/"] {
        let listed = match if folder.is_empty() { cache.entries() } else { cache.read_dir(folder) }
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            listed => listed?,
        };
        for entry in listed {
            // Another host may have removed the entry.
            let Ok(entry) = entry else { continue };
            let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), entry.metadata())
            else {
                continue;
            };
            let name = format!("{folder}{name}");
            if name.ends_with(".tmp") {
                if used(&metadata).elapsed().is_ok_and(|age| age > abandoned) {
                    let _ = if metadata.is_dir() {
                        cache.remove_dir_all(&name)
                    } else {
                        cache.remove_file(&name)
                    };
                }
            } else if !folder.is_empty() {
                found.extend(copy(cache, name));
            } else if [OF_SKILL, ".script", ".syntax", ".skill", ".packages", ".share"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                found.push(Found { used: used(&metadata), name, bytes: metadata.len() });
            }
        }
    }
    let (mut bytes, mut entries) =
        (found.iter().fold(0, |sum: u64, found| sum.saturating_add(found.bytes)), found.len());
    if room.holds(bytes, entries) {
        return Ok(());
    }
    // Free a tenth more than necessary, so that the next run does not have to trim again.
    let goal = Bound { bytes: room.bytes / 10 * 9, entries: room.entries / 10 * 9 };
    found.sort_by_key(|found| found.used);
    for Found { name, bytes: its, .. } in found {
        if goal.holds(bytes, entries) {
            break;
        }
        if remove(cache, &name).is_ok() {
            (bytes, entries) = (bytes - its, entries - 1);
        }
    }
    Ok(())
}

/// Returns the size of a skill's copy, and when one of its files was last read.
fn copy(cache: &Dir, name: String) -> Option<Found> {
    let (mut bytes, mut last, mut folders) =
        (0, SystemTime::UNIX_EPOCH, vec![cache.open_dir(&name).ok()?]);
    while let Some(folder) = folders.pop() {
        for entry in folder.entries().ok()?.flatten() {
            let metadata = entry.metadata().ok()?;
            if metadata.is_dir() {
                folders.push(entry.open_dir().ok()?);
            }
            (bytes, last) = (bytes + metadata.len(), last.max(used(&metadata)));
        }
    }
    let made = cache.symlink_metadata(&name).ok()?;
    Some(Found { used: last.max(used(&made)), name, bytes })
}

/// Returns when a file was last read, if the file system records that, or written.
pub(crate) fn used(metadata: &Metadata) -> SystemTime {
    let times = [metadata.accessed(), metadata.modified()].into_iter().flatten();
    times.map(cap_std::time::SystemTime::into_std).max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Removes an entry and its stamp. Does not remove a copy of a skill that is in use.
pub(super) fn remove(cache: &Dir, name: &str) -> io::Result<()> {
    if name.contains('/') {
        return copies::remove(cache, name);
    }
    if let Some(key) = name.strip_suffix(".cwasm") {
        let _ = cache.remove_file(format!("{key}.stamp"));
    }
    cache.remove_file(name)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Dir) {
        let dir = tempfile::tempdir().unwrap();
        let cache = stamp::open_cache_folder(&dir.path().join("cache")).unwrap();
        (dir, cache)
    }

    fn put(cache: &Dir, name: &str, bytes: usize, hours_ago: u64) {
        cache.write(name, vec![0; bytes]).unwrap();
        let then = SystemTime::now() - Duration::from_secs(3600 * hours_ago);
        let file = cache.open(name).unwrap().into_std();
        file.set_times(std::fs::FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
    }

    fn names(cache: &Dir) -> Vec<String> {
        let mut names: Vec<String> = cache
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn skill_exceeding_its_share_loses_its_oldest_entries() {
        let (_dir, cache) = cache();
        let share = Bound { bytes: 100, entries: 3 };
        let charge = |skill: &str, name: &str, bytes: usize| {
            put(&cache, name, bytes, 0);
            charge_to(&cache, skill, Entry { name: name.into(), bytes: bytes as u64 }, share)
                .unwrap();
        };
        put(&cache, "a.own.stamp", 1, 0);
        charge("1", "a.own.cwasm", 60);
        charge("2", "other.script", 100);
        charge("1", "b.script", 40);
        assert_eq!(
            names(&cache),
            ["1.share", "2.share", "a.own.cwasm", "a.own.stamp", "b.script", "other.script"],
            "up to the share"
        );
        charge("1", "c.script", 1);
        assert_eq!(
            names(&cache),
            ["1.share", "2.share", "b.script", "c.script", "other.script"],
            "one more byte evicts the oldest entry"
        );
        charge("1", "d.script", 1);
        charge("1", "e.script", 1);
        assert_eq!(
            names(&cache),
            ["1.share", "2.share", "c.script", "d.script", "e.script", "other.script"],
            "one entry more"
        );
        charge("1", "large.script", 101);
        assert_eq!(
            names(&cache),
            ["1.share", "2.share", "other.script"],
            "more than the share is not kept"
        );
    }

    #[test]
    fn entries_in_use_are_not_removed_for_the_share() {
        let (_dir, cache) = cache();
        cache.create_dir_all("skills/a").unwrap();
        let held = cache.open("skills/a").unwrap().into_std();
        rustix::fs::flock(&held, FlockOperation::LockShared).unwrap();
        let share = Bound { bytes: 100, entries: 3 };
        for (name, bytes) in [("skills/a", 100), ("b.script", 50)] {
            if !name.contains('/') {
                put(&cache, name, 50, 0);
            }
            charge_to(&cache, "1", Entry { name: name.into(), bytes }, share).unwrap();
        }
        assert_eq!(
            (names(&cache), cache.exists("skills/a")),
            (vec!["1.share".to_owned(), "skills".to_owned()], true)
        );
    }

    #[test]
    fn least_recently_used_entries_are_evicted_except_runtimes() {
        let (_dir, cache) = cache();
        for (name, bytes, hours) in [
            ("runtime.cwasm", 500, 90),
            ("runtime.stamp", 5, 90),
            ("x.shipped.stamp", 5, 90),
            ("old.own.cwasm", 40, 9),
            ("old.own.stamp", 1, 9),
            ("older.script", 30, 10),
            ("new.script", 30, 1),
        ] {
            put(&cache, name, bytes, hours);
        }
        trim_to(&cache, Bound { bytes: 100, entries: 10 }, ABANDONED).unwrap();
        assert_eq!(names(&cache).len(), 7, "as many entries as fit");
        trim_to(&cache, Bound { bytes: 99, entries: 10 }, ABANDONED).unwrap();
        assert!(names(&cache).len() == 6 && !cache.exists("older.script"), "{:?}", names(&cache));
        trim_to(&cache, Bound { bytes: 99, entries: 1 }, ABANDONED).unwrap();
        assert_eq!(names(&cache), ["runtime.cwasm", "runtime.stamp", "x.shipped.stamp"]);
    }

    #[test]
    fn abandoned_files_are_removed_and_copies_in_use_remain() {
        let (_dir, cache) = cache();
        put(&cache, "new.tmp", 1, 0);
        put(&cache, "old.tmp", 1, 2);
        for copy in ["skills/used", "skills/unused"] {
            cache.create_dir_all(copy).unwrap();
            put(&cache, &format!("{copy}/SKILL.md"), 10, 1);
        }
        let held = cache.open("skills/used").unwrap().into_std();
        rustix::fs::flock(&held, FlockOperation::LockShared).unwrap();
        trim_to(&cache, Bound { bytes: 5, entries: 10 }, ABANDONED).unwrap();
        assert_eq!(names(&cache), ["new.tmp", "skills"]);
        assert_eq!((cache.exists("skills/used"), cache.exists("skills/unused")), (true, false));
    }
}
