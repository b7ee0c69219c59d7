//! What all runs share: engines, compiled and linked components, TLS.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::debug_span;
use wasmtime::Engine;
use wasmtime::component::{InstancePre, Linker};

use super::linker::{self, Imports};
use super::state::State;
use crate::engine::{
    Allocation, Architecture, CacheFolder, CodeState, Compilation, EngineKey, Loader, Mode, failed,
};
use crate::http;
use crate::scripts::ScriptCache;
use crate::tools::{call, listing};
use skillhost_policy::limits::Limits;
use skillhost_policy::outcome::Status;
use skillhost_skill::embedded::EmbeddedCode;
use skillhost_skill::runtime::{Component, EntryPoint};

/// What a sandbox is made from.
#[derive(Debug, Clone)]
pub struct Options {
    /// The `skillhost` binary, started as the compiler.
    pub compiler: PathBuf,
    /// The folder of compiled components; only the host writes there.
    pub cache: PathBuf,
    /// How stores get their memory.
    pub allocation: Allocation,
    /// The certificate authorities that HTTPS trusts.
    pub tls: Arc<http::Tls>,
    /// How names become addresses.
    pub resolver: http::Resolver,
}

/// Engines, compiled components and TLS, made when first needed and shared by all runs. Cheap to
/// clone.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

struct Shared {
    tls: Arc<http::Tls>,
    resolver: http::Resolver,
    cache: Arc<CacheFolder>,
    loader: Loader,
    linkers: Mutex<HashMap<LinkerKey, Arc<Linker<State>>>>,
    prepared: Mutex<HashMap<(EngineKey, String), Prepared>>,
    scripts: Arc<ScriptCache>,
}

type LinkerKey = (EngineKey, Imports);

/// Components that are kept ready in memory, with their code mapped.
const PREPARED: usize = 256;

/// A component that is compiled and linked: a store away from running.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) pre: InstancePre<State>,
    pub(super) exports: Exports,
}

/// The exports of a component that a host calls, and the names of the others.
#[derive(Debug, Clone, Default)]
pub(super) struct Exports {
    pub(super) run_p3: bool,
    pub(super) run_p2: bool,
    pub(super) tools: bool,
    others: Vec<String>,
}

impl Sandbox {
    /// Makes a sandbox; does no work.
    pub fn new(options: Options) -> Sandbox {
        let Options { compiler, cache, allocation, tls, resolver } = options;
        let cache = Arc::new(CacheFolder::new(cache));
        Sandbox(Arc::new(Shared {
            tls,
            resolver,
            loader: Loader::new(compiler, allocation, cache.clone()),
            scripts: Arc::new(ScriptCache::new(cache.clone())),
            cache,
            linkers: Mutex::default(),
            prepared: Mutex::default(),
        }))
    }

