//! The private folder into which a transfer is unpacked, before anything of it is used.
//!
//! Folders are opened one by one below the staging folder without following symlinks, and files are
//! created anew, so an entry cannot be written elsewhere. Symlinks are remembered and never created.
//! Owners, times and modes of entries are ignored. Every limit counts while the data arrives.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use skillhost_policy::limits::show_size;
use skillhost_skill::private::{Purpose, TempFolder};

use crate::digest::Digest;
use crate::error::{Refusal, RefusalRule, SourceError};
use crate::limits::TransferLimits;
use crate::names::{self, EntryKind, NameTable};

/// What a transfer holds, by path. Nothing in it was interpreted yet.
pub struct Staged {
    /// The folder with the files. Removed with this value.
    folder: TempFolder,
    root: Dir,
    /// The files, folders and symlinks.
    pub entries: BTreeMap<String, StagedEntry>,
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// An entry of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StagedEntry {
    /// A folder.
    Folder,
    /// A file, as it was written.
    File {
        /// Its size in bytes.
        size: u64,
        /// Its digest.
        digest: Digest,
    },
    /// A symlink. Its target does not lead out of the transfer.
    Link {
        /// The target, relative to the folder of the symlink.
        target: String,
    },
}

impl Staged {
    /// Reads a file, and checks that it is the one that was written.
    ///
    /// # Errors
    /// The file cannot be read, or differs.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, SourceError> {
        let Some(StagedEntry::File { size, digest }) = self.entries.get(path) else {
            let error = io::Error::from(io::ErrorKind::NotFound);
            return Err(SourceError::io(format!("read the staged file `{path}`"), error));
        };
        let fail =
            |error: io::Error| SourceError::io(format!("read the staged file `{path}`"), error);
        let file =
            open(self.root.as_fd().try_clone_to_owned().map_err(fail)?, path).map_err(fail)?;
        let mut bytes = Vec::with_capacity(usize::try_from(*size).unwrap_or(0) + 1);
        std::fs::File::from(file).take(size + 1).read_to_end(&mut bytes).map_err(fail)?;
        match Digest::of(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(fail(io::Error::other("it was modified"))),
        }
    }

    /// Continues the transfer, whose limits count what is there.
    pub(crate) fn reopen(self, limits: &TransferLimits) -> Result<Unpacker, SourceError> {
        let mut names = NameTable::default();
        let mut left = limits.bytes;
        for (path, entry) in &self.entries {
            let kind = match entry {
                StagedEntry::Folder => EntryKind::Folder,
                StagedEntry::File { .. } | StagedEntry::Link { .. } => EntryKind::Leaf,
            };
            names.add(path, kind)?;
            if let StagedEntry::File { size, .. } = entry {
                left = left.saturating_sub(*size);
            }
        }
        let (entries, limits) = (self.entries.len() as u64, limits.clone());
        let prefix = String::new();
        Ok(Unpacker { staged: self, limits, names, left, entries, prefix, last: None })
    }

    /// Removes the folder now, and reports errors.
    ///
    /// # Errors
    /// Something in it cannot be removed.
    pub fn close(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Receives the entries of one transfer.
pub struct Unpacker {
    staged: Staged,
    limits: TransferLimits,
    names: NameTable,
    /// Bytes that may still be unpacked.
    left: u64,
    entries: u64,
    /// The folder below which everything is added; empty for the top.
    prefix: String,
    /// The folder that the last file was written to: archives list a folder's files together.
    last: Option<(String, OwnedFd)>,
}

impl Unpacker {
    /// Creates an empty folder in `within`. `allowed`: the bytes that may be unpacked.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(
        within: &Path,
        limits: &TransferLimits,
        allowed: u64,
    ) -> Result<Unpacker, SourceError> {
        let fail = |error: io::Error| {
            SourceError::io(format!("create a folder in {}", within.display()), error)
        };
        let folder = TempFolder::new_in(within, Purpose::Fetch).map_err(fail)?;
        let root = Dir::from_std_file(folder.as_fd().try_clone_to_owned().map_err(fail)?.into());
        Ok(Unpacker {
            staged: Staged { folder, root, entries: BTreeMap::new() },
            limits: limits.clone(),
            names: NameTable::default(),
            left: allowed.min(limits.bytes),
            entries: 0,
            prefix: String::new(),
            last: None,
        })
    }

    /// Returns the limits.
    pub fn limits(&self) -> &TransferLimits {
        &self.limits
    }

    /// Adds everything from now on below a folder, by its path from the top.
    ///
    /// # Errors
    /// A rule or a limit refuses the folder.
    pub(crate) fn enter(&mut self, folder: &str) -> Result<(), SourceError> {
        self.prefix.clear();
        let folder_path = names::parse(folder.as_bytes())?;
        self.folder(folder.as_bytes())?;
        self.prefix = folder_path;
        Ok(())
    }

    /// Returns the path of an entry.
    fn parse(&self, raw: &[u8]) -> Result<String, Refusal> {
        let path = names::parse(raw)?;
        Ok(match (self.prefix.as_str(), path.is_empty()) {
            ("", _) => path,
            (prefix, true) => prefix.to_owned(),
            (prefix, false) => format!("{prefix}/{path}"),
        })
    }

    /// Reads a file that was added.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, SourceError> {
        self.staged.read(path)
    }

    /// Returns what was added so far.
    pub(crate) fn entries(&self) -> &BTreeMap<String, StagedEntry> {
        &self.staged.entries
    }

    /// Adds a folder.
    ///
    /// # Errors
    /// A rule or a limit refuses it, or the file system fails.
    pub fn folder(&mut self, raw: &[u8]) -> Result<(), SourceError> {
        self.count()?;
        let path = self.parse(raw)?;
        if path.is_empty() || names::is_repository(&path) {
            return Ok(());
        }
        self.make_folder(&path, true)
    }

    /// Adds a file with the content that `from` returns to its end. Returns its size.
    ///
    /// # Errors
    /// A rule or a limit refuses it, `from` fails, or the file system fails.
    pub fn file(&mut self, raw: &[u8], from: &mut dyn Read) -> Result<u64, SourceError> {
        self.count()?;
        let path = self.parse(raw)?;
        if path.is_empty() {
            let why = "a file has no name";
            return Err(Refusal::at(RefusalRule::InvalidName, raw, why).into());
        }
        if names::is_repository(&path) {
            return self.copy(raw, from, &mut io::sink()).map(|(size, _)| size);
        }
        let fail =
            |error: io::Error| SourceError::io(format!("write the staged file `{path}`"), error);
        let folder = names::parent(&path);
        self.make_folder(folder, false)?;
        self.names.add(&path, EntryKind::Leaf)?;
        let folder = self.open_folder(folder).map_err(fail)?;
        let name = path.rsplit('/').next().unwrap_or(&path);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = std::fs::File::from(file.map_err(|error| fail(error.into()))?);
        let (size, digest) = self.copy(raw, from, &mut file)?;
        self.staged.entries.insert(path, StagedEntry::File { size, digest });
        Ok(size)
    }

    /// Remembers a symlink.
    ///
    /// # Errors
    /// A rule or a limit refuses it: among others, the target leads out of the transfer.
    pub fn link(&mut self, raw: &[u8], target: &[u8]) -> Result<(), SourceError> {
        self.count()?;
        let path = self.parse(raw)?;
        if names::is_repository(&path) {
            return Ok(());
        }
        let outside = |why: &str| Err(Refusal::at(RefusalRule::LinkOutside, raw, why).into());
        let Some(target) = str::from_utf8(target).ok().filter(|target| is_plain(target)) else {
            let why = "the target of the symlink is not a plain path";
            return Err(Refusal::at(RefusalRule::InvalidName, raw, why).into());
        };
        if target.starts_with('/') {
            return outside("the symlink has an absolute target");
        }
        if path.is_empty() || !stays_inside(names::parent(&path), target) {
            return outside("the symlink points outside");
        }
        self.make_folder(names::parent(&path), false)?;
        self.names.add(&path, EntryKind::Leaf)?;
        self.staged.entries.insert(path, StagedEntry::Link { target: target.to_owned() });
        Ok(())
    }

    /// Ends the transfer.
    pub fn finish(self) -> Staged {
        self.staged
    }

    /// Counts an entry, also one that is ignored.
    ///
    /// # Errors
    /// There are too many.
    pub fn count(&mut self) -> Result<(), Refusal> {
        self.entries += 1;
        match self.entries <= self.limits.entries {
            true => Ok(()),
            false => {
                let why = format!("more than {} files and folders", self.limits.entries);
                Err(Refusal::new(RefusalRule::EntryCount, why))
            }
        }
    }

    /// Creates a folder and its parents. Folders that no entry names count as entries.
    fn make_folder(&mut self, path: &str, is_named: bool) -> Result<(), SourceError> {
        if path.is_empty() || self.staged.entries.get(path) == Some(&StagedEntry::Folder) {
            return Ok(());
        }
        for folder in names::ancestors(path).chain([path]) {
            if !self.names.add(folder, EntryKind::Folder)? {
                continue;
            }
            if folder != path || !is_named {
                self.count()?;
            }
            let fail = |error: io::Error| {
                SourceError::io(format!("create the staged folder `{folder}`"), error)
            };
            let parent = self.open_folder(names::parent(folder)).map_err(fail)?;
            let name = folder.rsplit('/').next().unwrap_or(folder);
            rustix::fs::mkdirat(&parent, name, Mode::RWXU).map_err(|error| fail(error.into()))?;
            self.staged.entries.insert(folder.to_owned(), StagedEntry::Folder);
        }
        Ok(())
    }

    /// Opens a folder that was created here.
    fn open_folder(&mut self, path: &str) -> io::Result<OwnedFd> {
        if let Some((last, folder)) = &self.last
            && last == path
        {
            return folder.try_clone();
        }
        let root = self.staged.root.as_fd().try_clone_to_owned()?;
        let folder = open_folder(root, path)?;
        self.last = Some((path.to_owned(), folder.try_clone()?));
        Ok(folder)
    }

    fn copy(
        &mut self,
        raw: &[u8],
        from: &mut dyn Read,
        to: &mut dyn io::Write,
    ) -> Result<(u64, Digest), SourceError> {
        let (mut size, mut hash, mut buffer) = (0, Sha256::new(), [0; 16 << 10]);
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) => return Ok((size, Digest::from(hash))),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(SourceError::Input(error)),
            };
            self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
                let why = format!("the content is larger than {}", show_size(self.limits.bytes));
                Refusal::at(RefusalRule::TransferSize, raw, why)
            })?;
            hash.update(&buffer[..read]);
            to.write_all(&buffer[..read])
                .map_err(|error| SourceError::io("write a staged file", error))?;
            size += read as u64;
        }
    }
}

