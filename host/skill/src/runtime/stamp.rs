//! Stamps recognize unchanged files without reading them, so that their digests can be reused. They
//! are stored in the cache folder.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{FsWord, Mode, Stat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ancestors, hex};
use crate::private;

/// The state of a file when its digest was computed. On a file system that [`has_reliable_ctime`],
/// the kernel updates `ctime` on every write, and no program can set it. An unchanged stamp then
/// means an unchanged file, and checking it costs one `stat`.
///
/// The exception is a file that another program has mapped shared and writable. A store to the
/// mapping updates `ctime` only when the kernel writes the page back. Guests cannot map files, and
/// the host cannot tell whether another program has.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The SHA-256 digest of the file, 64 hex digits.
    pub digest: String,
    size: i64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Creates the stamp of a file with this digest.
    pub fn of(stat: &Stat, digest: String) -> Stamp {
        Stamp {
            digest,
            size: stat.st_size,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }

    /// Reads the stamp of this name in a folder; `None` if it is missing or unreadable.
    pub fn read(folder: &Dir, name: &str) -> Option<Stamp> {
        // A stamp is under 300 bytes.
        read_json(folder, name, 4096)
    }

    /// Writes the stamp atomically, under this name.
    pub fn write(&self, folder: &Dir, name: &str) -> io::Result<()> {
        write_json(folder, name, self)
    }
}

/// The most bytes of a stored result: enough for 2,000 digests with long names.
const STORED_MAX: u64 = 1 << 20;

/// The age of the last change at which files count as settled. A second write within the same tick
/// of the kernel's clock, which takes some milliseconds, does not change `ctime`.
const SETTLED: Duration = Duration::from_secs(2);

/// A stored result, with the state of the files from which it was computed.
#[derive(Serialize, Deserialize)]
struct Stored<T> {
    /// A digest of the identities of the files.
    state: String,
    found: T,
}

/// Returns the result that was stored for files in this state, or computes and stores it. `newest` is
/// the time of the last change to a file, in seconds and nanoseconds. Without a usable cache, always
/// computes the result; code that needs the cache reports the problem.
pub fn cached_or_compute<T: Serialize + DeserializeOwned, E>(
    cache: &Path,
    name: &str,
    state: String,
    newest: (i64, i64),
    compute: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let folder = open_cache_folder(cache).ok();
    if let Some(found) = folder.as_ref().and_then(|folder| read_if_unchanged(folder, name, &state))
    {
        return Ok(found);
    }
    let found = compute()?;
    if let Some(folder) = folder {
        write_if_settled(&folder, name, state, newest, &found);
    }
    Ok(found)
}

/// Reads the result under a name in the cache folder, if the files are still in this state.
pub(crate) fn read_if_unchanged<T: DeserializeOwned>(
    folder: &Dir,
    name: &str,
    state: &str,
) -> Option<T> {
    read_json::<Stored<T>>(folder, name, STORED_MAX)
        .filter(|kept| kept.state == *state)
        .map(|kept| kept.found)
}

/// Stores a result under a name in the cache folder, unless a file changed so recently that another
/// change might go unnoticed.
pub(crate) fn write_if_settled(
    folder: &Dir,
    name: &str,
    state: String,
    newest: (i64, i64),
    found: impl Serialize,
) {
    if is_settled(newest, SystemTime::now())
        && let Err(error) = write_json(folder, name, &Stored { state, found })
    {
        tracing::debug!(%error, "cannot store a result; the next run computes it again");
    }
}

/// Checks whether files whose last change was at `newest`, in seconds and nanoseconds, were settled
/// at a time. Every later change then shows.
pub(crate) fn is_settled(newest: (i64, i64), time: SystemTime) -> bool {
    let newest = Duration::new(newest.0.max(0).cast_unsigned(), 0)
        + Duration::from_nanos(newest.1.max(0).cast_unsigned());
    time.duration_since(UNIX_EPOCH + newest).is_ok_and(|age| age > SETTLED)
}

