//! The content of the cache folder: compiled code, copies of skills, and what is known about both. A
//! host that needs a removed entry makes it again.

use std::io;
use std::time::SystemTime;

use cap_std::fs::Dir;

use super::cache_quota::{self, ABANDONED, OF_SKILL};
use crate::extent::Extent;

/// What an entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// The compiled code of a runtime, and what vouches for it.
    Runtime,
    /// The compiled code of a skill's component.
    Component,
    /// The compiled code of scripts, and what is known about scripts and packages.
    Script,
    /// The copy of a skill that runs, and what is known about the skill's folder.
    Copy,
    /// A file or folder that a host is writing, or that a killed host has left.
    Temporary,
    /// Another version of skillhost may know it.
    Unknown,
}

/// An entry of the cache folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The path in the cache folder.
    pub name: String,
    /// What it is for.
    pub kind: EntryKind,
    /// Its files.
    pub extent: Extent,
}

/// The locks of hosts. They are empty, and stay.
const LOCKS: [&str; 1] = ["compiling.lock"];
/// The folder of copies.
const COPIES: &str = "skills";

/// Lists the entries, sorted by name. Leaves out symlinks, which lead out of the folder.
///
/// # Errors
/// The folder cannot be read.
pub fn list(cache: &Dir) -> io::Result<Vec<CacheEntry>> {
    let mut entries = Vec::new();
    for folder in ["", COPIES] {
        let listed = match if folder.is_empty() { cache.entries() } else { open_copies(cache) } {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            listed => listed?,
        };
        for entry in listed {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            let is_link = cache.symlink_metadata(&name).is_ok_and(|found| found.is_symlink());
            if is_link || name == COPIES || LOCKS.contains(&name.as_str()) {
                continue;
            }
            // Another host may have removed it.
            let Ok(extent) = Extent::of(cache, &name) else { continue };
            entries.push(CacheEntry { kind: kind(&name), name, extent });
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Removes an entry, also if hosts use it: code that is mapped stays mapped.
///
/// # Errors
/// A run uses the copy of a skill, a host is writing the file, or the entry cannot be removed.
pub fn remove(cache: &Dir, entry: &CacheEntry) -> io::Result<()> {
    let in_use = || io::Error::new(io::ErrorKind::ResourceBusy, "it is in use");
    let removed = match entry.kind {
        EntryKind::Temporary => {
            let used = entry.extent.last_used.unwrap_or(SystemTime::UNIX_EPOCH);
            if !used.elapsed().is_ok_and(|age| age > ABANDONED) {
                return Err(in_use());
            }
            remove_any(cache, &entry.name)
        }
        EntryKind::Unknown => remove_any(cache, &entry.name),
        _ => cache_quota::remove(cache, &entry.name),
    };
    match removed {
        // Another host removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(in_use()),
        removed => removed,
    }
}

/// Lists the folder of copies, unless it is a symlink.
fn open_copies(cache: &Dir) -> io::Result<cap_std::fs::ReadDir> {
    match cache.symlink_metadata(COPIES)?.is_dir() {
        true => cache.read_dir(COPIES),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

fn remove_any(cache: &Dir, name: &str) -> io::Result<()> {
    match cache.symlink_metadata(name)?.is_dir() {
        true => cache.remove_dir_all(name),
        false => cache.remove_file(name),
    }
}

fn kind(name: &str) -> EntryKind {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    match name {
        _ if ends(&[".tmp"]) => EntryKind::Temporary,
        _ if ends(&[OF_SKILL, ".own.stamp"]) => EntryKind::Component,
        _ if ends(&[".cwasm", ".stamp"]) => EntryKind::Runtime,
        _ if ends(&[".script", ".syntax", ".packages"]) => EntryKind::Script,
        _ if ends(&[".skill", ".share"]) || name.starts_with("skills/") => EntryKind::Copy,
        _ => EntryKind::Unknown,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use std::time::Duration;

    use rustix::fs::FlockOperation;

    use super::*;
    use crate::runtime::stamp;

    fn cache() -> (tempfile::TempDir, Dir) {
        let dir = tempfile::tempdir().unwrap();
        let cache = stamp::open_cache_folder(&dir.path().join("cache")).unwrap();
        for name in [
            "a.cwasm",
            "a.stamp",
            "b.own.cwasm",
            "b.own.stamp",
            "c.shipped.stamp",
            "d.script",
            "e.syntax",
            "f.packages",
            "g.skill",
            "h.share",
            "compiling.lock",
            "i.next-version",
            "j.tmp",
        ] {
            cache.write(name, name).unwrap();
        }
        cache.create_dir_all("skills/k/scripts").unwrap();
        cache.write("skills/k/scripts/x.sh", "true").unwrap();
        (dir, cache)
    }

    #[test]
    fn every_kind_of_entry_is_listed() {
        let (_dir, cache) = cache();
        let kinds: Vec<(String, EntryKind)> =
            list(&cache).unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect();
        let expected = [
            ("a.cwasm", EntryKind::Runtime),
            ("a.stamp", EntryKind::Runtime),
            ("b.own.cwasm", EntryKind::Component),
            ("b.own.stamp", EntryKind::Component),
            ("c.shipped.stamp", EntryKind::Runtime),
            ("d.script", EntryKind::Script),
            ("e.syntax", EntryKind::Script),
            ("f.packages", EntryKind::Script),
            ("g.skill", EntryKind::Copy),
            ("h.share", EntryKind::Copy),
            ("i.next-version", EntryKind::Unknown),
            ("j.tmp", EntryKind::Temporary),
            ("skills/k", EntryKind::Copy),
        ];
        assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn copies_in_use_and_files_being_written_stay() {
        let (_dir, cache) = cache();
        let held = cache.open("skills/k").unwrap().into_std();
        rustix::fs::flock(&held, FlockOperation::LockShared).unwrap();
        let kept = |cache: &Dir| -> Vec<String> {
            let entries = list(cache).unwrap().into_iter();
            let kept = entries.filter(|entry| {
                remove(cache, entry).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            });
            kept.map(|entry| entry.name).collect()
        };
        assert_eq!(kept(&cache), ["j.tmp", "skills/k"]);
        drop(held);
        let old = SystemTime::now() - 2 * ABANDONED;
        let file = cache.open("j.tmp").unwrap().into_std();
        file.set_times(std::fs::FileTimes::new().set_accessed(old).set_modified(old)).unwrap();
        assert_eq!(kept(&cache), [""; 0]);
        let left: Vec<_> =
            cache.entries().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "the lock and the folder of copies: {left:?}");
        assert!(ABANDONED > Duration::from_secs(60));
    }

    #[test]
    fn symlinks_are_neither_listed_nor_followed() {
        let (dir, cache) = cache();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious.script"), "text").unwrap();
        let path = dir.path().join("cache");
        std::os::unix::fs::symlink(&outside, path.join("l.script")).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("skills/m")).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("skills/k/link")).unwrap();
        for entry in list(&cache).unwrap() {
            assert!(!["l.script", "skills/m"].contains(&entry.name.as_str()));
            // A new temporary file stays.
            let _ = remove(&cache, &entry);
        }
        assert!(outside.join("precious.script").exists() && !path.join("skills/k").exists());
        // The folder of copies may itself be one.
        std::fs::remove_dir_all(path.join("skills")).unwrap();
        std::os::unix::fs::symlink(&outside, path.join("skills")).unwrap();
        assert!(list(&cache).unwrap().iter().all(|entry| !entry.name.contains("precious")));
    }
}