/// Checks whether a target, seen from a folder, stays below the top.
fn stays_inside(folder: &str, target: &str) -> bool {
    let mut depth = folder.split('/').filter(|name| !name.is_empty()).count();
    target.split('/').all(|name| match name {
        "" | "." => true,
        ".." => match depth.checked_sub(1) {
            Some(above) => {
                depth = above;
                true
            }
            None => false,
        },
        _ => {
            depth += 1;
            true
        }
    })
}

fn is_plain(target: &str) -> bool {
    !target.is_empty()
        && target.len() <= crate::limits::PATH
        && !target.chars().any(|char| char.is_control() || char == '\\')
}

/// Opens a folder below another one by one, without following symlinks.
pub(crate) fn open_folder(root: impl Into<OwnedFd>, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    path.split('/').filter(|name| !name.is_empty()).try_fold(root.into(), |folder, name| {
        Ok(rustix::fs::openat(&folder, name, flags, Mode::empty())?)
    })
}

/// Opens a regular file below a folder, without following symlinks.
fn open(root: OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let folder = open_folder(root, names::parent(path))?;
    let file = open_entry(&folder, path.rsplit('/').next().unwrap_or(path))?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    match kind {
        rustix::fs::FileType::RegularFile => Ok(file),
        _ => Err(io::Error::other("not a regular file")),
    }
}

/// Opens an entry of a folder, without following a symlink and without waiting at a pipe.
pub(crate) fn open_entry(folder: impl std::os::fd::AsFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}
