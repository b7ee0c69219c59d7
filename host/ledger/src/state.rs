//! The persistent state of skills: one folder per skill in the host's data folder, mounted at
//! `/state`.
//!
//! A state belongs to a skill's name and the path of its folder. A skill of the same name elsewhere
//! has another state, and a skill that is changed in place keeps its own. One run at a time holds
//! the state, by a lock that the kernel releases when the process dies.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, stat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use skillhost_skill::private;
use skillhost_skill::runtime::digest;

/// How often to reopen a folder that was wiped in the meantime before reporting an error.
const TRIES: usize = 100;

/// All states of a host.
#[derive(Debug, Clone)]
pub struct StateStore(PathBuf);

/// The skill that a state belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StateOwner {
    /// The name of the skill's folder.
    pub skill: String,
    /// The path of the folder, without symlinks.
    pub folder: PathBuf,
}

/// A stored state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StateInfo {
    /// Its unique key.
    pub key: String,
    /// The skill that it belongs to.
    #[serde(flatten)]
    pub owner: StateOwner,
    /// The size of its files and of its HTTP cache, in bytes.
    pub bytes: u64,
    /// The number of files and folders.
    pub files: u64,
}

/// A locked state. No other process reads or writes it in the meantime.
#[derive(Debug)]
pub struct StateLock {
    lock: OwnedFd,
    files: OwnedFd,
    /// The size of its files when it was locked, in bytes.
    pub bytes: u64,
    /// The number of files and folders when it was locked.
    pub count: u64,
}

impl StateStore {
    /// Names the folder of all states, which is created when it is first needed.
    pub fn new(folder: PathBuf) -> StateStore {
        StateStore(folder)
    }

    /// Locks the state of a skill, and creates it if it is missing. `None`: another process holds
    /// it.
    ///
    /// # Errors
    /// The data folder, or the skill's folder, cannot be used.
    pub fn take(&self, skill: &str, folder: &Path) -> io::Result<Option<StateLock>> {
        let owner = StateOwner { skill: skill.to_owned(), folder: folder.canonicalize()? };
        let place = self.0.join(key(&owner));
        private::open_or_create(&self.0)?;
        private::open_or_create(&place)?;
        let Some(lock) = lock(&place)? else { return Ok(None) };
        let about = place.join("owner.json");
        if !about.exists() {
            let new = place.join("owner.json.new");
            #[expect(clippy::disallowed_methods, reason = "a file of the host's own data folder")]
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&serde_json::to_vec(&owner)?)?;
            std::fs::rename(new, about)?;
        }
        match rustix::fs::mkdirat(&lock, "files", Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let files = openat(&lock, "files", FOLDER, Mode::empty())?;
        let (bytes, count) = measure(&Dir::from_std_file(files.try_clone()?.into()))?;
        Ok(Some(StateLock { lock, files, bytes, count }))
    }

