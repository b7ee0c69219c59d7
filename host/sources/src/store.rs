//! The store: the files of every fetched skill, one folder per digest, and views that give them
//! their names.
//!
//! An entry is put in place complete and never changes. Its files are read-only, and are compared
//! with the lock file whenever they are read. A view is a folder with one symlink per skill; it is
//! named after what it contains and never changes either. What a killed host leaves is in a
//! temporary folder, which the next one sweeps.
//!
//! The store also remembers from where this host fetched each entry. A lock file that others wrote
//! could otherwise give the files of one source the name of another, and what a policy grants it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use skillhost_skill::SizeLimits;
use skillhost_skill::private::{self, Purpose, TempFolder};

use crate::digest::{Digest, Listing};
use crate::error::SourceError;
use crate::names;
use crate::signature::ssh::SignedObjects;
use crate::skills::FoundSkill;
use crate::staging::{self, Staged};

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The mode of the files: only the owner reads them, and nobody changes or executes them.
const FILE_MODE: Mode = Mode::RUSR;
/// The mode of the folders.
const FOLDER_MODE: Mode = Mode::RUSR.union(Mode::XUSR);

/// The folders of the store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    entries: OwnedFd,
    views: OwnedFd,
    origins: OwnedFd,
}

/// No other process changes the store or a lock file while this value lives.
#[derive(Debug)]
pub struct StoreLock(#[expect(dead_code, reason = "closing it releases the lock")] OwnedFd);

/// Nothing that is in the store is removed while this value lives.
#[derive(Debug)]
pub struct StoreUse(#[expect(dead_code, reason = "closing it releases the lock")] OwnedFd);

/// No process uses the store in the way of [`StoreUse`] while this value lives.
#[derive(Debug)]
pub(crate) struct NoUse(#[expect(dead_code, reason = "closing it releases the lock")] OwnedFd);

/// What was removed from the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// The skills.
    pub entries: u64,
    /// Their files.
    pub files: u64,
    /// The bytes of their files.
    pub bytes: u64,
}

impl Store {
    /// Opens the store in the host's state folder, or creates it.
    ///
    /// # Errors
    /// A folder cannot be created, or another user can write to it.
    pub fn open(state: &Path) -> Result<Store, SourceError> {
        let path = state.join("sources");
        let open = |name: &str| {
            let folder = path.join(name);
            private::open_or_create(&folder).map_err(|error| {
                SourceError::io(format!("open the store {}", folder.display()), error)
            })
        };
        private::create_missing(state).map_err(|error| {
            SourceError::io(format!("create the folder {}", state.display()), error)
        })?;
        open("")?;
        open("tmp")?;
        open("journal")?;
        open("projects")?;
        Ok(Store {
            entries: open("store")?,
            views: open("views")?,
            origins: open("origins")?,
            path,
        })
    }

    /// Returns the folder for what is being fetched.
    pub fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// Removes what killed hosts left in the folder for what is being fetched.
    fn sweep(&self) {
        if let Err(error) = private::sweep(&self.temporary()) {
            tracing::debug!(%error, "cannot remove stale folders of the store");
        }
    }

    /// Returns the path of what is written down before the files of a project are replaced.
    pub(crate) fn journal(&self, project: &Path) -> PathBuf {
        let key = Digest::of(project.as_os_str().as_encoded_bytes());
        self.path.join("journal").join(format!("{key}.json"))
    }

    /// Waits until no other process changes the store. Removes what killed ones have left.
    ///
    /// # Errors
    /// The file system fails.
    pub fn lock(&self) -> Result<StoreLock, SourceError> {
        let fail = |error: rustix::io::Errno| SourceError::io("lock the store", error);
        let folder = rustix::fs::openat(&self.entries, ".", FOLDER, Mode::empty()).map_err(fail)?;
        rustix::fs::flock(&folder, FlockOperation::LockExclusive).map_err(fail)?;
        self.sweep();
        Ok(StoreLock(folder))
    }

    /// Keeps everything in the store, also what no lock file names.
    ///
    /// # Errors
    /// The file system fails.
    pub fn keep_all(&self) -> Result<StoreUse, SourceError> {
        let fail = |error: rustix::io::Errno| SourceError::io("lock the store", error);
        let folder = rustix::fs::openat(&self.views, ".", FOLDER, Mode::empty()).map_err(fail)?;
        rustix::fs::flock(&folder, FlockOperation::LockShared).map_err(fail)?;
        Ok(StoreUse(folder))
    }

    /// Makes sure that no other process keeps everything. `None` if one does.
    pub(crate) fn stop_uses(&self) -> Result<Option<NoUse>, SourceError> {
        let fail = |error: rustix::io::Errno| SourceError::io("lock the store", error);
        let folder = rustix::fs::openat(&self.views, ".", FOLDER, Mode::empty()).map_err(fail)?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(NoUse(folder))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(fail(error)),
        }
    }

    /// Remembers a sources file, whose lock file keeps entries.
    pub(crate) fn remember(&self, file: &Path) -> Result<(), SourceError> {
        let fail = |error: io::Error| SourceError::io("write to the store", error);
        let bytes = file.as_os_str().as_encoded_bytes();
        let path = self.path.join("projects").join(Digest::of(bytes).to_string());
        if path.exists() {
            return Ok(());
        }
        let temporary = TempFolder::new_in(&self.temporary(), Purpose::Fetch).map_err(fail)?;
        let folder = temporary.create("project").map_err(fail)?;
        write(&folder, "path", bytes).map_err(fail)?;
        let from = temporary.path().join("project/path");
        rustix::fs::rename(&from, &path).map_err(|error| fail(error.into()))
    }

    /// Returns the sources files that were remembered. Those that are gone are forgotten.
    pub(crate) fn projects(&self) -> Result<Vec<PathBuf>, SourceError> {
        use std::os::unix::ffi::OsStringExt as _;

        let fail = |error: io::Error| SourceError::io("read the store", error);
        let folder = private::open_or_create(&self.path.join("projects")).map_err(fail)?;
        let mut files = Vec::new();
        for name in names(&folder).map_err(fail)? {
            let file = staging::open_entry(&folder, &name).map_err(fail)?;
            let mut path = Vec::new();
            File::from(file).take(1 << 16).read_to_end(&mut path).map_err(fail)?;
            let path = PathBuf::from(std::ffi::OsString::from_vec(path));
            let is_known = path.exists() || path.with_file_name(crate::lock::FILE).exists();
            match is_known || crate::journal::is_interrupted(self, &path) {
                true => files.push(path),
                false => rustix::fs::unlinkat(&folder, name.as_str(), AtFlags::empty())
                    .map_err(|error| fail(error.into()))?,
            }
        }
        Ok(files)
    }

    /// Removes the entries that are not named, and the views that lead to them.
    pub(crate) fn collect(
        &self,
        _: &NoUse,
        named: &BTreeSet<Digest>,
    ) -> Result<Collected, SourceError> {
        let fail = |error: io::Error| SourceError::io("remove files of the store", error);
        let mut collected = Collected::default();
        for name in names(&self.entries).map_err(fail)? {
            if name.parse::<Digest>().is_ok_and(|digest| named.contains(&digest)) {
                continue;
            }
            let entry = open_folder(&self.entries, &name).map_err(fail)?;
            add_sizes(&entry, &mut collected).map_err(fail)?;
            collected.entries += 1;
            private::remove(&self.entries, &name).map_err(fail)?;
        }
        self.remove_views(|target| {
            rustix::fs::statat(&self.entries, target, AtFlags::SYMLINK_NOFOLLOW).is_err()
        })?;
        Ok(collected)
    }

    /// Removes the views with a symlink to an entry, by its name, or with copies of entries: which
    /// entries those are of is not known.
    fn remove_views(&self, leads_to: impl Fn(&str) -> bool) -> Result<(), SourceError> {
        let fail = |error: io::Error| SourceError::io("remove files of the store", error);
        for name in names(&self.views).map_err(fail)? {
            let view = open_folder(&self.views, &name).map_err(fail)?;
            let is_affected = |skill: &String| {
                let target = rustix::fs::readlinkat(&view, skill.as_str(), Vec::new());
                let target = target.ok().and_then(|target| target.into_string().ok());
                target.is_none_or(|target| leads_to(target.rsplit('/').next().unwrap_or_default()))
            };
            if names(&view).map_err(fail)?.iter().any(is_affected) {
                private::remove(&self.views, &name).map_err(fail)?;
            }
        }
        Ok(())
    }

    /// Checks whether there is an entry of this digest. Its content may still be damaged.
    pub fn has(&self, digest: &Digest) -> bool {
        rustix::fs::statat(&self.entries, digest.to_string(), AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
    }

    /// Remembers where an entry is from, with the signed objects that it was fetched with.
    ///
    /// # Errors
    /// The file system fails.
    pub(crate) fn add_origin(
        &self,
        origin: &Digest,
        objects: Option<&SignedObjects>,
    ) -> Result<(), SourceError> {
        let fail = |error: io::Error| SourceError::io("write to the store", error);
        if objects.is_none() && self.has_origin(origin) {
            return Ok(());
        }
        let text = objects.map(serde_json::to_string).transpose();
        let text = text.map_err(|error| fail(error.into()))?;
        let temporary = TempFolder::new_in(&self.temporary(), Purpose::Fetch).map_err(fail)?;
        let folder = temporary.as_fd().try_clone_to_owned().map_err(fail)?;
        write(&folder, "origin", text.unwrap_or_default().as_bytes()).map_err(fail)?;
        rustix::fs::renameat(&folder, "origin", &self.origins, origin.to_string())
            .map_err(|error| fail(error.into()))
    }

    /// Returns the signed objects that an entry was fetched with.
    pub(crate) fn objects(&self, origin: &Digest) -> Option<SignedObjects> {
        read_objects(&self.origin_path(origin))
    }

    /// Returns the path of what is remembered about an origin.
    pub(crate) fn origin_path(&self, origin: &Digest) -> PathBuf {
        self.path.join("origins").join(origin.to_string())
    }

    /// Checks whether [`Store::add_origin`] was called for this origin.
    pub(crate) fn has_origin(&self, origin: &Digest) -> bool {
        rustix::fs::statat(&self.origins, origin.to_string(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the path of an entry.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.path.join("store").join(digest.to_string())
    }

    /// Reads a file at the top of an entry, up to a size.
    pub(crate) fn read_top(&self, digest: &Digest, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let entry = open_folder(&self.entries, &digest.to_string())?;
        let mut text = Vec::new();
        File::from(staging::open_entry(&entry, name)?).take(most).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Copies the files of a skill into the store, unless they are there. A damaged entry is
    /// replaced. Returns the files.
    ///
    /// # Errors
    /// A staged file was modified, or the file system fails. The store is then as before.
    pub fn import(
        &self,
        staged: &Staged,
        skill: &FoundSkill,
    ) -> Result<BTreeMap<String, Vec<u8>>, SourceError> {
        let listing = skill.listing();
        let digest = listing.digest();
        let fail = |error: io::Error| SourceError::io("write to the store", error);
        if self.has(&digest) {
            if let Ok(contents) = self.read(&digest, &listing, SizeLimits::default().total) {
                return Ok(contents);
            }
            private::remove(&self.entries, &digest.to_string()).map_err(fail)?;
            // Copies of the entry in views have the damage, too.
            self.remove_views(|_| false)?;
        }
        let temporary = TempFolder::new_in(&self.temporary(), Purpose::Fetch).map_err(fail)?;
        let entry = temporary.create("entry").map_err(fail)?;
        let (mut folders, mut contents) = (vec![String::new()], BTreeMap::new());
        for (path, file) in &skill.files {
            for folder in names::ancestors(path) {
                match rustix::fs::mkdirat(&entry, folder, Mode::RWXU) {
                    Ok(()) => folders.push(folder.to_owned()),
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(error) => return Err(fail(error.into())),
                }
            }
            let content = staged.read(&file.staged)?;
            write(&entry, path, &content).map_err(fail)?;
            contents.insert(path.clone(), content);
        }
        // A folder that is read-only cannot be moved, so the entry itself becomes so afterwards.
        for folder in folders.iter().filter(|folder| !folder.is_empty()) {
            rustix::fs::chmodat(&entry, folder.as_str(), FOLDER_MODE, AtFlags::empty())
                .map_err(|error| fail(error.into()))?;
        }
        match rustix::fs::renameat(temporary.as_fd(), "entry", &self.entries, digest.to_string()) {
            // Another process was faster.
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Ok(contents),
            Err(error) => Err(fail(error.into())),
            Ok(()) => match rustix::fs::fchmod(&entry, FOLDER_MODE) {
                Ok(()) => Ok(contents),
                Err(error) => Err(fail(error.into())),
            },
        }
    }

    /// Reads every byte of an entry, and compares it with a listing. Returns the first difference.
    ///
    /// # Errors
    /// The entry is missing, cannot be read, or differs.
    pub fn verify(&self, digest: &Digest, listing: &Listing) -> Result<(), String> {
        self.read(digest, listing, SizeLimits::default().total).map(drop)
    }

    /// Reads every file of an entry once, and compares it with a listing. `most`: the bytes of all
    /// files together.
    ///
    /// # Errors
    /// The entry is missing, cannot be read, or differs. The message has the first difference.
    pub(crate) fn read(
        &self,
        digest: &Digest,
        listing: &Listing,
        most: u64,
    ) -> Result<BTreeMap<String, Vec<u8>>, String> {
        if listing.digest() != *digest {
            return Err("the listing has another digest".to_owned());
        }
        let entry = rustix::fs::openat(&self.entries, digest.to_string(), FOLDER, Mode::empty());
        let entry = entry.map_err(|error| match error {
            rustix::io::Errno::NOENT => "the files are not in the store".to_owned(),
            error => format!("cannot open the stored files: {error}"),
        })?;
        let mut found = Contents { files: BTreeMap::new(), max: listing.0.len(), left: most };
        found.read(&entry, "")?;
        let digest = |(path, content): (&String, &Vec<u8>)| (path.clone(), Digest::of(content));
        let digests = Listing(found.files.iter().map(digest).collect());
        listing.difference(&digests).map_or(Ok(found.files), Err)
    }

    /// Returns a folder in which each of these entries has its name.
    ///
    /// # Errors
    /// The file system fails.
    pub fn view(&self, skills: &BTreeMap<String, Digest>) -> Result<PathBuf, SourceError> {
        let fail = |error: io::Error| SourceError::io("write to the store", error);
        let lines: String =
            skills.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
        let name = Digest::of(lines.as_bytes()).to_string();
        let path = self.path.join("views").join(&name);
        if rustix::fs::statat(&self.views, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(path);
        }
        let temporary = TempFolder::new_in(&self.temporary(), Purpose::Fetch).map_err(fail)?;
        let view = temporary.create("view").map_err(fail)?;
        let mut named = BTreeSet::new();
        for (skill, digest) in skills {
            // A search visits each folder once, so another name of it needs a folder of its own.
            match named.insert(digest) {
                true => rustix::fs::symlinkat(format!("../../store/{digest}"), &view, skill)
                    .map_err(|error| fail(error.into()))?,
                false => {
                    let entry = open_folder(&self.entries, &digest.to_string()).map_err(fail)?;
                    link_all(&entry, &view, skill).map_err(fail)?;
                }
            }
        }
        match rustix::fs::renameat(temporary.as_fd(), "view", &self.views, &name) {
            Ok(()) | Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Ok(path),
            Err(error) => Err(fail(error.into())),
        }
    }
}

/// Returns the names in a folder.
fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push(name.to_owned()),
        }
    }
    Ok(names)
}

/// Adds the files below a folder and their sizes.
fn add_sizes(folder: &OwnedFd, to: &mut Collected) -> io::Result<()> {
    for name in names(folder)? {
        let found = rustix::fs::statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => add_sizes(&open_folder(folder, &name)?, to)?,
            _ => {
                to.files += 1;
                to.bytes += u64::try_from(found.st_size).unwrap_or(0);
            }
        }
    }
    Ok(())
}

/// Reads the signed objects that are remembered about an origin.
pub fn read_objects(path: &Path) -> Option<SignedObjects> {
    /// Git's objects are text, and their authors are people: the longest in use have some KiB.
    const MAX: u64 = 16 << 20;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    File::from(file).take(MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Creates a folder with hard links to the files of another.
fn link_all(from: &OwnedFd, within: &OwnedFd, name: &str) -> io::Result<()> {
    rustix::fs::mkdirat(within, name, Mode::RWXU)?;
    let to = open_folder(within, name)?;
    for entry in rustix::fs::Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(text) = name.to_str().ok().filter(|name| !matches!(*name, "." | "..")) else {
            continue;
        };
        match open_folder(from, text) {
            Ok(folder) => link_all(&folder, &to, text)?,
            Err(_) => rustix::fs::linkat(from, text, &to, text, AtFlags::empty())?,
        }
    }
    rustix::fs::fchmod(&to, FOLDER_MODE)?;
    Ok(())
}

fn open_folder(within: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(within, name, FOLDER, Mode::empty())?)
}

fn write(entry: &OwnedFd, path: &str, content: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(entry, path, flags, FILE_MODE)?);
    file.write_all(content)
}

