//! Copies of skills in the cache folder. The digested files are the files that run, even if the
//! skill's own folder changes during the run.
//!
//! The hashed bytes are written to a folder that is named after the digest. The folder is put in
//! place complete and never changes afterwards. As long as no file of the skill changes, its digests
//! are known without reading a file, and its copy is reused.
//!
//! Copies are written without waiting for the disk. The machine may have crashed before a copy was
//! on disk, so each copy is compared with the skill once after every boot. Readers of a copy hold a
//! shared lock on its folder, and removing it needs the exclusive lock.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use super::digests::Digests;
use super::{cache_quota, digest, stamp};
use crate::SkillListing;
use crate::files::{Content, ContentHash, SkillFile, read_listed};
use crate::private::{Purpose, TempFolder};

/// The folder of copies in the cache folder.
const FOLDER: &str = "skills";

/// What the cache folder stores about a skill.
#[derive(Serialize, Deserialize)]
struct Known {
    digests: Digests,
    /// The boot since which the copy is known to be complete.
    boot: String,
}

/// A copy of a skill's files, with their digests.
pub struct SkillCopy {
    /// The folder from which the files are read.
    pub content: Content,
    /// The digests of the skill and of each file.
    pub digests: Digests,
    /// Whether the copy was added to the cache folder.
    pub is_new: bool,
}

/// Opens the copy of a skill, or creates it. If the skill has an owner, other owners have other copies of the same
/// content. If the cache folder cannot be used, creates a copy for this run only in `scratch`.
///
/// # Errors
/// A file cannot be read, a file changed after it was listed, or no copy can be created.
pub fn open(
    listed: &SkillListing,
    owner: Option<&str>,
    cache: &Path,
    scratch: &Path,
) -> io::Result<SkillCopy> {
    // Another file system that is mounted inside the skill may not have a reliable ctime.
    let root = rustix::fs::fstat(listed.live())?.st_dev;
    let is_one =
        listed.files.iter().chain(&listed.folders).all(|file| file.identity.device == root);
    let has_reliable_ctime = is_one && stamp::has_reliable_ctime(listed.live());
    open_where(listed, owner, cache, scratch, has_reliable_ctime)
}

/// Uses the skill's own folder as its copy. The host has written it to a private folder, so no other
/// process changes it.
///
/// # Errors
/// A file cannot be read.
pub fn in_place(listed: &SkillListing) -> io::Result<SkillCopy> {
    let (files, folder) = (read(listed)?, listed.live().try_clone()?);
    let digests = files.digests(files.digest(), &folder);
    Ok(SkillCopy { content: folder.into(), digests, is_new: false })
}

