//! The files of a skill: lists them, reads them within limits, and computes digests. All access goes
//! through the `Dir` of the skill, so it cannot leave the folder.

mod ignore;

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use ignore::Ignore;

use super::{SizeLimits, Skill};
use crate::private::TempFolder;
use crate::runtime::stamp;
use skillhost_policy::diagnostic::Diagnostic;
use skillhost_policy::limits::show_size;
use skillhost_policy::manifest::rules::{self, LoadEffect, SkillRule};

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct SkillFile {
    /// The path in the skill, separated by `/`.
    pub path: String,
    /// Size in bytes. For a symlink, the size of its target, or 0 for a folder.
    pub size: u64,
    /// The target of a symlink, as written. It is known to be inside the skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The identity of the file, or of the symlink itself.
    #[serde(skip)]
    pub identity: FileIdentity,
}

/// The inode and times of a file. The kernel updates `changed` on every write, and nothing can set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FileIdentity {
    pub(crate) device: u64,
    inode: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl FileIdentity {
    pub(crate) fn of(found: &Metadata) -> FileIdentity {
        FileIdentity {
            device: found.dev(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Returns the identity in a file's metadata.
    pub fn of_stat(found: &rustix::fs::Stat) -> FileIdentity {
        FileIdentity {
            device: found.st_dev,
            inode: found.st_ino,
            modified: (found.st_mtime, found.st_mtime_nsec.cast_signed()),
            changed: (found.st_ctime, found.st_ctime_nsec.cast_signed()),
        }
    }

    /// Returns the identity as bytes, for a cache.
    pub fn bytes(&self) -> [u8; 48] {
        let (modified, changed) = (self.modified, self.changed);
        let parts = [
            self.device.cast_signed(),
            self.inode.cast_signed(),
            modified.0,
            modified.1,
            changed.0,
            changed.1,
        ];
        let mut bytes = [0; 48];
        bytes
            .chunks_exact_mut(8)
            .zip(parts)
            .for_each(|(to, part)| to.copy_from_slice(&part.to_le_bytes()));
        bytes
    }
}

impl Skill {
    /// Returns the digest of the skill's content, as `sha256:<hex>`.
    ///
    /// The hash covers the line `skillhost skill 1`, then each of `files`, in byte order of their
    /// paths: `f` for a file or `l` for a symlink, the length of the path and the path, the length
    /// of the content and the content. The content of a symlink is its target as written. Lengths
    /// are 8 bytes, little endian. The hash ignores times, owners and modes, which differ between
    /// clones.
    ///
    /// # Errors
    /// A file cannot be read, or its size changed since the skill was loaded.
    pub fn digest(&self) -> io::Result<String> {
        self.digest_of(|file| read_listed(self.content.dir(), file))
    }

    /// Returns the digest of the skill with contents that the caller has read; see
    /// [`Skill::digest`].
    ///
    /// # Errors
    /// Those of `read`.
    pub fn digest_of<C: AsRef<[u8]>>(
        &self,
        mut read: impl FnMut(&SkillFile) -> io::Result<C>,
    ) -> io::Result<String> {
        let mut hash = ContentHash::new();
        for file in &self.files {
            match file.link {
                Some(_) => hash.add(file, b""),
                None => hash.add(file, read(file)?.as_ref()),
            }
        }
        Ok(hash.finish())
    }

    /// Checks whether no file or folder was changed, added or removed since the skill was listed.
    ///
    /// Does not notice a second write within the same tick of the kernel's clock, which takes some
    /// milliseconds.
    pub fn is_current(&self) -> bool {
        let same = |listed: &SkillFile| {
            let path = if listed.path.is_empty() { "." } else { &listed.path };
            let now =
                rustix::fs::statat(self.live.dir(), path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
            now.is_ok_and(|now| FileIdentity::of_stat(&now) == listed.identity)
        };
        self.folders.iter().chain(&self.files).all(same)
    }

    /// Checks whether [`Skill::is_current`] notices every change since the skill was listed, which
    /// was at this time or later: its files had settled, and their file system is a local one.
    pub fn shows_changes(&self, listed: SystemTime) -> bool {
        let Ok(root) = rustix::fs::fstat(&self.live) else { return false };
        let mut all = self.folders.iter().chain(&self.files).map(|file| &file.identity);
        let newest = all.clone().map(|identity| identity.changed).max().unwrap_or_default();
        all.all(|identity| identity.device == root.st_dev)
            && stamp::is_settled(newest, listed)
            && stamp::has_reliable_ctime(self.live.dir())
    }

    /// Checks whether the skill's path still leads to the folder that was opened, and whether the
    /// copy that runs still exists. The folder stays open, so no other folder can have its inode.
    pub fn is_in_place(&self) -> bool {
        let there = rustix::fs::stat(&self.root).map(|found| (found.st_dev, found.st_ino));
        let own = rustix::fs::fstat(&self.live).map(|found| (found.st_dev, found.st_ino));
        let copy = rustix::fs::fstat(self.content.dir());
        there.is_ok() && there == own && copy.is_ok_and(|copy| copy.st_nlink > 0)
    }

    /// Reads one of `files`, up to the size limit of a skill.
    ///
    /// # Errors
    /// `NotFound` if the path is not in `files`, `FileTooLarge` if the file exceeds the limit, or
    /// another error if it cannot be read.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if self.files.binary_search_by(|f| f.path.as_str().cmp(path)).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("`{path}` is not a file of the skill"),
            ));
        }
        read_bounded(self.content.dir(), path, self.caps.total)
    }

    /// Reads the start of one of `files`, at most `bytes`.
    ///
    /// # Errors
    /// As [`Skill::read`], except `FileTooLarge`.
    pub fn head(&self, path: &str, bytes: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::with_capacity(bytes);
        open(self.content.dir(), path)?.take(bytes as u64).read_to_end(&mut head)?;
        Ok(head)
    }
}

