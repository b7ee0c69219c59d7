//! What all invocations share: engines, compiled and linked components, TLS.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{Instrument as _, debug_span};
use wasmtime::Engine;
use wasmtime::component::{InstancePre, Linker};

use super::State;
use super::linker::{self, Imports};
use crate::engine::cache::Cache;
use crate::engine::compile::{self, CompileError};
use crate::engine::memory::{Image, Memories};
use crate::engine::{self, Allocation, Guests, Mode, check_kind, failed, invalid, stack};
use crate::http;
use crate::python::compiled_scripts;
use crate::tools::{call, listing};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::{LimitHit, Status};
use skillhost_skill::runtime::{Component, EntryPoint, cache_quota};

/// What a sandbox stands on.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `skillhost` binary, started as the compiler.
    pub compiler: PathBuf,
    /// The folder of compiled components; only the host writes there.
    pub cache: PathBuf,
    /// How stores get their memory.
    pub allocation: Allocation,
    /// Whom HTTPS trusts.
    pub tls: Arc<http::Tls>,
    /// How names become addresses.
    pub resolver: http::Resolver,
}

/// Engines, compiled components and TLS, made when first needed and shared by all invocations.
/// Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    options: Options,
    engines: Mutex<HashMap<EngineKey, (Engine, Memories)>>,
    linkers: Mutex<HashMap<LinkerKey, Arc<Linker<State>>>>,
    prepared: Mutex<HashMap<(EngineKey, String), Prepared>>,
    pub(crate) compiled: compiled_scripts::Kept,
    /// Whether something came into the cache folder since it was tidied.
    grown: AtomicBool,
}

/// What tells engines apart: the mode, the stack that guests are given, in bytes, and which guests.
type EngineKey = (Mode, u64, Guests);
type LinkerKey = (EngineKey, Imports);

/// Components kept ready in memory; each holds its code mapped.
const PREPARED: usize = 256;

/// A component that is compiled and linked: a store away from running.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Exports,
}

/// Which of the exports that a host calls a component has, and what else it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exports {
    pub(crate) run_p3: bool,
    pub(crate) run_p2: bool,
    pub(crate) tools: bool,
    others: Vec<String>,
}

impl Sandbox {
    /// Takes options; does no work.
    pub fn new(options: Options) -> Sandbox {
        Sandbox(Arc::new(Shared {
            options,
            engines: Mutex::default(),
            linkers: Mutex::default(),
            prepared: Mutex::default(),
            compiled: compiled_scripts::Kept::default(),
            grown: AtomicBool::new(false),
        }))
    }

    /// Notes that something came into the cache folder.
    pub fn note_growth(&self) {
        self.0.grown.store(true, Relaxed);
    }

    /// Whether something did since it was tidied.
    pub fn has_grown(&self) -> bool {
        self.0.grown.load(Relaxed)
    }

    /// Tidies the cache folder where something came into it.
    pub fn tidy(&self) {
        if self.0.grown.swap(false, Relaxed) {
            cache_quota::trim(self.cache());
        }
    }

    pub(crate) fn cache(&self) -> &Path {
        &self.0.options.cache
    }

    pub(crate) fn sender(
        &self,
        capabilities: &Capabilities,
        held: Option<http::Held>,
        digests: bool,
    ) -> Arc<http::Sender> {
        http::Sender::made(
            capabilities,
            self.0.options.tls.clone(),
            self.0.options.resolver.clone(),
            held,
            digests,
        )
    }