/// As [`open`], with the decision whether the files' ctime is reliable.
fn open_where(
    listed: &SkillListing,
    owner: Option<&str>,
    cache: &Path,
    scratch: &Path,
    has_reliable_ctime: bool,
) -> io::Result<SkillCopy> {
    let cache = stamp::open_cache_folder(cache).ok();
    let boot = boot().filter(|_| has_reliable_ctime);
    let known = cache.as_ref().zip(boot.as_ref()).and_then(|(cache, boot)| {
        let known: Known =
            stamp::read_if_unchanged(cache, &stamp_name(listed).ok()?, &state(listed))?;
        let copy = (known.boot == *boot)
            .then(|| Copy { cache, name: name(listed, owner, &known.digests.skill) }.open())??;
        Some(SkillCopy { content: copy.into(), digests: known.digests, is_new: false })
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let files = read(listed)?;
    let digest = files.digest();
    let kept = cache
        .as_ref()
        .map(|cache| Copy { cache, name: name(listed, owner, &digest) }.open_or_make(&files));
    let (content, is_new) = match kept {
        Some(Ok((copy, is_new))) => (Content::from(copy), is_new),
        kept => {
            let why = kept
                .and_then(Result::err)
                .map_or("no cache folder".to_owned(), |error| error.to_string());
            tracing::debug!(why, "copying the skill's files for this run only");
            (files.make_temporary(scratch)?, false)
        }
    };
    let digests = files.digests(digest, content.dir());
    if let (Some(cache), true) = (&cache, is_new) {
        let bytes = files.contents.iter().map(|content| content.len() as u64).sum();
        cache_quota::charge(
            cache,
            &place(listed.live())?,
            &name(listed, owner, &digests.skill),
            bytes,
        );
    }
    if let (Some(cache), Some(boot)) = (cache, boot) {
        let newest =
            listed.files.iter().map(|file| file.identity.changed).max().unwrap_or_default();
        let known = Known { digests: digests.clone(), boot };
        stamp::write_if_settled(&cache, &stamp_name(listed)?, state(listed), newest, known);
    }
    Ok(SkillCopy { content, digests, is_new })
}

/// Returns the cache's name for a skill's folder: its device and inode.
pub(crate) fn place(folder: impl AsFd) -> io::Result<String> {
    let stat = rustix::fs::fstat(folder)?;
    Ok(format!("{:x}-{:x}", stat.st_dev, stat.st_ino))
}

/// A copy in the cache folder.
struct Copy<'a> {
    cache: &'a Dir,
    /// Its path in the cache folder.
    name: String,
}

impl Copy<'_> {
    /// Opens the copy, and locks it against removal while it is open. Returns `None` if it does not
    /// exist or is being removed.
    fn open(&self) -> Option<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(self.cache, &self.name, flags, Mode::empty()).ok()?;
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared).ok()?;
        // It may have been moved for removal between opening and locking.
        let (held, there) = (
            rustix::fs::fstat(&folder).ok()?,
            rustix::fs::statat(self.cache, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()?,
        );
        ((held.st_dev, held.st_ino) == (there.st_dev, there.st_ino))
            .then(|| Dir::from_std_file(folder.into()))
    }

    /// Opens the copy if it has the same content, otherwise creates it. Returns whether it is new.
    fn open_or_make(&self, files: &Files<'_>) -> io::Result<(Dir, bool)> {
        let mut is_new = false;
        // Another host may create or remove it at the same time.
        for _ in 0..3 {
            match self.open() {
                Some(copy) if files.are_in(&copy) => return Ok((copy, is_new)),
                Some(copy) => {
                    drop(copy);
                    remove(self.cache, &self.name)?;
                }
                None => {}
            }
            self.make(files)?;
            is_new = true;
        }
        Err(io::Error::other("the copy was removed each time it was created"))
    }

    fn make(&self, files: &Files<'_>) -> io::Result<()> {
        match rustix::fs::mkdirat(self.cache, FOLDER, Mode::RWXU) {
            Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
            _ => {}
        }
        let temporary =
            format!("{}.{}.{:x}.tmp", self.name, std::process::id(), rand::random::<u64>());
        rustix::fs::mkdirat(self.cache, &temporary, Mode::RWXU)?;
        let made = self.cache.open_dir(&temporary).and_then(|folder| files.write(&folder));
        let placed = made.and_then(|()| self.cache.rename(&temporary, self.cache, &self.name));
        if placed.is_err() {
            // No other host uses this temporary folder.
            let _ = self.cache.remove_dir_all(&temporary);
        }
        match placed {
            // Another host created the copy first.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) =>
            {
                Ok(())
            }
            placed => placed,
        }
    }
}

/// Removes a copy that is not in use.
///
/// # Errors
/// The copy is in use, or cannot be removed.
pub(crate) fn remove(cache: &Dir, name: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(cache, name, flags, Mode::empty())?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    let gone = format!("{name}.{}.{:x}.tmp", std::process::id(), rand::random::<u64>());
    cache.rename(name, cache, &gone)?;
    cache.remove_dir_all(&gone)
}

/// The files of a skill with their contents.
struct Files<'a> {
    listed: &'a SkillListing,
    /// The contents in the order of the listing; empty for a symlink.
    contents: Vec<Vec<u8>>,
}

fn read(listed: &SkillListing) -> io::Result<Files<'_>> {
    let read = |file: &SkillFile| {
        if file.link.is_some() { Ok(Vec::new()) } else { read_listed(listed.live(), file) }
    };
    Ok(Files { listed, contents: listed.files.iter().map(read).collect::<io::Result<_>>()? })
}

