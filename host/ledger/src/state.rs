//! What skills keep from run to run: a folder for each in the host's data folder, seen by its
//! guests as `/state`.
//!
//! Whose it is, name and place of the skill's folder say together: a skill of the same name
//! elsewhere has another, and one that is changed where it is keeps its own. One run at a time
//! holds it, by a lock that the kernel lets go of when its holder dies.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat, stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use skillhost_skill::private;
use skillhost_skill::runtime::digest;

/// How often a folder is opened anew because it was wiped meanwhile, before that is taken for a
/// fault.
const TRIES: usize = 100;

/// Where all states are.
#[derive(Debug, Clone)]
pub struct StateStore(PathBuf);

/// Whose a state is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StateOwner {
    /// The name of the skill's folder.
    pub skill: String,
    /// The folder, without symlinks.
    pub folder: PathBuf,
}

/// One state that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StateInfo {
    /// Its own name, which no other has.
    pub key: String,
    /// Whose it is.
    #[serde(flatten)]
    pub owner: StateOwner,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files and folders.
    pub files: u64,
}

/// A state that is held: nobody else reads or writes it meanwhile.
#[derive(Debug)]
pub struct StateLock {
    lock: OwnedFd,
    files: OwnedFd,
    /// Bytes of its files when it was taken.
    pub bytes: u64,
    /// Files and folders when it was taken.
    pub count: u64,
}

impl StateStore {
    /// Those in a folder, which is made when it is first needed.
    pub fn new(folder: PathBuf) -> StateStore {
        StateStore(folder)
    }

    /// Takes the state of a skill, making it where there is none. `None`: another holds it.
    ///
    /// # Errors
    /// The data folder, or the skill's, is not usable.
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

    /// All that are kept, by name.
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
            // One that is being made or wiped.
            let Some(owner) = about.ok().and_then(|text| serde_json::from_slice(&text).ok()) else {
                continue;
            };
            let (bytes, files) = match open(&path.join("files")) {
                Ok(folder) => measure(&folder)?,
                Err(_) => (0, 0),
            };
            let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            all.push(StateInfo { key, owner, bytes, files });
        }
        all.sort_by(|a, b| (&a.owner.skill, &a.key).cmp(&(&b.owner.skill, &b.key)));
        Ok(all)
    }

    /// Copies the files of a state into a new folder. `false`: a run holds it.
    ///
    /// # Errors
    /// The folder is there already, or something cannot be read or written.
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
    /// It cannot be removed whole.
    pub fn wipe(&self, kept: &StateInfo) -> io::Result<bool> {
        let place = self.0.join(&kept.key);
        let Some(_lock) = lock(&place)? else { return Ok(false) };
        // Out of the way first, so that no run takes a half of it.
        let gone = self.0.join(format!(".{}.{:x}", kept.key, rand::random::<u64>()));
        std::fs::rename(&place, &gone)?;
        #[expect(clippy::disallowed_methods, reason = "a folder of the host's own data folder")]
        let removed = std::fs::remove_dir_all(gone);
        removed.map(|()| true)
    }
}

impl StateLock {
    /// Lets others have it, while its files may still be open.
    pub fn release(&self) {
        // It is let go with the descriptor at the latest.
        flock(&self.lock, FlockOperation::Unlock).ok();
    }
}

impl AsFd for StateLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.files.as_fd()
    }
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens and locks a folder; `None` where another has locked it.
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
            // Wiped meanwhile.
            _ => private::create_missing(place)?,
        }
    }
    Err(io::Error::other("it is wiped again and again"))
}

/// A name of its own for each owner, that tells people whose it is.
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

/// Bytes of the files below a folder, and how many files and folders there are.
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
