//! Compiled components on disk. Code loaded from here runs natively, so only the host writes here:
//! the folder has mode 0700, files are put in place by rename, and each has a stamp by which
//! changes to it are noticed.

use std::fs::File;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::config::Mode;
use crate::startup::{heap, make_resident};
use skillhost_skill::runtime;
use skillhost_skill::runtime::cache_quota;
use skillhost_skill::runtime::stamp::{self, Stamp, TempFileGuard, file_digest};

/// Compiled code of this size, in bytes, has about ten thousand functions: an interpreter's size.
const LARGE: u64 = 16 << 20;

/// The file that the host which compiles a runtime holds locked.
const COMPILING: &str = "compiling.lock";
/// How often a host that waits for it looks again.
const POLL: Duration = Duration::from_millis(20);

/// The folder of a host's cache, and whether anything was added to it since it was tidied.
#[derive(Debug)]
pub(crate) struct CacheFolder {
    path: PathBuf,
    grown: AtomicBool,
}

impl CacheFolder {
    pub(crate) fn new(path: PathBuf) -> CacheFolder {
        CacheFolder { path, grown: AtomicBool::new(false) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn note_growth(&self) {
        self.grown.store(true, Relaxed);
    }

    pub(crate) fn has_grown(&self) -> bool {
        self.grown.load(Relaxed)
    }

    /// Tidies the folder if anything was added to it.
    pub(crate) fn tidy(&self) {
        if self.grown.swap(false, Relaxed) {
            cache_quota::trim(&self.path);
        }
    }
}

/// An open cache folder.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: Dir,
}

impl Cache {
    /// Opens a cache folder, creating it if it is missing.
    ///
    /// # Errors
    /// It cannot be created or opened, or another user may write to it.
    pub(crate) fn open(path: &Path) -> io::Result<Cache> {
        Ok(Cache { dir: stamp::open_cache_folder(path)? })
    }

    /// Loads a component compiled for this engine, with the file it is in; `None` if there is none.
    /// A file that was changed or is incomplete is removed.
    ///
    /// # Errors
    /// The file is unchanged, but the engine refuses the code, for example because it uses
    /// instructions that this processor lacks: another machine may share the folder. The file is
    /// removed.
    pub(crate) fn load(
        &self,
        engine: &Engine,
        mode: Mode,
        component: &runtime::Component,
    ) -> wasmtime::Result<Option<(Component, File)>> {
        let key = key(engine, mode, component);
        let Ok(file) = self.dir.open(code_name(&key)) else { return Ok(None) };
        let file = file.into_std();
        let loaded = if self.is_unchanged(&file, &key) {
            Cache::prepare(&file);
            map(engine, &file).map(Some)
        } else {
            Ok(None)
        };
        match loaded {
            Ok(Some(component)) => Ok(Some((component, file))),
            not_loaded => {
                self.remove(&key);
                not_loaded.map(|_| None)
            }
        }
    }

    /// Opens a cache folder if it exists. Creates nothing.
    ///
    /// # Errors
    /// As for [`Cache::open`].
    pub(crate) fn open_existing(path: &Path) -> io::Result<Option<Cache>> {
        Ok(stamp::open_existing_cache_folder(path)?.map(|dir| Cache { dir }))
    }

    /// Checks whether [`Cache::load`] would find the code of a component. Changes nothing.
    ///
    /// # Errors
    /// As for [`Cache::load`].
    pub(crate) fn has(
        &self,
        engine: &Engine,
        mode: Mode,
        component: &runtime::Component,
    ) -> wasmtime::Result<bool> {
        let key = key(engine, mode, component);
        let Ok(file) = self.dir.open(code_name(&key)) else { return Ok(false) };
        let file = file.into_std();
        match self.compare(&file, &key) {
            Comparison::Changed => Ok(false),
            Comparison::Same | Comparison::Moved(_) => map(engine, &file).map(|_| true),
        }
    }