/// Checks whether a file or folder is on a local file system, where the kernel itself sets `ctime`
/// and a stamp therefore shows every change. On a network file system or one that a program serves,
/// the other side reports `ctime`, possibly late.
pub fn has_reliable_ctime(file: impl AsFd) -> bool {
    // Magic numbers of statfs(2). overlayfs passes on the ctime of the file system below it.
    const EXT: FsWord = 0xef53;
    const XFS: FsWord = 0x5846_5342;
    const BTRFS: FsWord = 0x9123_683e;
    const TMPFS: FsWord = 0x0102_1994;
    const F2FS: FsWord = 0xf2f5_2010;
    const ZFS: FsWord = 0x2fc1_2fc1;
    const BCACHEFS: FsWord = 0xca45_1a4e;
    const OVERLAY: FsWord = 0x794c_7630;
    const LOCAL: [FsWord; 8] = [EXT, XFS, BTRFS, TMPFS, F2FS, ZFS, BCACHEFS, OVERLAY];
    rustix::fs::fstatfs(file).is_ok_and(|found| LOCAL.contains(&found.f_type))
}

/// Reads a JSON value under a name in a folder, of at most `most` bytes; `None` if it is missing or
/// unreadable.
pub fn read_json<T: DeserializeOwned>(folder: &Dir, name: &str, most: u64) -> Option<T> {
    // Values are usually small: one read gets the value, and one the end of the file.
    let mut text = Vec::with_capacity(1024);
    folder.open(name).ok()?.take(most).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Writes a JSON value atomically under a name in a folder.
pub(crate) fn write_json(folder: &Dir, name: &str, value: &impl Serialize) -> io::Result<()> {
    write_atomically(folder, name, &serde_json::to_vec(value)?)
}

/// Writes bytes atomically under a name in a folder. Does not wait for the disk, so a crash of the
/// machine can lose them.
pub fn write_atomically(folder: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.{}.{:x}.tmp", std::process::id(), rand::random::<u64>());
    let guard = TempFileGuard { folder, name: &temporary };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    folder.open_with(&temporary, &options)?.write_all(bytes)?;
    folder.rename(&temporary, folder, name)?;
    drop(guard);
    Ok(())
}

/// Removes a temporary file when its writer fails or panics. After the rename, there is nothing to
/// remove.
pub struct TempFileGuard<'a> {
    /// The folder of the file.
    pub folder: &'a Dir,
    /// The name of the file in the folder.
    pub name: &'a str,
}

impl Drop for TempFileGuard<'_> {
    fn drop(&mut self) {
        // The file does not exist if it was renamed.
        let _ = self.folder.remove_file(self.name);
    }
}

/// Opens the cache folder, and creates it if it is missing. Only this user may write to it.
///
/// # Errors
/// The folder cannot be created or opened, or others can write to it or to a folder above it.
pub fn open_cache_folder(path: &Path) -> io::Result<Dir> {
    if let Some(dir) = open_existing_cache_folder(path)? {
        return Ok(dir);
    }
    // Only the first run has to create the folder.
    private::create_missing(path)?;
    open_existing_cache_folder(path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Opens the cache folder; `None` if it does not exist. Only this user may write to it.
///
/// # Errors
/// The folder cannot be opened, or others can write to it or to a folder above it.
pub fn open_existing_cache_folder(path: &Path) -> io::Result<Option<Dir>> {
    let dir = match open_checked(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        dir => dir?,
    };
    let stat = rustix::fs::fstat(&dir)?;
    let others = Mode::from_raw_mode(stat.st_mode) & (Mode::WGRP | Mode::WOTH);
    if stat.st_uid != rustix::process::geteuid().as_raw() || !others.is_empty() {
        let path = path.display();
        let message = format!(
            "other users own the cache folder {path} or can write to it: `chown` it, and `chmod 700 {path}`"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(Some(dir))
}

/// Opens an existing folder, after checking that others cannot write to the folders above it.
fn open_checked(path: &Path) -> io::Result<Dir> {
    ancestors::check(path)?;
    #[expect(clippy::disallowed_methods, reason = "the cache folder is the host's own")]
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// Returns the SHA-256 digest of a file, as hex.
pub fn file_digest(file: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(hex(&hash.finalize())),
            n => {
                hash.update(&buffer[..n]);
                at += n as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_file_systems_have_reliable_ctime() {
        assert!(has_reliable_ctime(tempfile::tempfile().unwrap()));
        for elsewhere in ["/proc", "/sys"] {
            #[expect(clippy::disallowed_methods, reason = "file systems that the kernel makes up")]
            let folder = File::open(elsewhere).unwrap();
            assert!(!has_reliable_ctime(folder), "{elsewhere}");
        }
    }
}