impl Files<'_> {
    fn all(&self) -> impl Iterator<Item = (&SkillFile, &Vec<u8>)> {
        self.listed.files.iter().zip(&self.contents)
    }

    fn digest(&self) -> String {
        let mut hash = ContentHash::new();
        self.all().for_each(|(file, content)| hash.add(file, content));
        hash.finish()
    }

    /// Computes all digests. A component that is a symlink is read from the copy.
    fn digests(&self, skill: String, copy: &Dir) -> Digests {
        let components = self.all().filter(|(file, _)| file.path.ends_with(".wasm"));
        let of = |(file, content): (&SkillFile, &Vec<u8>)| {
            // A component that cannot be read is reported when it runs.
            let found = if file.link.is_none() {
                digest(content)
            } else {
                digest(&copy.read(&file.path).ok()?)
            };
            Some((file.path.clone(), found))
        };
        Digests { skill, components: components.filter_map(of).collect() }
    }

    /// Checks whether a copy has the same content.
    fn are_in(&self, copy: &Dir) -> bool {
        self.all().all(|(file, content)| match &file.link {
            Some(target) => rustix::fs::readlinkat(copy, &file.path, Vec::new())
                .is_ok_and(|found| found.to_bytes() == target.as_bytes()),
            None => read_listed(copy, file).is_ok_and(|found| found == *content),
        })
    }

    /// Writes the files to an empty folder.
    fn write(&self, to: &Dir) -> io::Result<()> {
        let mut folders: Vec<&SkillFile> =
            self.listed.folders.iter().filter(|folder| !folder.path.is_empty()).collect();
        folders.sort();
        for folder in &folders {
            rustix::fs::mkdirat(to, &folder.path, Mode::RWXU)?;
        }
        for (file, content) in self.all() {
            if let Some(target) = &file.link {
                rustix::fs::symlinkat(target, to, &file.path)?;
                continue;
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mut copy =
                std::fs::File::from(rustix::fs::openat(to, &file.path, flags, Mode::RUSR)?);
            copy.write_all(content)?;
            rustix::fs::futimens(&copy, &times(file))?;
        }
        // Set the folders' times last, because creating files changes them.
        for folder in folders.iter().rev() {
            rustix::fs::utimensat(to, &folder.path, &times(folder), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Writes the files to a temporary folder, which is removed with the returned value.
    fn make_temporary(&self, scratch: &Path) -> io::Result<Content> {
        let folder = TempFolder::new_in(scratch, Purpose::Copy)?;
        let dir = Dir::from_std_file(folder.as_fd().try_clone_to_owned()?.into());
        self.write(&dir)?;
        Ok(Content::temporary(dir, folder))
    }
}

/// Returns the modification time of a file, also as its access time.
fn times(file: &SkillFile) -> Timestamps {
    let (tv_sec, tv_nsec) = file.identity.modified;
    let modified = Timespec { tv_sec, tv_nsec };
    Timestamps { last_access: modified, last_modification: modified }
}

/// Returns the path of a copy in the cache folder. It contains the digest, and a hash of the owner and of the
/// empty folders, which guests see but the digest does not cover.
fn name(listed: &SkillListing, owner: Option<&str>, digest: &str) -> String {
    let holds = |folder: &str| {
        listed
            .files
            .iter()
            .any(|file| file.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    };
    let mut empty: Vec<&str> = listed.folders.iter().map(|folder| folder.path.as_str()).collect();
    empty.retain(|folder| !folder.is_empty() && !holds(folder));
    empty.sort_unstable();
    let hex = digest.trim_start_matches("sha256:");
    let mut more = empty.join("\0");
    if let Some(owner) = owner {
        more.push_str("\0\0");
        more.push_str(owner);
    }
    if more.is_empty() {
        return format!("{FOLDER}/{hex}");
    }
    let more = super::digest(more.as_bytes());
    format!("{FOLDER}/{hex}-{}", &more["sha256:".len()..][..16])
}

/// Returns the name of the file with what is known about a skill's folder.
fn stamp_name(listed: &SkillListing) -> io::Result<String> {
    Ok(format!("{}.skill", place(listed.live())?))
}

/// Returns a digest of the identities of all files.
fn state(listed: &SkillListing) -> String {
    let file = |SkillFile { path, size, link, identity }: &SkillFile| {
        (path.clone(), *size, link.clone(), *identity)
    };
    let files: Vec<_> = listed.files.iter().map(file).collect();
    // Serializing plain data cannot fail.
    digest(&serde_json::to_vec(&files).unwrap_or_default())
}

/// Returns the identifier of the current boot.
fn boot() -> Option<String> {
    let mut name = [0; 64];
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
    let read = std::fs::File::open("/proc/sys/kernel/random/boot_id").ok()?.read(&mut name).ok()?;
    Some(std::str::from_utf8(&name[..read]).ok()?.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests;
