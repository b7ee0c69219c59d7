//! Makes a component's code ready: from the cache, or by compiling it.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tracing::{Instrument as _, debug_span};
use wasmtime::Engine;

use super::cache::{Cache, CacheFolder};
use super::compilation::{Compilation, CompilationWatch};
use super::compile::{self, CompileError};
use super::config::{Allocation, Architecture, Guests, Mode, Processor, engine, stack};
use super::memory::{Image, Memories};
use super::shipped;
use super::status::{failed, invalid};
use super::world::check_kind;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{LimitHit, Status};
use skillhost_skill::embedded::EmbeddedCode;
use skillhost_skill::runtime::Component;

/// The engines of a host, and the code that they load.
pub(crate) struct Loader {
    compiler: PathBuf,
    allocation: Allocation,
    cache: Arc<CacheFolder>,
    engines: Mutex<HashMap<EngineKey, (Engine, Memories)>>,
    /// The code that is part of the program, by the digest of its component.
    embedded: OnceLock<HashMap<&'static str, EmbeddedCode>>,
    watch: CompilationWatch,
}

/// Identifies an engine: by its mode, the stack of its guests in bytes, and which guests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EngineKey {
    pub(crate) mode: Mode,
    stack: u64,
    guests: Guests,
}

/// A component's code, and the engine that runs it.
pub(crate) struct Loaded {
    pub(crate) engine: Engine,
    pub(crate) component: wasmtime::component::Component,
}

/// Whether the code of a component is in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeState {
    /// It can be loaded.
    Ready,
    /// It is not there, or was changed. The first run compiles the component.
    Missing,
    /// It cannot be used on this machine, for this reason. The first run compiles the component.
    Unusable(String),
    /// The cache folder cannot be used, for this reason.
    NoCache(String),
}

impl Loader {
    /// Does no work.
    pub(crate) fn new(compiler: PathBuf, allocation: Allocation, cache: Arc<CacheFolder>) -> Self {
        let (engines, watch) = (Mutex::default(), CompilationWatch::default());
        Loader { compiler, allocation, cache, engines, embedded: OnceLock::new(), watch }
    }

