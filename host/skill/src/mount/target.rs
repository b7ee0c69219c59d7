//! The folder of an agent, in which skills are mounted. Every process that changes it first locks it.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{CheckedSkill, MountError, MountedSkill, SKILL_MD, failed, refused, tree};
use crate::files::{self, read_listed};
use crate::runtime::stamp;
use crate::{SizeLimits, open_folder, private};
use skillhost_policy::diagnostic::quoted;
use skillhost_policy::manifest;

/// The record of what was mounted.
const INDEX: &str = ".skillhost-mounts.json";
/// Bytes of the index: enough for ten thousand skills.
const MAX_INDEX: u64 = 8 << 20;
/// The instructions of a disabled skill. No agent looks for a file of this name.
const DISABLED: &str = "SKILL.md.disabled";
/// How the names of the folders start in which skills are written.
const STAGING: &str = ".skillhost-mount-";

/// The content of the index.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    /// By name.
    skills: BTreeMap<String, Entry>,
}

impl Default for Index {
    fn default() -> Index {
        Index { version: 1, skills: BTreeMap::new() }
    }
}

/// What was mounted under one name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    source: String,
    digest: String,
    /// The digest of the skill that this one replaces. A host that was killed may not have replaced
    /// it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaces: Option<String>,
    instructions_only: bool,
    files: usize,
    bytes: u64,
}

/// What is at the place of a skill.
enum Found {
    Nothing,
    /// A mounted skill with this digest.
    Mounted(String),
    /// A mounted skill whose files were changed.
    Changed,
    /// Something that was not mounted.
    Other,
}

/// An agent's folder, open and locked.
pub(super) struct Target {
    path: PathBuf,
    dir: Arc<Dir>,
    index: Index,
    _lock: OwnedFd,
}

impl Target {
    /// Opens the folder, and creates it if it is missing. Removes what killed hosts have left.
    pub(super) fn open(path: &Path) -> Result<Target, MountError> {
        private::create_missing(path).map_err(|error| failed(path, "create the folder", &error))?;
        let dir = open_folder(path).map_err(|(why, fix)| refused(path, why, fix))?;
        // The handle of `dir` may be for paths only, which cannot be locked.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let lock = rustix::fs::openat(&dir, ".", flags, Mode::empty())
            .and_then(|lock| {
                rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
                Ok(lock)
            })
            .map_err(|error| failed(path, "lock the folder", &error.into()))?;
        let index = read_index(&dir, path)?;
        let target = Target { path: path.to_owned(), dir: Arc::new(dir), index, _lock: lock };
        target.sweep().map_err(|error| failed(path, "remove unfinished folders", &error))?;
        Ok(target)
    }

    /// Writes a skill, and puts it in its place.
    pub(super) fn place(&mut self, skill: &CheckedSkill) -> Result<MountedSkill, MountError> {
        let replaced = match self.found(&skill.name) {
            Found::Nothing => None,
            Found::Mounted(digest) => Some(digest),
            Found::Changed => return Err(self.taken(&skill.name, "was changed after mounting")),
            Found::Other => return Err(self.taken(&skill.name, "was not mounted by skillhost")),
        };
        if skill.tree.files.contains_key(DISABLED) {
            let why =
                format!("it has a file {DISABLED}, which is the name of disabled instructions");
            return Err(refused(&skill.source, why, "rename or remove the file"));
        }
        let mut staged = Staged::write(self.dir.clone(), skill)
            .map_err(|error| failed(&self.path, "write the skill", &error))?;
        let mut entry = Entry {
            source: skill.source.display().to_string(),
            digest: skill.tree.digest(),
            replaces: replaced.clone(),
            instructions_only: skill.instructions_only,
            files: skill.tree.files.len(),
            bytes: skill.tree.bytes(),
        };
        let previous = self.index.skills.get(&skill.name).cloned();
        self.record(&skill.name, Some(entry.clone()))?;
        let moved = match &replaced {
            None => staged.place(&skill.name),
            Some(old) => staged.replace(&skill.name, old),
        };
        if let Err(error) = moved {
            self.record(&skill.name, previous)?;
            return Err(match error {
                Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR => {
                    self.taken(&skill.name, "was created or changed at the same moment")
                }
                error => failed(&self.path, "move the skill into place", &error.into()),
            });
        }
        entry.replaces = None;
        self.record(&skill.name, Some(entry.clone()))?;
        Ok(self.mounted(&skill.name, &entry, skill.is_enabled, false))
    }