    /// Waits until no other host compiles a runtime, at most `wait`. The lock is free again when the
    /// result is dropped, or this process ends. Returns `None` without a lock, for example because
    /// another host compiles for longer than `wait`: then two may compile the same.
    pub(crate) async fn lock_compiling(&self, wait: Duration) -> Option<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = self.dir.open_with(COMPILING, &options).ok()?.into_std();
        let tries = async {
            loop {
                match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                    Err(Errno::WOULDBLOCK) => tokio::time::sleep(POLL).await,
                    locked => return locked.is_ok(),
                }
            }
        };
        let is_locked = tokio::time::timeout(wait, tries).await.unwrap_or(false);
        is_locked.then_some(file)
    }

    /// Calls `write` to write a component's code to a new file, and puts the complete file in
    /// place.
    pub(crate) async fn store<E: From<io::Error>>(
        &self,
        engine: &Engine,
        mode: Mode,
        component: &runtime::Component,
        write: impl AsyncFnOnce(File) -> Result<(), E>,
    ) -> Result<(), E> {
        let key = key(engine, mode, component);
        let temporary = format!("{}.{}.{:x}.tmp", key, std::process::id(), rand::random::<u64>());
        let guard = TempFileGuard { folder: &self.dir, name: &temporary };
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

    /// Charges the size of a component's code to its skill.
    pub(crate) fn charge(&self, engine: &Engine, mode: Mode, component: &runtime::Component) {
        let name = code_name(&key(engine, mode, component));
        let skill = component.skill().and_then(|skill| skill.folder_id().ok());
        if let (Some(skill), Ok(metadata)) = (skill, self.dir.symlink_metadata(&name)) {
            cache_quota::charge(&self.dir, &skill, &name, metadata.len());
        }
    }

    /// Loads code from a file outside of this folder.
    ///
    /// # Errors
    /// The engine refuses the code, for example because it uses instructions that this processor
    /// lacks.
    pub(crate) fn load_shipped(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
        Cache::prepare(file);
        map(engine, file)
    }

    /// Reads the stamp of a file outside of this folder.
    pub(crate) fn stamp(&self, name: &str) -> Option<Stamp> {
        Stamp::read(&self.dir, &stamp_name(name))
    }

    /// Writes the stamp of a file outside of this folder.
    pub(crate) fn set_stamp(&self, name: &str, stamp: &Stamp) -> io::Result<()> {
        stamp.write(&self.dir, &stamp_name(name))
    }

    fn is_unchanged(&self, file: &File, key: &str) -> bool {
        match self.compare(file, key) {
            Comparison::Same => true,
            Comparison::Moved(digest) => {
                if let Err(error) = self.write_stamp(key, file, digest) {
                    tracing::debug!(%error, "the cache's stamp was not updated; the next load computes the digest again");
                }
                true
            }
            Comparison::Changed => false,
        }
    }

    /// Compares a file with its stamp.
    fn compare(&self, file: &File, key: &str) -> Comparison {
        let Ok(stat) = rustix::fs::fstat(file) else { return Comparison::Changed };
        let Some(stamp) = Stamp::read(&self.dir, &stamp_name(key)) else {
            return Comparison::Changed;
        };
        if stamp == Stamp::of(&stat, stamp.digest.clone()) && stamp::has_reliable_ctime(file) {
            return Comparison::Same;
        }
        // It was moved, copied or restored, or the file system does not report enough: compare the
        // digest.
        match file_digest(file) {
            Ok(digest) if digest == stamp.digest => Comparison::Moved(digest),
            _ => Comparison::Changed,
        }
    }

    /// Prepares for loading a file of code.
    fn prepare(file: &File) {
        let bytes = rustix::fs::fstat(file).map_or(0, |stat| stat.st_size.cast_unsigned());
        if bytes >= LARGE {
            heap::expect_many_values();
        }
        if let Err(error) = make_resident(file, bytes) {
            tracing::debug!(%error, "compiled code was not read ahead; it is read on demand");
        }
    }

    fn write_stamp(&self, key: &str, file: &File, digest: String) -> io::Result<()> {
        Stamp::of(&rustix::fs::fstat(file)?, digest).write(&self.dir, &stamp_name(key))
    }

    fn remove(&self, key: &str) {
        for name in [code_name(key), stamp_name(key)] {
            if let Err(error) = self.dir.remove_file(&name)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, %name, "a broken cache entry could not be removed");
            }
        }
    }
}

/// What the stamp says about a file of code.
enum Comparison {
    /// It is the file that was written.
    Same,
    /// It has the content that was written, which has this digest.
    Moved(String),
    /// It is another one, or incomplete.
    Changed,
}

