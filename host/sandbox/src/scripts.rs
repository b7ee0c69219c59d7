//! The code of a skill's scripts that is compiled once: the bytecode of Python files, and the
//! JavaScript of TypeScript files. The runtimes ask for it before they read and compile a file
//! themselves.
//!
//! A file is compiled by a runtime that is given only the file. Its code is cached under everything
//! it depends on: the path, the content, the runtime. So no guest can influence the code that another
//! one runs. A run that counts fuel compiles for itself: its fuel must not depend on earlier runs.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;
use futures::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use tracing::{Instrument as _, debug_span};

use crate::engine::{CacheFolder, Mode};
use crate::files::Vfs;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{Outcome, Status};
use skillhost_skill::runtime::spawn::SKILL_MOUNT;
use skillhost_skill::runtime::{Component, EntryPoint, Program, Programs, cache_quota, hex, stamp};

/// What a script is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    TypeScript,
}

/// A file's code; `None` if its guest compiles it itself. This includes files with errors, which
/// the guest then reports.
type Code = Option<Arc<[u8]>>;

/// Runs the compiler: a program that is given only its input. The run implements this; this module
/// does not know how.
pub(crate) trait Compiler: Sync {
    /// Runs the program within these limits.
    fn compile(&self, program: Program, limits: Limits, stdin: Vec<u8>) -> BoxFuture<'_, Outcome>;
}

/// The code of scripts, in memory and in the cache folder. Shared by all runs.
pub(crate) struct ScriptCache {
    folder: Arc<CacheFolder>,
    by_key: Mutex<HashMap<String, Code>>,
    /// Locked by the run that compiles a file: the compiler's memory is not charged to the run.
    compiling: tokio::sync::Mutex<()>,
}

/// The scripts of one run.
pub(crate) struct Scripts {
    cache: Arc<ScriptCache>,
    mode: Mode,
    limits: Limits,
    programs: Option<Arc<Programs>>,
    files: Arc<Vfs>,
    /// The files that were compiled for the run.
    compiled: AtomicUsize,
}

/// What the interface needs of a store's data.
pub(crate) struct ScriptsView<'a> {
    pub(crate) scripts: &'a Scripts,
    pub(crate) compiler: &'a dyn Compiler,
}

/// The most bytes of a source. A typical script of a public skill has 250 lines.
const SOURCE_MAX: u64 = 256 << 10;
/// The most bytes of its code, which is about as large as the source.
const CODE_MAX: u64 = 1 << 20;
/// The most files that are compiled for one run; the guest compiles any others itself.
const COMPILED_MAX: usize = 256;
/// The most files whose code is kept in memory.
const KEPT: usize = 128;
/// Limits for compiling a file, in bytes and milliseconds: enough for the runtime itself, and two
/// hundred times the source.
const MEMORY: u64 = 128 << 20;
const TIME: u64 = 2_000;

/// Compiles standard input and writes the code. Warnings are errors here: a file with warnings must
/// be compiled in each run, which then shows them.
const COMPILE_PYTHON: &str = "import marshal, sys
sys.stdout.buffer.write(marshal.dumps(compile(sys.stdin.buffer.read(), sys.argv[1], 'exec', dont_inherit=True)))";

impl Language {
    /// The program that compiles scripts.
    fn program(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::TypeScript => "node",
        }
    }

    /// The arguments with which it compiles standard input, as the file at `path`.
    fn compile_arguments(self, path: &str) -> Vec<String> {
        let arguments: &[&str] = match self {
            Language::Python => &["-W", "error", "-c", COMPILE_PYTHON, path],
            Language::TypeScript => &["--skillhost-strip-types", path],
        };
        arguments.iter().map(|argument| (*argument).to_owned()).collect()
    }
}

impl Scripts {
    pub(crate) fn new(
        cache: &Arc<ScriptCache>,
        mode: Mode,
        limits: Limits,
        programs: Option<Arc<Programs>>,
        files: Arc<Vfs>,
    ) -> Scripts {
        let (cache, compiled) = (cache.clone(), AtomicUsize::new(0));
        Scripts { cache, mode, limits, programs, files, compiled }
    }
}