/// The folder from which the files of a skill are read.
#[derive(Debug)]
pub struct Content {
    dir: Dir,
    /// The folder to remove when this value is dropped.
    _temporary: Option<TempFolder>,
}

impl Content {
    /// Creates content in a temporary folder, which is removed when the value is dropped.
    pub(crate) fn temporary(dir: Dir, folder: TempFolder) -> Content {
        Content { dir, _temporary: Some(folder) }
    }

    /// Returns the opened folder.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }
}

impl From<Dir> for Content {
    fn from(dir: Dir) -> Content {
        Content { dir, _temporary: None }
    }
}

impl AsFd for Content {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Computes the hash that [`Skill::digest`] describes.
pub(crate) struct ContentHash(Sha256);

impl ContentHash {
    pub(crate) fn new() -> ContentHash {
        ContentHash(Sha256::new_with_prefix(b"skillhost skill 1\n"))
    }

    /// Adds the next file, in the order of paths. Ignores `content` for a symlink.
    pub(crate) fn add(&mut self, file: &SkillFile, content: &[u8]) {
        let (kind, content) =
            file.link.as_ref().map_or((b"f", content), |target| (b"l", target.as_bytes()));
        self.0.update(kind);
        for part in [file.path.as_bytes(), content] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0.finalize().iter().fold("sha256:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
    }
}

/// Reads a file, and checks that its size is the listed one.
pub(crate) fn read_listed(dir: &Dir, file: &SkillFile) -> io::Result<Vec<u8>> {
    let changed =
        || io::Error::other(format!("`{}` was modified after the skill was loaded", file.path));
    match read_bounded(dir, &file.path, file.size) {
        Ok(bytes) if bytes.len() as u64 == file.size => Ok(bytes),
        Err(error) if error.kind() != io::ErrorKind::FileTooLarge => Err(error),
        _ => Err(changed()),
    }
}

/// Reads a regular file of at most `cap` bytes.
pub(crate) fn read_bounded(dir: &Dir, path: impl AsRef<Path>, cap: u64) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let file = open(dir, path)?;
    let mut bytes =
        Vec::with_capacity(usize::try_from(file.metadata()?.len().min(cap)).unwrap_or(0) + 1);
    file.take(cap + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("`{}` is larger than {}", path.display(), show_size(cap)),
        ));
    }
    Ok(bytes)
}