    /// Enables or disables a skill that was mounted.
    pub(super) fn set_enabled(
        &self,
        name: &str,
        is_enabled: bool,
    ) -> Result<MountedSkill, MountError> {
        let mounted = self.index.skills.get(name).zip(self.open_skill(name));
        let (entry, folder) =
            mounted.ok_or_else(|| MountError::NotFound { path: self.path.join(name) })?;
        let (from, to) = if is_enabled { (DISABLED, SKILL_MD) } else { (SKILL_MD, DISABLED) };
        // Only this process changes the folder: it holds the lock.
        if rustix::fs::statat(&folder, to, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            rustix::fs::renameat(&folder, from, &folder, to).map_err(|error| {
                failed(&self.path.join(name), &format!("rename {from} to {to}"), &error.into())
            })?;
        }
        let is_changed = !matches!(self.found(name), Found::Mounted(_));
        Ok(self.mounted(name, entry, is_enabled, is_changed))
    }

    /// Lists the skills that were mounted and still exist.
    pub(super) fn list(&self) -> Result<Vec<MountedSkill>, MountError> {
        let mounted = self.index.skills.iter().filter_map(|(name, entry)| {
            let folder = self.open_skill(name)?;
            let is_enabled =
                rustix::fs::statat(&folder, SKILL_MD, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            let is_changed = !matches!(self.found(name), Found::Mounted(_));
            Some(self.mounted(name, entry, is_enabled, is_changed))
        });
        Ok(mounted.collect())
    }

    fn mounted(
        &self,
        name: &str,
        entry: &Entry,
        is_enabled: bool,
        is_changed: bool,
    ) -> MountedSkill {
        MountedSkill {
            name: name.to_owned(),
            folder: self.path.join(name),
            source: PathBuf::from(&entry.source),
            digest: entry.digest.clone(),
            is_enabled,
            instructions_only: entry.instructions_only,
            is_changed,
            files: entry.files,
            bytes: entry.bytes,
        }
    }

    fn found(&self, name: &str) -> Found {
        if self.stat(name) == Err(Errno::NOENT) {
            return Found::Nothing;
        }
        let Some((entry, folder)) = self.index.skills.get(name).zip(self.open_skill(name)) else {
            return Found::Other;
        };
        let digest = content_digest(&folder);
        match digest
            .filter(|digest| *digest == entry.digest || entry.replaces.as_ref() == Some(digest))
        {
            Some(digest) => Found::Mounted(digest),
            None => Found::Changed,
        }
    }

    fn stat(&self, name: &str) -> rustix::io::Result<()> {
        rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).map(drop)
    }

    /// Opens the folder of a skill; `None` if it is something else.
    fn open_skill(&self, name: &str) -> Option<Dir> {
        open_dir(&self.dir, name).ok().filter(|_| manifest::is_name(name))
    }

    fn taken(&self, name: &str, why: &str) -> MountError {
        let place = self.path.join(name);
        let fix = format!(
            "mount it under another name (--as NAME), or move {} away",
            quoted(&place.to_string_lossy())
        );
        refused(&place, format!("what is there {why}, so it is not replaced"), fix)
    }

    fn record(&mut self, name: &str, entry: Option<Entry>) -> Result<(), MountError> {
        match entry {
            Some(entry) => self.index.skills.insert(name.to_owned(), entry),
            None => self.index.skills.remove(name),
        };
        let written = serde_json::to_vec_pretty(&self.index)
            .map_err(io::Error::from)
            .and_then(|text| stamp::write_atomically(&self.dir, INDEX, &text));
        written.map_err(|error| failed(&self.path.join(INDEX), "write the index", &error))
    }

    /// Removes the folders in which killed hosts were writing: the lock is held, so no other host is
    /// writing.
    fn sweep(&self) -> io::Result<()> {
        let own = rustix::process::geteuid().as_raw();
        for entry in self.dir.entries()? {
            let name = entry?.file_name();
            let Some(name) = name.to_str().filter(|name| is_staging(name)) else { continue };
            let is_ours = |found: &Stat| {
                FileType::from_raw_mode(found.st_mode) == FileType::Directory && found.st_uid == own
            };
            let found = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
            if found.as_ref().is_ok_and(is_ours) {
                self.dir.remove_dir_all(name)?;
            }
        }
        Ok(())
    }
}

/// A skill that is written, but not yet in its place. Its folder is removed when this value is
/// dropped.
struct Staged {
    /// The agent's folder.
    dir: Arc<Dir>,
    /// The name of the folder in `dir`.
    name: String,
    folder: Dir,
    /// The permissions of the skill's folder.
    mode: Mode,
    /// Whether the folder of that name may be the operator's.
    is_kept: bool,
}