    /// Sets what is called when a compilation starts and when it has ended. Only the first call
    /// counts.
    pub(crate) fn watch(&self, watch: impl Fn(&Compilation<'_>) + Send + Sync + 'static) {
        self.watch.set(watch);
    }

    /// Loads the code of these components from the program itself. Only the first call counts.
    pub(crate) fn embed(&self, code: impl IntoIterator<Item = EmbeddedCode>) {
        // A second list is ignored.
        let _ = self.embedded.set(code.into_iter().map(|code| (code.component(), code)).collect());
    }

    /// The engine for a component.
    pub(crate) fn key(&self, component: &Component, mode: Mode, limits: &Limits) -> EngineKey {
        let guests = match component.built_in() {
            Some(_) => Guests::BuiltIn(component.digest.clone()),
            None => Guests::Any(self.allocation),
        };
        EngineKey { mode, stack: stack(component, limits), guests }
    }

    /// Loads a component from the cache, compiling it first if it is not there.
    pub(crate) async fn load(
        &self,
        component: &Component,
        key: &EngineKey,
        limits: &Limits,
    ) -> Result<Loaded, Status> {
        let (engine, memories) = debug_span!("engine")
            .in_scope(|| self.engine(key))
            .map_err(|error| failed("the engine could not start", error))?;
        let component = self
            .component(&engine, &memories, component, key, limits)
            .instrument(debug_span!("load"))
            .await?;
        Ok(Loaded { engine, component })
    }

    /// Checks whether the cache has the code of a component. Compiles and changes nothing.
    pub(crate) fn state(&self, component: &Component, key: &EngineKey) -> CodeState {
        if shipped::is_ready(key.mode, component) {
            return CodeState::Ready;
        }
        let cache = match Cache::open_existing(self.cache.path()) {
            Ok(Some(cache)) => cache,
            Ok(None) => return CodeState::Missing,
            Err(error) => return CodeState::NoCache(error.to_string()),
        };
        let found =
            self.engine(key).and_then(|(engine, _)| cache.has(&engine, key.mode, component));
        match found {
            Ok(true) => CodeState::Ready,
            Ok(false) => CodeState::Missing,
            Err(error) => CodeState::Unusable(format!("{error:#}")),
        }
    }

    fn engine(&self, key: &EngineKey) -> wasmtime::Result<(Engine, Memories)> {
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = engines.get(key) {
            return Ok(ready.clone());
        }
        let ready = engine(key.mode, key.stack, &key.guests)?;
        engines.insert(key.clone(), ready.clone());
        Ok(ready)
    }

    async fn component(
        &self,
        engine: &Engine,
        memories: &Memories,
        component: &Component,
        key: &EngineKey,
        limits: &Limits,
    ) -> Result<wasmtime::component::Component, Status> {
        if let Some(loaded) = self.embedded(engine, component, key) {
            return Ok(loaded);
        }
        let (mode, have_images) = (key.mode, key.guests.have_images());
        let cache = Cache::open(self.cache.path())
            .map_err(|error| failed("the cache is not usable", error))?;
        let load = || -> wasmtime::Result<Option<wasmtime::component::Component>> {
            let Some((loaded, file)) = cache.load(engine, mode, component)? else {
                return Ok(None);
            };
            if have_images {
                Image::of(file).into_iter().for_each(|image| memories.set_image(image));
            }
            Ok(Some(loaded))
        };
        // Code that this engine refuses is compiled again, as if it were missing.
        if let Ok(Some(loaded)) = load() {
            return Ok(loaded);
        }
        if let Some(file) = shipped::open(&cache, mode, component)
            && let Ok(loaded) = Cache::load_shipped(engine, &file)
        {
            Image::of(file).into_iter().for_each(|image| memories.set_image(image));
            return Ok(loaded);
        }
        let bytes =
            component.bytes().map_err(|error| failed("the component cannot be read", error))?;
        check_kind(&bytes)?;
        let _watched = self.watch.start(component, mode);
        // A runtime takes seconds, so hosts that need the same one compile it once. A component of
        // a skill must not keep others waiting.
        let wait = Duration::from_millis(limits.compile_ms);
        let locked = match component.built_in() {
            Some(_) => cache.lock_compiling(wait).await,
            None => None,
        };
        if locked.is_some()
            && let Ok(Some(loaded)) = load()
        {
            return Ok(loaded);
        }
        // Another host may have found the entry incomplete or broken, and removed it: then it is
        // made again. It may also have replaced it by code for another processor.
        let mut reason = "it was changed or removed each time it was written".to_owned();
        for _ in 0..3 {
            let compile = async |to| {
                let processor = Processor::Native;
                compile::compile(&self.compiler, &bytes, mode, have_images, processor, limits, to)
                    .await
            };
            cache
                .store(engine, mode, component, compile)
                .await
                .map_err(|error| not_compiled(error, limits))?;
            self.cache.note_growth();
            match load() {
                Ok(Some(loaded)) => {
                    // It is mapped, and stays so even if it is more than its skill may keep.
                    cache.charge(engine, mode, component);
                    return Ok(loaded);
                }
                Ok(None) => {}
                Err(error) => reason = format!("{error:#}"),
            }
        }
        Err(failed("the compiled component did not load", reason))
    }
}

impl Loader {
    /// Loads a component's code from the program itself; `None` if it has none for this engine.
    fn embedded(
        &self,
        engine: &Engine,
        component: &Component,
        key: &EngineKey,
    ) -> Option<wasmtime::component::Component> {
        // The code of built-in programs starts from images.
        let is_any = key.mode == Mode::Fast && matches!(key.guests, Guests::Any(_));
        let code = self.embedded.get().filter(|_| is_any)?.get(component.digest.as_str())?;
        #[expect(unsafe_code, reason = "the code is part of this program")]
        // SAFETY: `EmbeddedCode::new` requires that it is what the compiler wrote for the component
        // with this digest. The engine refuses code of another version, or for other processors.
        let loaded = unsafe { wasmtime::component::Component::deserialize(engine, code.code()) };
        loaded
            .inspect_err(|error| {
                let reason = format!("{error:#}");
                tracing::warn!(reason, "the compiled code in this program is not used");
            })
            .ok()
    }

    /// Compiles a runtime for all processors of an architecture that its code ships for, and
    /// writes the code to a file.
    pub(crate) async fn compile_to_ship(
        &self,
        component: &Component,
        architecture: Architecture,
        to: File,
    ) -> Result<(), Status> {
        let limits = Limits::default();
        let bytes =
            component.bytes().map_err(|error| failed("the component cannot be read", error))?;
        check_kind(&bytes)?;
        let (mode, processor) = (Mode::Fast, Processor::Shipped(architecture));
        let have_images = component.built_in().is_some();
        compile::compile(&self.compiler, &bytes, mode, have_images, processor, &limits, to)
            .await
            .map_err(|error| not_compiled(error, &limits))
    }
}

fn not_compiled(error: CompileError, limits: &Limits) -> Status {
    match error {
        CompileError::Limit(exceeded) => Status::LimitHit(LimitHit {
            limit: exceeded.0,
            value: limits.get(exceeded.0).unwrap_or(0),
        }),
        CompileError::Invalid(message) => invalid(message),
        CompileError::Io(error) => failed("compiling failed", error),
    }
}