/// Opens a regular file. Uses `O_NONBLOCK`, because opening a pipe would wait for a writer.
pub(crate) fn open(dir: &Dir, path: impl AsRef<Path>) -> io::Result<File> {
    let path = path.as_ref();
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = dir.open_with(path, OpenOptions::new().read(true).custom_flags(flags))?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("`{}` is not a regular file", path.display()))),
    }
}

/// Opens a folder of the skill to list it. Refuses a symlink.
pub(crate) fn open_to_list(root: &Dir, folder: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    if folder.is_empty() {
        return Ok(rustix::fs::openat(
            root,
            ".",
            flags | OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?);
    }
    Ok(root
        .open_with(folder, OpenOptions::new().read(true).custom_flags(flags.bits() as i32))?
        .into_std()
        .into())
}

/// The files of a folder in byte order of their paths, and the problems with them.
pub(super) struct Listing<'a> {
    root: &'a Dir,
    shown_root: &'a Path,
    caps: &'a SizeLimits,
    ignore: Option<Ignore>,
    pub(super) files: Vec<SkillFile>,
    pub(super) folders: Vec<SkillFile>,
    /// The files and folders that `.skillignore` leaves out, without what is in the folders.
    pub(super) left_out: Vec<String>,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) effect: LoadEffect,
    entries: usize,
    bytes: u64,
}

/// Lists a skill's folder. Stops when a limit is exceeded.
pub(super) fn list<'a>(root: &'a Dir, shown_root: &'a Path, caps: &'a SizeLimits) -> Listing<'a> {
    let mut listing = Listing {
        root,
        shown_root,
        caps,
        ignore: None,
        files: Vec::new(),
        folders: Vec::new(),
        left_out: Vec::new(),
        diagnostics: Vec::new(),
        effect: LoadEffect::Loads,
        entries: 0,
        bytes: 0,
    };
    match Ignore::read(root) {
        Ok(ignore) => listing.ignore = ignore,
        Err(message) => listing.report(&rules::SKILLIGNORE, ignore::NAME, message),
    }
    // The folders still to be listed. Symlinks are not followed, so there are no cycles.
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop()
        && listing.effect != LoadEffect::Refused
    {
        if let Err(error) = listing.folder(&folder, &mut folders) {
            listing.report(&rules::UNREADABLE, &folder, format!("cannot read the folder: {error}"));
        }
    }
    listing.files.sort();
    listing.remove_links_to_left_out();
    listing.left_out.sort();
    listing.diagnostics.sort_by(|a, b| a.file.cmp(&b.file));
    listing
}