impl Staged {
    /// Writes the files of a skill. They are on the disk when this returns.
    fn write(dir: Arc<Dir>, skill: &CheckedSkill) -> io::Result<Staged> {
        let name = format!("{STAGING}{:016x}", rand::random::<u64>());
        rustix::fs::mkdirat(&dir, &*name, Mode::RWXU)?;
        // Users who can read the agent's folder can read the skill. Only this user can write it.
        let above = Mode::from_raw_mode(rustix::fs::fstat(&dir)?.st_mode);
        let mode = (above & Mode::from_raw_mode(0o755)) | Mode::RWXU;
        let folder = open_dir(&dir, &name)?;
        let staged = Staged { dir, name, folder, mode, is_kept: false };
        for path in &skill.tree.folders {
            rustix::fs::mkdirat(&staged.folder, &**path, Mode::RWXU)?;
        }
        for (path, file) in &skill.tree.files {
            // No agent finds the skill before it is complete.
            let path = if path == SKILL_MD { DISABLED } else { path.as_str() };
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&staged.folder, path, flags, Mode::RUSR | Mode::WUSR)?;
            let mut opened = std::fs::File::from(opened);
            opened.write_all(&file.content)?;
            let all = Mode::from_raw_mode(if file.is_executable { 0o777 } else { 0o666 });
            rustix::fs::fchmod(&opened, mode & all)?;
        }
        for path in &skill.tree.folders {
            rustix::fs::chmodat(&staged.folder, &**path, mode, AtFlags::empty())?;
        }
        // After a power cut, a skill in its place has its content.
        rustix::fs::syncfs(&staged.folder)?;
        if skill.is_enabled {
            rustix::fs::renameat(&staged.folder, DISABLED, &staged.folder, SKILL_MD)?;
        }
        Ok(staged)
    }

    /// Moves the skill to a place where nothing is.
    fn place(&self, place: &str) -> rustix::io::Result<()> {
        let flags = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&self.dir, &*self.name, &self.dir, place, flags) {
            // The file system does not know the flag. A rename replaces at most an empty folder.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::renameat(&self.dir, &*self.name, &self.dir, place)?
            }
            moved => moved?,
        }
        rustix::fs::fchmod(&self.folder, self.mode)
    }

    /// Exchanges the skill with the one in its place, if that still has a digest.
    fn replace(&mut self, place: &str, digest: &str) -> rustix::io::Result<()> {
        self.exchange(place)?;
        self.is_kept = true;
        // The old skill has the name of this one now, and is removed with it.
        let old = open_dir(&self.dir, &self.name).ok();
        let is_unchanged = old.and_then(|old| content_digest(&old)).as_deref() == Some(digest);
        if !is_unchanged {
            self.exchange(place)?;
        }
        self.is_kept = false;
        if !is_unchanged {
            return Err(Errno::EXIST);
        }
        rustix::fs::fchmod(&self.folder, self.mode)
    }

    fn exchange(&self, place: &str) -> rustix::io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(&self.dir, &*self.name, &self.dir, place, flags)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        match self.dir.remove_dir_all(&self.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(name = self.name, %error, "cannot remove a folder; the next mount will");
            }
            _ => {}
        }
    }
}

/// Checks whether a name is that of a folder in which a skill is written.
fn is_staging(name: &str) -> bool {
    name.strip_prefix(STAGING).is_some_and(|rest| {
        rest.len() == 16 && rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Reads the index. A broken one is an error: it would be unknown what was mounted.
fn read_index(dir: &Dir, path: &Path) -> Result<Index, MountError> {
    let path = path.join(INDEX);
    let opened = match files::open(dir, INDEX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Index::default()),
        opened => opened.map_err(|error| failed(&path, "read it", &error))?,
    };
    let mut text = Vec::new();
    opened
        .take(MAX_INDEX)
        .read_to_end(&mut text)
        .map_err(|error| failed(&path, "read it", &error))?;
    let index: Result<Index, _> = serde_json::from_slice(&text);
    match index {
        Ok(index) if index.version == 1 => Ok(index),
        Ok(index) => {
            let why =
                format!("the index has version {}, and this skillhost knows 1", index.version);
            Err(refused(&path, why, "use a newer skillhost"))
        }
        Err(error) => {
            let fix = "remove the index; what is mounted then counts as yours, and is not replaced";
            Err(refused(&path, format!("the index is broken: {error}"), fix))
        }
    }
}

/// Computes the digest of a mounted skill, enabled or not. Returns `None` if it contains anything
/// that was not mounted.
fn content_digest(folder: &Dir) -> Option<String> {
    let caps = SizeLimits::default();
    let listing = files::list(folder, Path::new(""), &caps);
    if !listing.diagnostics.is_empty() || !listing.left_out.is_empty() {
        return None;
    }
    let mut contents = BTreeMap::new();
    for file in &listing.files {
        if file.link.is_some() {
            return None;
        }
        let path = if file.path == DISABLED { SKILL_MD } else { &*file.path };
        if contents.insert(path, read_listed(folder, file).ok()?).is_some() {
            return None;
        }
    }
    Some(tree::digest(contents.iter().map(|(path, content)| (*path, content.as_slice()))))
}

fn open_dir(within: &Dir, name: &str) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(within, name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(folder.into()))
}
