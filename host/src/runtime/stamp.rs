//! Whether a file is still the one whose digest is known, without reading it; and the folder of the host's own that such knowledge is kept in.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{Mode, Stat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::hex;

/// What a file was when its digest was computed. An unchanged stamp means an unchanged file: the kernel moves `ctime` at every write,
/// and nothing can set it. So looking costs one `stat`, and the digest is only computed when the stamp has moved.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// The file's SHA-256, 64 hex digits.
    pub(crate) digest: String,
    size: i64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// What a file is now, with a digest that was computed of it.
    pub(crate) fn of(stat: &Stat, digest: String) -> Stamp {
        Stamp {
            digest,
            size: stat.st_size,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }

    /// The stamp of that name in a folder; `None` where there is none that can be read.
    pub(crate) fn read(folder: &Dir, name: &str) -> Option<Stamp> {
        // A stamp is under 300 bytes.
        take(folder, name, 4096)
    }

    /// Puts it in place whole, under that name.
    pub(crate) fn write(&self, folder: &Dir, name: &str) -> io::Result<()> {
        put(folder, name, self)
    }
}

/// What is kept under a name in a folder, of at most that many bytes; `None` where there is nothing that can be read.
pub(crate) fn take<T: DeserializeOwned>(folder: &Dir, name: &str, most: u64) -> Option<T> {
    let mut text = Vec::new();
    folder.open(name).ok()?.take(most).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Keeps a value under a name in a folder: whole, or what was there before.
pub(crate) fn put(folder: &Dir, name: &str, value: &impl Serialize) -> io::Result<()> {
    let temporary = format!("{name}.{}.{:x}.tmp", std::process::id(), rand::random::<u64>());
    let guard = Temporary { folder, name: &temporary };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    folder.open_with(&temporary, &options)?.write_all(&serde_json::to_vec(value)?)?;
    folder.rename(&temporary, folder, name)?;
    drop(guard);
    Ok(())
}

/// Removes a half-written file when its writer gives up or dies of a panic; after the rename there is nothing to remove.
pub(crate) struct Temporary<'a> {
    pub(crate) folder: &'a Dir,
    pub(crate) name: &'a str,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Not found is the good case: it was renamed.
        let _ = self.folder.remove_file(self.name);
    }
}

/// Opens a folder that only this user may write to, making it where it is missing.
///
/// # Errors
/// It cannot be made or opened, or someone else may write to it.
pub(crate) fn own_folder(path: &Path) -> io::Result<Dir> {
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)?;
    #[expect(clippy::disallowed_methods, reason = "the cache folder is the host's own")]
    let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
    let stat = rustix::fs::fstat(&dir)?;
    let others = Mode::from_raw_mode(stat.st_mode) & (Mode::WGRP | Mode::WOTH);
    if stat.st_uid != rustix::process::geteuid().as_raw() || !others.is_empty() {
        let path = path.display();
        let message = format!("the cache folder {path} is not this user's alone: `chown` it, and `chmod 700 {path}`");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(dir)
}

/// The SHA-256 of a file's bytes, as hex.
pub(crate) fn file_digest(file: &File) -> io::Result<String> {
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
