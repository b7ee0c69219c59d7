//! Whether a file is still the one whose digest is known, without reading it; and the folder of the
//! host's own that such knowledge is kept in.

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

/// What a file was when its digest was computed. On a file system that [`has_reliable_ctime`], the
/// kernel moves `ctime` at every write, and no program can set it: an unchanged stamp means an
/// unchanged file, and looking costs one `stat`.
///
/// The exception is a file that another program has mapped shared and writable: its stores move
/// `ctime` when the kernel next writes the page back, not at once. No guest can map a file, and
/// nobody can tell from outside whether a program has.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The file's SHA-256, 64 hex digits.
    pub digest: String,
    size: i64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// What a file is now, with a digest that was computed of it.
    pub fn of(stat: &Stat, digest: String) -> Stamp {
        Stamp {
            digest,
            size: stat.st_size,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }

    /// The stamp of that name in a folder; `None` where there is none that can be read.
    pub fn read(folder: &Dir, name: &str) -> Option<Stamp> {
        // A stamp is under 300 bytes.
        take(folder, name, 4096)
    }

    /// Puts it in place whole, under that name.
    pub fn write(&self, folder: &Dir, name: &str) -> io::Result<()> {
        put(folder, name, self)
    }
}

/// Bytes of what is kept of files: 2,000 digests with long names.
const KEPT_MAX: u64 = 1 << 20;

/// How long files have to have been as they are. One that is written twice within a tick of the
/// kernel's clock, which is some milliseconds, looks the same after the second.
const SETTLED: Duration = Duration::from_secs(2);

/// What the cache folder holds of files.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    /// Over what tells the files from what they may become.
    state: String,
    found: T,
}

/// What `compute` finds in files, or found in them when they were last in that state; `newest` is
/// when the last of them changed, in seconds and nanoseconds. Without a usable cache it is computed
/// each time; what needs the cache tells what is wrong with it.
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

/// What is kept under a name in the cache folder of files that are still in that state.
pub(crate) fn read_if_unchanged<T: DeserializeOwned>(
    folder: &Dir,
    name: &str,
    state: &str,
) -> Option<T> {
    take::<Kept<T>>(folder, name, KEPT_MAX)
        .filter(|kept| kept.state == *state)
        .map(|kept| kept.found)
}

/// Keeps what was found in files under a name in the cache folder, unless the last of them changed
/// so lately that it may change again unseen.
pub(crate) fn write_if_settled(
    folder: &Dir,
    name: &str,
    state: String,
    newest: (i64, i64),
    found: impl Serialize,
) {
    let newest = Duration::new(newest.0.max(0).cast_unsigned(), 0)
        + Duration::from_nanos(newest.1.max(0).cast_unsigned());
    let is_settled =
        SystemTime::now().duration_since(UNIX_EPOCH + newest).is_ok_and(|age| age > SETTLED);
    if is_settled && let Err(error) = put(folder, name, &Kept { state, found }) {
        tracing::debug!(%error, "what was found in the files was not kept; the next run reads them again");
    }
}

/// Whether a stamp of this file or folder tells whether it has changed: on a file system of this
/// machine, whose kernel sets `ctime` itself. Elsewhere, on a network file system or one that a
/// program serves, the other side says what `ctime` is, and late, so files are read.
pub fn has_reliable_ctime(file: impl AsFd) -> bool {
    // statfs(2): overlayfs passes on what the file system below it says.
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

/// What is kept under a name in a folder, of at most that many bytes; `None` where there is nothing
/// that can be read.
pub(crate) fn take<T: DeserializeOwned>(folder: &Dir, name: &str, most: u64) -> Option<T> {
    // What is kept is small as a rule: one read finds it, and one its end.
    let mut text = Vec::with_capacity(1024);
    folder.open(name).ok()?.take(most).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Keeps a value under a name in a folder: whole, or what was there before.
pub(crate) fn put(folder: &Dir, name: &str, value: &impl Serialize) -> io::Result<()> {
    write_atomically(folder, name, &serde_json::to_vec(value)?)
}

/// Keeps bytes under a name in a folder: all of them, or what was there before. What the machine
/// had not written when it failed is lost.
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

/// Removes a half-written file when its writer gives up or dies of a panic; after the rename there
/// is nothing to remove.
pub struct TempFileGuard<'a> {
    /// The folder that holds it.
    pub folder: &'a Dir,
    /// Its name in that folder.
    pub name: &'a str,
}

impl Drop for TempFileGuard<'_> {
    fn drop(&mut self) {
        // Not found is the good case: it was renamed.
        let _ = self.folder.remove_file(self.name);
    }
}

/// Opens a folder that only this user may write to, making it where it is missing.
///
/// # Errors
/// It cannot be made or opened, or someone else may write to it or to a folder above it.
pub fn open_cache_folder(path: &Path) -> io::Result<Dir> {
    let dir = match open_below_own(path) {
        // Each run opens it, and only the first has to make it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            private::create_missing(path)?;
            open_below_own(path)?
        }
        dir => dir?,
    };
    let stat = rustix::fs::fstat(&dir)?;
    let others = Mode::from_raw_mode(stat.st_mode) & (Mode::WGRP | Mode::WOTH);
    if stat.st_uid != rustix::process::geteuid().as_raw() || !others.is_empty() {
        let path = path.display();
        let message = format!(
            "the cache folder {path} is not this user's alone: `chown` it, and `chmod 700 {path}`"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(dir)
}

/// Opens a folder that is there, once the folders above it are found to be nobody else's.
fn open_below_own(path: &Path) -> io::Result<Dir> {
    ancestors::check(path)?;
    #[expect(clippy::disallowed_methods, reason = "the cache folder is the host's own")]
    Dir::open_ambient_dir(path, cap_std::ambient_authority())
}

/// The SHA-256 of a file's bytes, as hex.
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
    fn stamps_are_trusted_on_local_file_systems_alone() {
        assert!(has_reliable_ctime(tempfile::tempfile().unwrap()));
        for elsewhere in ["/proc", "/sys"] {
            #[expect(clippy::disallowed_methods, reason = "file systems that the kernel makes up")]
            let folder = File::open(elsewhere).unwrap();
            assert!(!has_reliable_ctime(folder), "{elsewhere}");
        }
    }
}