    /// Compiles, loads and links a component, or takes what is ready.
    pub(crate) async fn prepare(
        &self,
        component: &Component,
        mode: Mode,
        limits: &Limits,
    ) -> Result<Prepared, Status> {
        let guests = match component.built_in() {
            Some(_) => Guests::BuiltIn(component.digest.clone()),
            None => Guests::Any(self.0.options.allocation),
        };
        let engine_key = (mode, stack(component, limits), guests);
        let key = (engine_key, component.digest.clone());
        if let Some(prepared) =
            self.0.prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return Ok(prepared.clone());
        }
        let not_started = |error| failed("the engine could not start", error);
        let (engine, memories) =
            debug_span!("engine").in_scope(|| self.engine(&key.0)).map_err(not_started)?;
        let loaded = self
            .load(&engine, &memories, component, &key.0, limits)
            .instrument(debug_span!("load"))
            .await?;
        let _span = debug_span!("link").entered();
        let exports = Exports::of(&loaded, &engine);
        let linker = self
            .linker(&engine, (key.0.clone(), Imports::of(&loaded, &engine)))
            .map_err(not_started)?;
        let pre = linker.instantiate_pre(&loaded).map_err(|error| unlinkable(&error))?;
        let prepared = Prepared { pre, exports };
        let mut ready = self.0.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= PREPARED {
            // What is still wanted comes back from the cache in a fraction of a millisecond.
            ready.clear();
        }
        ready.insert(key, prepared.clone());
        Ok(prepared)
    }

    fn engine(&self, key: &EngineKey) -> wasmtime::Result<(Engine, Memories)> {
        let mut engines = self.0.engines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = engines.get(key) {
            return Ok(ready.clone());
        }
        let (mode, stack, guests) = key;
        let ready = engine::engine(*mode, *stack, guests)?;
        engines.insert(key.clone(), ready.clone());
        Ok(ready)
    }

    fn linker(&self, engine: &Engine, key: LinkerKey) -> wasmtime::Result<Arc<Linker<State>>> {
        let mut linkers = self.0.linkers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = linkers.get(&key) {
            return Ok(ready.clone());
        }
        let ((mode, ..), imports) = key;
        let ready = Arc::new(linker::linker(engine, mode, imports)?);
        linkers.insert(key, ready.clone());
        Ok(ready)
    }

    async fn load(
        &self,
        engine: &Engine,
        memories: &Memories,
        component: &Component,
        (mode, _, guests): &EngineKey,
        limits: &Limits,
    ) -> Result<wasmtime::component::Component, Status> {
        let cache = Cache::open(&self.0.options.cache)
            .map_err(|error| failed("the cache is not usable", error))?;
        let load = || {
            let (loaded, file) = cache.load(engine, *mode, component)?;
            if guests.have_images() {
                Image::of(file).into_iter().for_each(|image| memories.begin_with(image));
            }
            Some(loaded)
        };
        if let Some(loaded) = load() {
            return Ok(loaded);
        }
        let bytes =
            component.bytes().map_err(|error| failed("the component cannot be read", error))?;
        check_kind(&bytes)?;
        let (compiler, mode) = (&self.0.options.compiler, *mode);
        // Another host that finds the entry half made, or broken before, removes it: then it is
        // made again.
        for _ in 0..3 {
            let compile = async |to| {
                compile::compile(compiler, &bytes, mode, guests.have_images(), limits, to).await
            };
            cache
                .store(engine, mode, component, compile)
                .await
                .map_err(|error| not_compiled(error, limits))?;
            self.note_growth();
            if let Some(loaded) = load() {
                // It is mapped, and stays so even where it is more than its skill may keep.
                cache.charge(engine, mode, component);
                return Ok(loaded);
            }
        }
        Err(failed(
            "the compiled component did not load",
            "it was changed or removed each time it was written",
        ))
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

fn unlinkable(error: &wasmtime::Error) -> Status {
    let fix = "a component here may import WASI 0.3 and 0.2, and skillhost:skill/process; `skillhost inspect` lists what this one imports";
    Status::Invalid {
        message: format!("the component imports what is not here: {error:#}"),
        fix: Some(fix.into()),
    }
}

impl Prepared {
    /// Why an entry cannot be called, with what there is instead.
    pub(crate) fn lacks(&self, entry: &EntryPoint) -> Option<Status> {
        let exports = &self.exports;
        let (has, wanted, nor) = match entry {
            // It is asked what it has: nothing is an answer.
            EntryPoint::ListTools => return None,
            EntryPoint::Command => (
                exports.run_p3 || exports.run_p2,
                "`wasi:cli/run`, so it is no command",
                String::new(),
            ),
            EntryPoint::Tool { scripts, .. } => {
                (exports.tools, "`skillhost:skill/tools`, so it has no tools", call::nor(scripts))
            }
        };
        if has {
            return None;
        }
        let mut have = exports.others.clone();
        have.extend(exports.tools.then(|| "skillhost:skill/tools@0.1.0".to_owned()));
        have.extend(exports.run_p3.then(|| "wasi:cli/run@0.3.0".to_owned()));
        have.extend(exports.run_p2.then(|| "wasi:cli/run@0.2".to_owned()));
        let have = if have.is_empty() { "nothing".to_owned() } else { have.join(", ") };
        // Neither is here where the wanted one is not.
        let fix = match (exports.tools, exports.run_p3 || exports.run_p2) {
            (true, _) => {
                Some("name one of its tools: `skillhost run SKILL TOOL --input '{...}'`; `skillhost inspect SKILL` lists them".into())
            }
            (_, true) => Some("it is a command, whose arguments come after `--`: `skillhost run SKILL -- ARGS`".into()),
            _ => None,
        };
        Some(Status::Invalid {
            message: format!("the component does not export {wanted}; it exports {have}{nor}"),
            fix,
        })
    }
}

impl Exports {
    fn of(component: &wasmtime::component::Component, engine: &Engine) -> Exports {
        let mut exports = Exports::default();
        for (name, _) in component.component_type().exports(engine) {
            match name {
                "wasi:cli/run@0.3.0" => exports.run_p3 = true,
                listing::INTERFACE => exports.tools = true,
                name if name.starts_with("wasi:cli/run@0.2.") => exports.run_p2 = true,
                name => exports.others.push(name.to_owned()),
            }
        }
        exports
    }
}