    /// Lists all states, by name.
    ///
    /// # Errors
    /// The data folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<StateInfo>> {
        #[expect(clippy::disallowed_methods, reason = "the host's own data folder")]
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b".")) {
                continue;
            }
            #[expect(clippy::disallowed_methods, reason = "a file of the host's own data folder")]
            let about = std::fs::read(path.join("owner.json"));
            // It is being created or wiped.
            let Some(owner) = about.ok().and_then(|text| serde_json::from_slice(&text).ok()) else {
                continue;
            };
            let (bytes, files) = match open(&path.join("files")) {
                Ok(folder) => measure(&folder)?,
                Err(_) => (0, 0),
            };
            let cache = std::fs::symlink_metadata(path.join(CACHE)).map_or(0, |about| about.len());
            let bytes = bytes.saturating_add(cache);
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push(StateInfo { key, owner, bytes, files });
        }
        all.sort_by(|a, b| (&a.owner.skill, &a.key).cmp(&(&b.owner.skill, &b.key)));
        Ok(all)
    }

    /// Copies the files of a state to a new folder. `false`: a run holds the state.
    ///
    /// # Errors
    /// The folder exists already, or a file cannot be read or written.
    pub fn export(&self, kept: &StateInfo, to: &Path) -> io::Result<bool> {
        let place = self.0.join(&kept.key);
        let Some(_lock) = lock(&place)? else { return Ok(false) };
        private::create_new(to)?;
        match open(&place.join("files")) {
            Ok(from) => copy(&from, &open(to)?)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Removes a state. `false`: a run holds it.
    ///
    /// # Errors
    /// The state cannot be removed completely.
    pub fn wipe(&self, kept: &StateInfo) -> io::Result<bool> {
        let place = self.0.join(&kept.key);
        let Some(_lock) = lock(&place)? else { return Ok(false) };
        // Renamed first, so that no run sees half of it.
        let gone = self.0.join(format!(".{}.{:x}", kept.key, rand::random::<u64>()));
        std::fs::rename(&place, &gone)?;
        #[expect(clippy::disallowed_methods, reason = "a folder of the host's own data folder")]
        let removed = std::fs::remove_dir_all(gone);
        removed.map(|()| true)
    }
}

impl StateLock {
    /// Takes the HTTP cache out of the state, so that its bytes are free for the run's files. `None`:
    /// there is none, or it has more than `most` bytes.
    ///
    /// # Errors
    /// It cannot be read or removed.
    pub fn take_cache(&self, most: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&self.lock, CACHE, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => file?,
        };
        unlinkat(&self.lock, CACHE, AtFlags::empty())?;
        let (file, mut saved) = (std::fs::File::from(file), Vec::new());
        let is_small = file.metadata()?.len() <= most;
        if is_small {
            file.take(most).read_to_end(&mut saved)?;
        }
        Ok(is_small.then_some(saved))
    }

    /// Puts an HTTP cache into the state.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put_cache(&self, saved: &[u8]) -> io::Result<()> {
        const NEW: &str = "http-cache.new";
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o600);
        let file = openat(&self.lock, NEW, flags | OFlags::CLOEXEC, mode)?;
        let written = std::fs::File::from(file).write_all(saved);
        if written.is_err() {
            unlinkat(&self.lock, NEW, AtFlags::empty()).ok();
        }
        written?;
        Ok(renameat(&self.lock, NEW, &self.lock, CACHE)?)
    }

    /// Returns the size of the state's files now, in bytes.
    ///
    /// # Errors
    /// The files cannot be listed.
    pub fn file_bytes(&self) -> io::Result<u64> {
        Ok(measure(&Dir::from_std_file(self.files.try_clone()?.into()))?.0)
    }

    /// Releases the lock. The files may still be open.
    pub fn release(&self) {
        // Closing the descriptor releases it at the latest.
        flock(&self.lock, FlockOperation::Unlock).ok();
    }
}

impl AsFd for StateLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.files.as_fd()
    }
}

/// The file with the HTTP cache, beside the folder that guests see.
const CACHE: &str = "http-cache";

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens and locks a folder; `None` if another process has locked it.
fn lock(place: &Path) -> io::Result<Option<OwnedFd>> {
    for _ in 0..TRIES {
        let folder = rustix::fs::open(place, FOLDER, Mode::empty())?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let (open, named) = (fstat(&folder)?, stat(place));
        match named {
            Ok(named) if (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino) => {
                return Ok(Some(folder));
            }
            // Wiped in the meantime.
            _ => private::create_missing(place)?,
        }
    }
    Err(io::Error::other("another process keeps wiping it"))
}

/// Returns a unique, readable key for each skill.
fn key(owner: &StateOwner) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = owner.skill.chars().take(64).map(plain).collect();
    let whole =
        [owner.skill.as_bytes(), b"\0", owner.folder.as_os_str().as_encoded_bytes()].concat();
    let digest = digest(&whole);
    let hex = digest.trim_start_matches("sha256:");
    format!("{name}-{}", &hex[..hex.len().min(32)])
}

#[expect(
    clippy::disallowed_methods,
    reason = "a folder of the host's own, or one that the operator names"
)]
fn open(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// Returns the size of the files below a folder, and the number of files and folders.
fn measure(folder: &Dir) -> io::Result<(u64, u64)> {
    let (mut bytes, mut count) = (0, 0);
    for entry in folder.entries()? {
        let entry = entry?;
        let about = entry.metadata()?;
        count += 1;
        if about.is_dir() {
            let (more, others) = measure(&entry.open_dir()?)?;
            bytes += more;
            count += others;
        } else {
            bytes += about.len();
        }
    }
    Ok((bytes, count))
}

fn copy(from: &Dir, to: &Dir) -> io::Result<()> {
    for entry in from.entries()? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if kind.is_dir() {
            to.create_dir(&name)?;
            copy(&entry.open_dir()?, &to.open_dir(&name)?)?;
        } else if kind.is_file() {
            from.copy(&name, to, &name)?;
        }
    }
    Ok(())
}
