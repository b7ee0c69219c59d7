//! Compiled components on disk. What is loaded from here runs as native code, so only the host writes here: a folder of mode 0700,
//! files put in place by rename, each with a stamp that tells whether it is still the file that was written.

use std::fs::File;
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{Mode as FileMode, Stat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::runtime;

/// A cache folder, opened.
#[derive(Debug)]
pub(super) struct Cache {
    dir: Dir,
    path: PathBuf,
}

/// What the file was when it was written. An unchanged stamp means an unchanged file: the kernel moves `ctime` at every write,
/// and nothing can set it. So a load costs one `stat`, and the digest is only computed when the stamp has moved.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    digest: String,
    size: i64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Cache {
    /// Opens a cache folder, making it where it is missing.
    ///
    /// # Errors
    /// It cannot be made or opened, or someone else may write to it.
    pub(super) fn open(path: &Path) -> io::Result<Cache> {
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)?;
        #[expect(clippy::disallowed_methods, reason = "the cache folder is the host's own")]
        let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
        let stat = rustix::fs::fstat(&dir)?;
        let others = FileMode::from_raw_mode(stat.st_mode) & (FileMode::WGRP | FileMode::WOTH);
        if stat.st_uid != rustix::process::geteuid().as_raw() || !others.is_empty() {
            let path = path.display();
            let message = format!("the cache folder {path} is not this user's alone: `chown` it, and `chmod 700 {path}`");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(Cache { dir, path: path.to_owned() })
    }

    /// Loads a component compiled for this engine; `None` where there is none, or none that is whole (it is removed then).
    pub(super) fn load(&self, engine: &Engine, component: &runtime::Component) -> Option<Component> {
        let key = key(engine, component);
        let file = self.dir.open(code_name(&key)).ok()?.into_std();
        if self.is_whole(&file, &key) {
            #[expect(unsafe_code, reason = "compiled code is trusted only from this folder, which the host alone writes, and whole")]
            // SAFETY: the file was written by `store` for this very component and engine (both are in its name), and is unchanged
            // since: `is_whole` has compared its stamp, and nobody else may rename anything in this folder.
            let loaded = unsafe { Component::deserialize_file(engine, self.path.join(code_name(&key))) };
            if let Ok(component) = loaded {
                return Some(component);
            }
        }
        self.remove(&key);
        None
    }

    /// Writes a component's code by `write`, which gets a new empty file, and puts it in place whole.
    pub(super) async fn store<E: From<io::Error>>(
        &self,
        engine: &Engine,
        component: &runtime::Component,
        write: impl AsyncFnOnce(File) -> Result<(), E>,
    ) -> Result<(), E> {
        let key = key(engine, component);
        let temporary = format!("{}.{}.{:x}.tmp", key, std::process::id(), rand::random::<u64>());
        let guard = Temporary { dir: &self.dir, name: &temporary };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = self.dir.open_with(&temporary, &options)?.into_std();
        write(file.try_clone()?).await?;
        file.sync_data()?;
        let digest = file_digest(&file)?;
        self.dir.rename(&temporary, &self.dir, code_name(&key))?;
        drop(guard);
        self.write_stamp(&key, &file, digest)?;
        Ok(())
    }

    fn is_whole(&self, file: &File, key: &str) -> bool {
        let Ok(stat) = rustix::fs::fstat(file) else { return false };
        let Some(stamp) = self.read_stamp(key) else { return false };
        if stamp == Stamp::of(&stat, stamp.digest.clone()) {
            return true;
        }
        // Moved, copied or restored: the bytes decide.
        let whole = file_digest(file).is_ok_and(|digest| digest == stamp.digest);
        if whole && let Err(error) = self.write_stamp(key, file, stamp.digest) {
            tracing::debug!(%error, "the cache's stamp was not renewed; the next load computes the digest again");
        }
        whole
    }

    fn read_stamp(&self, key: &str) -> Option<Stamp> {
        // A stamp is under 300 bytes.
        let mut text = String::new();
        self.dir.open(stamp_name(key)).ok()?.take(4096).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    fn write_stamp(&self, key: &str, file: &File, digest: String) -> io::Result<()> {
        let stamp = Stamp::of(&rustix::fs::fstat(file)?, digest);
        let temporary = format!("{}.{}.{:x}.stamp.tmp", key, std::process::id(), rand::random::<u64>());
        let guard = Temporary { dir: &self.dir, name: &temporary };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        self.dir.open_with(&temporary, &options)?.write_all(&serde_json::to_vec(&stamp)?)?;
        self.dir.rename(&temporary, &self.dir, stamp_name(key))?;
        drop(guard);
        Ok(())
    }

    fn remove(&self, key: &str) {
        for name in [code_name(key), stamp_name(key)] {
            if let Err(error) = self.dir.remove_file(&name)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, name = %name.display(), "a broken cache entry could not be removed");
            }
        }
    }
}

impl Stamp {
    fn of(stat: &Stat, digest: String) -> Stamp {
        Stamp {
            digest,
            size: stat.st_size,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
        }
    }
}

/// Removes a half-written file when its writer gives up or dies of a panic; after the rename there is nothing to remove.
struct Temporary<'a> {
    dir: &'a Dir,
    name: &'a str,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Not found is the good case: it was renamed.
        let _ = self.dir.remove_file(self.name);
    }
}

fn code_name(key: &str) -> PathBuf {
    format!("{key}.cwasm").into()
}

fn stamp_name(key: &str) -> PathBuf {
    format!("{key}.stamp").into()
}

/// The component's content and everything of the engine that decides its code.
fn key(engine: &Engine, component: &runtime::Component) -> String {
    struct Sha(Sha256);
    impl Hasher for Sha {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hash = Sha(Sha256::new());
    component.digest.hash(&mut hash);
    engine.precompile_compatibility_hash().hash(&mut hash);
    runtime::hex(&hash.0.finalize())
}

fn file_digest(file: &File) -> io::Result<String> {
    use std::os::unix::fs::FileExt as _;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return Ok(runtime::hex(&hash.finalize())),
            n => {
                hash.update(&buffer[..n]);
                at += n as u64;
            }
        }
    }
}