    /// Calls `watch` when a compilation starts and when it has ended. Only the first watch counts.
    pub fn watch_compilations(&self, watch: impl Fn(&Compilation<'_>) + Send + Sync + 'static) {
        self.0.loader.watch(watch);
    }

    /// Loads the code of these components from the program itself. Only the first call counts.
    pub fn embed(&self, code: impl IntoIterator<Item = EmbeddedCode>) {
        self.0.loader.embed(code);
    }

    /// Compiles a component, unless the cache already has its code.
    ///
    /// # Errors
    /// Why it does not compile.
    pub async fn compile(
        &self,
        component: &Component,
        mode: Mode,
        limits: &Limits,
    ) -> Result<(), Status> {
        self.prepare(component, mode, limits).await.map(drop)
    }

    /// Compiles a runtime for all processors of an architecture that its code ships for, and writes
    /// the code to a file.
    ///
    /// # Errors
    /// Why it does not compile: for another architecture than this machine's, the crate needs its
    /// feature `all-architectures`.
    pub async fn compile_to_ship(
        &self,
        component: &Component,
        architecture: Architecture,
        to: std::fs::File,
    ) -> Result<(), Status> {
        self.0.loader.compile_to_ship(component, architecture, to).await
    }

    /// Checks whether the cache has the code of a component. Compiles and changes nothing.
    pub fn code_state(&self, component: &Component, mode: Mode, limits: &Limits) -> CodeState {
        let loader = &self.0.loader;
        loader.state(component, &loader.key(component, mode, limits))
    }

    /// Notes that something was added to the cache folder.
    pub fn note_growth(&self) {
        self.0.cache.note_growth();
    }

    /// Checks whether anything was added to the cache folder since it was tidied.
    pub fn has_grown(&self) -> bool {
        self.0.cache.has_grown()
    }

    /// Tidies the cache folder if anything was added to it.
    pub fn tidy(&self) {
        self.0.cache.tidy();
    }

    pub(super) fn cache(&self) -> &Path {
        self.0.cache.path()
    }

    pub(super) fn scripts(&self) -> &Arc<ScriptCache> {
        &self.0.scripts
    }

    pub(super) fn tls(&self) -> &Arc<http::Tls> {
        &self.0.tls
    }

    pub(super) fn resolver(&self) -> &http::Resolver {
        &self.0.resolver
    }

    /// Compiles, loads and links a component, or returns one that is ready.
    pub(super) async fn prepare(
        &self,
        component: &Component,
        mode: Mode,
        limits: &Limits,
    ) -> Result<Prepared, Status> {
        let Shared { loader, prepared, .. } = &*self.0;
        let key = (loader.key(component, mode, limits), component.cache_name().into_owned());
        if let Some(ready) = prepared.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(ready.clone());
        }
        let loaded = loader.load(component, &key.0, limits).await?;
        let _span = debug_span!("link").entered();
        let exports = Exports::of(&loaded.component, &loaded.engine);
        let imports = Imports::of(&loaded.component, &loaded.engine);
        let linker = self
            .linker(&loaded.engine, (key.0.clone(), imports))
            .map_err(|error| failed("the engine could not start", error))?;
        let pre = linker.instantiate_pre(&loaded.component).map_err(|error| unlinkable(&error))?;
        let ready = Prepared { pre, exports };
        let mut prepared = prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if prepared.len() >= PREPARED {
            // Components that are needed again are loaded from the cache in a fraction of a
            // millisecond.
            prepared.clear();
        }
        prepared.insert(key, ready.clone());
        Ok(ready)
    }

    fn linker(&self, engine: &Engine, key: LinkerKey) -> wasmtime::Result<Arc<Linker<State>>> {
        let mut linkers = self.0.linkers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = linkers.get(&key) {
            return Ok(ready.clone());
        }
        let ready = Arc::new(linker::linker(engine, key.0.mode, key.1)?);
        linkers.insert(key, ready.clone());
        Ok(ready)
    }
}

fn unlinkable(error: &wasmtime::Error) -> Status {
    let fix = "components can import WASI 0.3 and 0.2, and skillhost:skill/process; `skillhost inspect` lists the imports of this one";
    Status::Invalid {
        message: format!("the component has an unknown import: {error:#}"),
        fix: Some(fix.into()),
    }
}

impl Prepared {
    /// Explains why an entry point cannot be called, and what the component has instead.
    pub(super) fn lacks(&self, entry: &EntryPoint) -> Option<Status> {
        let exports = &self.exports;
        let (has, wanted, scripts) = match entry {
            // A component without tools has an empty list.
            EntryPoint::ListTools => return None,
            EntryPoint::Command => (
                exports.run_p3 || exports.run_p2,
                "`wasi:cli/run`, so it is not a command",
                String::new(),
            ),
            EntryPoint::Tool { scripts, .. } => (
                exports.tools,
                "`skillhost:skill/tools`, so it has no tools",
                call::no_script_either(scripts),
            ),
        };
        if has {
            return None;
        }
        let mut have = exports.others.clone();
        have.extend(exports.tools.then(|| "skillhost:skill/tools@0.1.0".to_owned()));
        have.extend(exports.run_p3.then(|| "wasi:cli/run@0.3.0".to_owned()));
        have.extend(exports.run_p2.then(|| "wasi:cli/run@0.2".to_owned()));
        let have = if have.is_empty() { "nothing".to_owned() } else { have.join(", ") };
        // The wanted export is missing, so only the other kind can be present.
        let fix = match (exports.tools, exports.run_p3 || exports.run_p2) {
            (true, _) => {
                Some("name one of its tools: `skillhost run SKILL TOOL --input '{...}'`; `skillhost inspect SKILL` lists them".into())
            }
            (_, true) => Some("it is a command; its arguments follow `--`: `skillhost run SKILL -- ARGS`".into()),
            _ => None,
        };
        Some(Status::Invalid {
            message: format!("the component does not export {wanted}; it exports {have}{scripts}"),
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