impl ScriptsView<'_> {
    /// Returns the code of one of the skill's files, which the host reads as the guest would, and
    /// its path after resolving links.
    pub(crate) async fn code(&self, language: Language, path: &str) -> Option<(String, Arc<[u8]>)> {
        let Scripts { mode, programs, files, .. } = self.scripts;
        if *mode != Mode::Fast || !path.starts_with(SKILL_MOUNT) {
            return None;
        }
        let runtime = programs.as_ref()?.find(language.program()).ok()??;
        let (at, source) = files.content(path, SOURCE_MAX)?;
        if !at.strip_prefix(SKILL_MOUNT)?.starts_with('/') {
            return None;
        }
        Some((at, self.code_of(language, runtime, path, source).await?))
    }

    /// Returns the names in a folder, as the guest would list them.
    pub(crate) fn names(&self, folder: &str) -> Option<Vec<String>> {
        self.scripts.files.names(folder)
    }

    async fn code_of(
        &self,
        language: Language,
        runtime: Component,
        path: &str,
        source: Vec<u8>,
    ) -> Code {
        let Scripts { cache, programs, compiled, .. } = self.scripts;
        let owner = programs.as_ref().and_then(|programs| programs.skill().owner.as_deref());
        let key = key(&runtime, path, &source, owner);
        if let Some(code) = cache.get(&key) {
            return code;
        }
        if let Some(code) = load(cache.folder.path(), &key) {
            return cache.put(key, code);
        }
        // Do not wait while another run compiles a file.
        let _one = cache.compiling.try_lock().ok()?;
        if compiled.fetch_add(1, Relaxed) >= COMPILED_MAX {
            return None;
        }
        let compiling = self.compile(language, runtime, path, source);
        let code = compiling.instrument(debug_span!("compile script")).await?;
        match store(cache.folder.path(), &key, &code) {
            Ok(folder) => {
                cache.folder.note_growth();
                if let Some(skill) =
                    programs.as_ref().and_then(|programs| programs.skill().folder_id().ok())
                {
                    cache_quota::charge(
                        &folder,
                        &skill,
                        &file_name(&key),
                        code.as_ref().map_or(0, |code| code.len() as u64) + 32,
                    );
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a script's code was not cached; the next process compiles it again")
            }
        }
        cache.put(key, code)
    }

    /// Compiles a file. Returns `None` if the compiler ended for another reason than the file.
    async fn compile(
        &self,
        language: Language,
        runtime: Component,
        path: &str,
        source: Vec<u8>,
    ) -> Option<Code> {
        let program = Program {
            name: language.program().into(),
            component: runtime,
            entry: EntryPoint::Command,
            args: language.compile_arguments(path),
            script: None,
        };
        let own = self.scripts.limits.clone();
        let limits = Limits {
            timeout_ms: own.timeout_ms.min(TIME),
            memory: own.memory.min(MEMORY),
            stdout: CODE_MAX,
            ..own
        };
        let outcome = self.compiler.compile(program, limits, source).await;
        match outcome.status {
            Status::Exited { code: 0 } => Some(Some(outcome.stdout.0.into())),
            // An error in the file: if a limit was hit, the status would be the limit.
            Status::Exited { .. } => Some(None),
            _ => None,
        }
    }
}

impl ScriptCache {
    pub(crate) fn new(folder: Arc<CacheFolder>) -> ScriptCache {
        ScriptCache { folder, by_key: Mutex::default(), compiling: tokio::sync::Mutex::default() }
    }

    fn get(&self, key: &str) -> Option<Code> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: String, code: Code) -> Code {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if by_key.len() >= KEPT {
            // Code that is needed again is loaded from the cache folder.
            by_key.clear();
        }
        by_key.insert(key, code.clone());
        code
    }
}

/// Loads the code of a key from the cache folder. Incomplete files, as after a crash, count as
/// missing.
fn load(cache: &Path, key: &str) -> Option<Code> {
    let mut kept = Vec::new();
    stamp::open_cache_folder(cache)
        .ok()?
        .open(file_name(key))
        .ok()?
        .take(CODE_MAX + 64)
        .read_to_end(&mut kept)
        .ok()?;
    let (digest, code) = kept.split_first_chunk::<32>()?;
    (*digest == *Sha256::digest(code))
        .then(|| Some(code).filter(|code| !code.is_empty()).map(Arc::from))
}

/// Stores code there: its digest, and then the code, or nothing.
fn store(cache: &Path, key: &str, code: &Code) -> io::Result<Dir> {
    let code = code.as_deref().unwrap_or_default();
    let cache = stamp::open_cache_folder(cache)?;
    stamp::write_atomically(&cache, &file_name(key), &[&Sha256::digest(code), code].concat())?;
    Ok(cache)
}

fn file_name(key: &str) -> String {
    format!("{key}.script")
}

/// Returns the key of a file's code, from everything it depends on: the runtime, the path in
/// tracebacks, and the source; and from whose code it is.
fn key(runtime: &Component, path: &str, source: &[u8], owner: Option<&str>) -> String {
    let mut hash = Sha256::new();
    let owner = owner.map(str::as_bytes);
    for part in [runtime.digest.as_bytes(), path.as_bytes(), source].into_iter().chain(owner) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_script_is_not_shared_with_other_owners() {
        let runtime = Component::new(*b"a runtime");
        let key = |owner| key(&runtime, "/skill/a.py", b"pass", owner);
        assert_eq!(key(Some("one")), key(Some("one")));
        assert_ne!(key(Some("one")), key(Some("two")));
        assert_ne!(key(Some("one")), key(None));
    }
}