impl Listing<'_> {
    fn folder(&mut self, folder: &str, folders: &mut Vec<String>) -> io::Result<()> {
        let opened = open_to_list(self.root, folder)?;
        // Take the identity before reading, so that a later change shows.
        let identity = FileIdentity::of_stat(&rustix::fs::fstat(&opened)?);
        self.folders.push(SkillFile { path: folder.to_owned(), size: 0, link: None, identity });
        let mut entries = rustix::fs::Dir::new(opened)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > self.caps.files {
                let message =
                    format!("the skill has more than {} files and folders", self.caps.files);
                self.report(&rules::SKILL_FILES, "", message);
                return Ok(());
            }
            let Ok(name) = name.to_str() else {
                let message = format!(
                    "`{}` is not valid UTF-8 and is ignored",
                    name.to_string_lossy().escape_debug()
                );
                self.report(&rules::FILE_NAME, folder, message);
                continue;
            };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let found = rustix::fs::statat(entries.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let kind = FileType::from_raw_mode(found.st_mode);
            if self
                .ignore
                .as_ref()
                .is_some_and(|i| i.leaves_out(&path, kind == FileType::Directory))
            {
                self.left_out.push(path);
                continue;
            }
            match kind {
                FileType::Directory => folders.push(path),
                FileType::Symlink => self.link(path, FileIdentity::of_stat(&found)),
                FileType::RegularFile => self.file(path, &found),
                _ => self.report(
                    &rules::FILE_KIND,
                    &path,
                    "this is not a file, folder or symlink, and is ignored".into(),
                ),
            }
            if self.effect == LoadEffect::Refused {
                return Ok(());
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String, found: &Stat) {
        let size = found.st_size.cast_unsigned();
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > self.caps.total {
            let message = format!(
                "the files of the skill are larger than {} in total",
                show_size(self.caps.total)
            );
            self.report(&rules::SKILL_SIZE, "", message);
        }
        self.files.push(SkillFile {
            path,
            size,
            link: None,
            identity: FileIdentity::of_stat(found),
        });
    }

    fn link(&mut self, path: String, identity: FileIdentity) {
        let target = self
            .root
            .read_link_contents(&path)
            .map(|t| t.to_string_lossy().into_owned())
            .unwrap_or_default();
        match self.root.metadata(&path) {
            Ok(to) if to.is_file() => {
                self.files.push(SkillFile { path, size: to.len(), link: Some(target), identity })
            }
            Ok(to) if to.is_dir() => {
                self.files.push(SkillFile { path, size: 0, link: Some(target), identity })
            }
            Ok(_) => self.report(
                &rules::FILE_KIND,
                &path,
                "the symlink points to neither a file nor a folder, and is ignored".into(),
            ),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.report(
                    &rules::LINK_OUTSIDE,
                    &path,
                    format!(
                        "the symlink points outside the skill, to `{}`, and is ignored",
                        skillhost_policy::manifest::abbreviate(&target)
                    ),
                );
            }
            Err(error) => {
                self.report(&rules::LINK_BROKEN, &path, format!("broken symlink: {error}"))
            }
        }
    }

    /// Removes the symlinks whose target `.skillignore` leaves out: the copy that runs lacks it.
    fn remove_links_to_left_out(&mut self) {
        if self.left_out.is_empty() {
            return;
        }
        let root = self.root;
        let is_left_out = |link: &str| {
            let Ok(target) = root.canonicalize(link) else { return true };
            target.ancestors().any(|part| {
                part.to_str().is_some_and(|part| self.left_out.iter().any(|left| left == part))
            })
        };
        let broken: Vec<String> = self
            .files
            .iter()
            .filter(|file| file.link.is_some() && is_left_out(&file.path))
            .map(|file| file.path.clone())
            .collect();
        self.files.retain(|file| !broken.contains(&file.path));
        for path in broken {
            let message = "the symlink points to a file or folder that `.skillignore` leaves out, \
                           and is ignored";
            self.report(&rules::LINK_BROKEN, &path, message.into());
        }
    }

    fn report(&mut self, rule: &SkillRule, path: &str, message: String) {
        self.effect = self.effect.max(rule.effect);
        let file =
            if path.is_empty() { self.shown_root.to_owned() } else { self.shown_root.join(path) }
                .display()
                .to_string();
        self.diagnostics.push(Diagnostic {
            severity: rule.severity,
            rule: rule.name,
            message,
            file,
            span: None,
            fix: fix(rule),
        });
    }
}

fn fix(rule: &SkillRule) -> Option<String> {
    let fix = match rule {
        r if *r == rules::LINK_OUTSIDE => "replace the symlink with a copy of the file",
        r if *r == rules::LINK_BROKEN || *r == rules::FILE_KIND => "remove it",
        r if *r == rules::SKILL_FILES || *r == rules::SKILL_SIZE => {
            "keep build output, caches and data out of the skill's folder, or name them in `.skillignore`; or raise the limit with `--skill-size SIZE`, or `skill-size: SIZE` in the policy, up to 256 MiB: each 10 MiB allow 2,000 files and folders"
        }
        _ => return None,
    };
    Some(fix.into())
}