/// The files of an entry, as they are read.
struct Contents {
    files: BTreeMap<String, Vec<u8>>,
    /// The most files.
    max: usize,
    /// Bytes that may still be read.
    left: u64,
}

impl Contents {
    /// Adds the files below a folder.
    fn read(&mut self, folder: &OwnedFd, path: &str) -> Result<(), String> {
        let fail = |error: io::Error| format!("cannot read `{path}`: {error}");
        for entry in rustix::fs::Dir::read_from(folder).map_err(|error| fail(error.into()))? {
            let entry = entry.map_err(|error| fail(error.into()))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(text) = name.to_str() else {
                return Err(format!("a file in `{path}` was added"));
            };
            let inner = if path.is_empty() { text.to_owned() } else { format!("{path}/{text}") };
            let fail = |error: io::Error| format!("cannot read `{inner}`: {error}");
            let file = staging::open_entry(folder, text).map_err(fail)?;
            let stat = rustix::fs::fstat(&file).map_err(|error| fail(error.into()))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.read(&file, &inner)?,
                FileType::RegularFile => {
                    // One byte more than the file has, so that its end is seen at once.
                    let size = u64::try_from(stat.st_size).unwrap_or(0).min(self.left);
                    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
                    let mut file = File::from(file).take(self.left + 1);
                    file.read_to_end(&mut content).map_err(fail)?;
                    let left = self.left.checked_sub(content.len() as u64);
                    self.left = left.ok_or("the files are larger than a skill may be")?;
                    self.files.insert(inner, content);
                }
                _ => return Err(format!("`{inner}` is not a regular file")),
            }
            if self.files.len() > self.max {
                return Err("files were added".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use proptest::prelude::*;

    use super::*;
    use crate::limits::TransferLimits;
    use crate::skills;
    use crate::staging::Unpacker;

    const FILES: [(&str, &[u8]); 3] = [
        ("SKILL.md", b"---\nname: one\ndescription: Tests.\n---\n"),
        ("a/b/c.py", b"print()"),
        ("empty", b""),
    ];

    struct Setup {
        state: tempfile::TempDir,
        store: Store,
    }

    fn setup() -> Setup {
        let state = tempfile::tempdir().unwrap();
        Setup { store: Store::open(state.path()).unwrap(), state }
    }

    impl Setup {
        fn import(&self) -> Listing {
            let limits = TransferLimits::default();
            let mut unpacker =
                Unpacker::new(&self.store.temporary(), &limits, limits.bytes).unwrap();
            for (path, content) in FILES {
                unpacker.file(path.as_bytes(), &mut &*content).unwrap();
            }
            let staged = unpacker.finish();
            let skill = skills::read(&staged, "", &limits).unwrap();
            self.store.import(&staged, &skill).unwrap();
            skill.listing()
        }

        fn names(&self, folder: &str) -> Vec<String> {
            let entries =
                std::fs::read_dir(self.state.path().join("sources").join(folder)).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    #[test]
    fn entries_are_read_only_and_stored_once() {
        let setup = setup();
        let listing = setup.import();
        assert_eq!(setup.import(), listing);
        let digest = listing.digest();
        assert_eq!(setup.names("store"), [digest.to_string()]);
        assert!(setup.names("tmp").is_empty());
        setup.store.verify(&digest, &listing).unwrap();
        let entry = setup.store.path(&digest);
        for (path, mode) in [("", 0o500), ("a/b", 0o500), ("a/b/c.py", 0o400), ("SKILL.md", 0o400)]
        {
            let found = entry.join(path).metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{path}");
        }
    }

    type Change = fn(&Path);

    #[test]
    fn every_change_of_an_entry_is_found_and_repaired() {
        let open = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap()
        };
        let changes: [(&str, Change); 7] = [
            ("a byte", |entry| std::fs::write(entry.join("a/b/c.py"), "print[]").unwrap()),
            ("a missing file", |entry| std::fs::remove_file(entry.join("empty")).unwrap()),
            ("another file", |entry| std::fs::write(entry.join("a/more"), "").unwrap()),
            ("a symlink to the same content", |entry| {
                std::fs::rename(entry.join("a/b/c.py"), entry.join("../outside")).unwrap();
                symlink("../../../outside", entry.join("a/b/c.py")).unwrap();
            }),
            ("a symlinked folder", |entry| {
                std::fs::rename(entry.join("a"), entry.join("../folder")).unwrap();
                symlink("../folder", entry.join("a")).unwrap();
            }),
            ("another case", |entry| {
                std::fs::rename(entry.join("empty"), entry.join("Empty")).unwrap()
            }),
            ("a pipe", |entry| {
                std::fs::remove_file(entry.join("empty")).unwrap();
                let path = entry.join("empty");
                rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
            }),
        ];
        for (what, change) in changes {
            let setup = setup();
            let listing = setup.import();
            let digest = listing.digest();
            let entry = setup.store.path(&digest);
            for folder in ["", "a", "a/b"] {
                open(&entry.join(folder));
            }
            for (file, _) in FILES {
                std::fs::set_permissions(entry.join(file), std::fs::Permissions::from_mode(0o600))
                    .unwrap();
            }
            change(&entry);
            setup.store.verify(&digest, &listing).expect_err(what);
            setup.import();
            setup.store.verify(&digest, &listing).expect(what);
        }
    }

    #[test]
    fn repaired_entry_is_repaired_in_views_with_copies() {
        let setup = setup();
        let digest = setup.import().digest();
        let skills = BTreeMap::from([("one".to_owned(), digest), ("other".to_owned(), digest)]);
        let view = setup.store.view(&skills).unwrap();
        let copy = view.join("other/a/b/c.py");
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&copy, "print[]").unwrap();
        setup.import();
        let view = setup.store.view(&skills).unwrap();
        for name in ["one", "other"] {
            assert_eq!(std::fs::read(view.join(name).join("a/b/c.py")).unwrap(), b"print()");
        }
    }

    #[test]
    fn entries_that_are_not_named_are_removed_with_their_views() {
        let setup = setup();
        let digest = setup.import().digest();
        let view = setup.store.view(&BTreeMap::from([("one".to_owned(), digest)])).unwrap();
        let free = setup.store.stop_uses().unwrap().unwrap();
        assert_eq!(setup.store.collect(&free, &[digest].into()).unwrap(), Collected::default());
        assert!(view.join("one/SKILL.md").exists());
        let collected = setup.store.collect(&free, &BTreeSet::new()).unwrap();
        let bytes = FILES.iter().map(|(_, content)| content.len() as u64).sum();
        assert_eq!(collected, Collected { entries: 1, files: 3, bytes });
        assert!(setup.names("store").is_empty() && setup.names("views").is_empty());
        drop(free);
        let kept = setup.store.keep_all().unwrap();
        assert!(setup.store.stop_uses().unwrap().is_none(), "another process fetches");
        drop(kept);
        assert!(setup.store.stop_uses().unwrap().is_some());
    }

    #[test]
    fn views_name_entries() {
        let setup = setup();
        let digest = setup.import().digest();
        let skills = BTreeMap::from([("one".to_owned(), digest), ("other".to_owned(), digest)]);
        let view = setup.store.view(&skills).unwrap();
        assert_eq!(setup.store.view(&skills).unwrap(), view);
        for name in ["one", "other"] {
            assert_eq!(std::fs::read(view.join(name).join("a/b/c.py")).unwrap(), b"print()");
        }
        let link = |name: &str| view.join(name).is_symlink();
        assert!(link("one") && !link("other"), "two names are two folders");
        assert!(setup.names("tmp").is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn any_changed_byte_is_found(file in 0..2_usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let setup = setup();
            let listing = setup.import();
            let path = setup.store.path(&listing.digest()).join(FILES[file].0);
            let mut content = FILES[file].1.to_owned();
            let at = at.index(content.len());
            prop_assume!(content[at] != byte);
            content[at] = byte;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::write(&path, content).unwrap();
            prop_assert!(setup.store.verify(&listing.digest(), &listing).is_err());
        }
    }
}