/// Loads code from the file that was checked, by its descriptor: another file may have taken its
/// name.
fn map(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    #[expect(
        unsafe_code,
        reason = "compiled code is trusted only unchanged: from this folder, which only the host writes, or as listed in this program"
    )]
    // SAFETY: the path names the open file that was checked, by its descriptor. `store` wrote it for
    // this component and engine (its name has both), and it is unchanged: `is_unchanged` has
    // compared its stamp. Or the list in this program has the digest of its content
    // (`shipped::open`), and only the current user and root can write it.
    unsafe {
        Component::deserialize_file(engine, path)
    }
}

fn code_name(key: &str) -> String {
    format!("{key}.cwasm")
}

fn stamp_name(key: &str) -> String {
    format!("{key}.stamp")
}

/// Names the compiled code: by the component's content and everything in the engine that affects
/// the code. The mode is hashed separately: the hash of an engine without a compiler leaves out
/// compiler settings, such as canonical NaNs.
fn key(engine: &Engine, mode: Mode, component: &runtime::Component) -> String {
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
    component.cache_name().hash(&mut hash);
    mode.hash(&mut hash);
    engine.precompile_compatibility_hash().hash(&mut hash);
    let hex = runtime::hex(&hash.0.finalize());
    // The code of built-in programs is never removed to make room.
    if component.built_in().is_some() { hex } else { format!("{hex}.own") }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;
    use crate::engine::config::{Allocation, Guests, codegen, engine};

    #[test]
    fn each_mode_has_its_own_code() {
        let component = runtime::Component::new(*b"the same");
        let of = |mode| {
            key(
                &engine(mode, 1 << 20, &Guests::Any(Allocation::OnDemand)).unwrap().0,
                mode,
                &component,
            )
        };
        let [fast, metered, deterministic] =
            [Mode::Fast, Mode::Metered, Mode::Deterministic].map(of);
        assert!(fast != metered && metered != deterministic && deterministic != fast);
    }

    #[test]
    fn code_is_mapped_from_the_checked_file() {
        let (engine, _) = engine(Mode::Fast, 1 << 20, &Guests::Any(Allocation::OnDemand)).unwrap();
        let code = Engine::new(&codegen(Mode::Fast, false))
            .unwrap()
            .precompile_component(b"\0asm\x0d\0\x01\0")
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        cache.dir.write("code", &code).unwrap();
        let file = cache.dir.open("code").unwrap().into_std();
        cache.dir.write("other", "no code").unwrap();
        cache.dir.rename("other", &cache.dir, "code").unwrap();
        assert!(map(&engine, &file).is_ok(), "another file has its name now");
        assert!(map(&engine, &cache.dir.open("code").unwrap().into_std()).is_err());
    }

    /// As if the compiler had generated code for another processor.
    #[tokio::test]
    async fn code_that_the_engine_refuses_is_reported_and_removed() {
        let (engine, _) = engine(Mode::Fast, 1 << 20, &Guests::Any(Allocation::OnDemand)).unwrap();
        let component = runtime::Component::new(*b"\0asm\x0d\0\x01\0");
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(&dir.path().join("cache")).unwrap();
        let compile = |settings| {
            let compiler = Engine::new(&settings).unwrap();
            compiler.precompile_component(&component.bytes().unwrap()).unwrap()
        };
        let store = async |code: Vec<u8>| {
            let write = async |mut file: File| std::io::Write::write_all(&mut file, &code);
            cache.store(&engine, Mode::Fast, &component, write).await.unwrap();
        };
        store(compile(codegen(Mode::Metered, false))).await;
        let error = cache.load(&engine, Mode::Fast, &component).err().unwrap();
        assert!(format!("{error:#}").contains("fuel"), "{error:#}");
        assert!(cache.load(&engine, Mode::Fast, &component).unwrap().is_none(), "it is removed");
        store(compile(codegen(Mode::Fast, false))).await;
        assert!(cache.load(&engine, Mode::Fast, &component).unwrap().is_some());
    }

    #[test]
    fn both_allocations_share_code_and_built_in_programs_do_not() {
        let component = runtime::Component::new(*b"the same");
        let of =
            |guests| key(&engine(Mode::Fast, 1 << 20, &guests).unwrap().0, Mode::Fast, &component);
        assert_eq!(of(Guests::Any(Allocation::OnDemand)), of(Guests::Any(Allocation::Pooling(2))));
        assert_ne!(
            of(Guests::Any(Allocation::OnDemand)),
            of(Guests::BuiltIn(component.digest.clone()))
        );
    }
}
