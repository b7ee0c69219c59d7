//! Runs a program under capabilities and returns its outcome. The only crate that knows wasmtime.
//!
//! This crate owns every enforcer: the file layer, the HTTP sender, processes, clocks, randomness,
//! streams and limits, once for WASI 0.2 and 0.3 alike. It must not know who granted what, or where
//! a skill came from: it is handed a `Program` and `Capabilities`.
//!
//! Start reading at [`run()`], which is one invocation from start to end: `mounts` opens what the
//! guest may see (`scratch` is its own folder), `invocation` is what its programs share, `store`
//! runs one of them, `process` lets one start another. Before that a component is made ready:
//! `engine`, `compile`, `cache`, and `wasi`, which links its imports; `memory` and `stacks` are
//! what built-in programs run in. Behind the imports are [`files`], [`http`], `random`, `stdio`,
//! `tools` and `compiled`; `pipe` joins programs, `children` ends them with the program that
//! started them. `meter` counts what all of them use, and `fuel` what they burn.
//!
//! A deterministic run takes its order from `turns`, its time from `clock` (linked by `clocks`),
//! and its streams from `steady` and `relay`. [`recording`] keeps what reached a run from outside
//! and replays it.

mod cache;
mod children;
mod clock;
mod clocks;
mod compile;
mod compiled;
mod confine;
mod denials;
mod descriptor;
mod ended;
mod engine;
pub mod files;
mod fingerprint;
mod fuel;
pub mod heap;
pub mod http;
mod invocation;
mod listing;
mod mapped;
mod memory;
mod meter;
mod mounts;
mod offload;
mod pipe;
mod process;
mod random;
pub mod recording;
mod relay;
mod resident;
mod run;
mod schema;
mod scratch;
mod stacks;
mod state;
mod stdio;
mod stdio_p2;
mod steady;
mod store;
pub mod terminal;
mod tools;
mod turns;
mod waiters;
mod wasi;
mod web;
pub mod world;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::{Instrument as _, debug_span};
use wasmtime::Engine;
use wasmtime::component::{InstancePre, Linker};

pub use compile::compile_if_asked;
pub use engine::{Allocation, EPOCH, Mode};
pub use fingerprint::{ENGINE, fingerprint};
pub use listing::{Listing, Tool, exercise, is_tool_name, listing, with_listing};
pub use mounts::{ExtraMounts, Overlays};
pub use run::{Evidence, Finished, Invoke, Io, Outside, run, run_alone};
pub use stdio::{Sink, Stdin};

use compile::CompileError;
use engine::Guests;
use memory::{Image, Memories};
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::{Limits, STACK};
use skillhost_policy::outcome::{Denial, LimitHit, Status};
use skillhost_skill::runtime::{Component, Entry, room};
use state::State;
use wasi::Imports;

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
pub struct Sandbox(Arc<Shared>);

struct Shared {
    options: Options,
    engines: Mutex<HashMap<EngineKey, (Engine, Memories)>>,
    linkers: Mutex<HashMap<LinkerKey, Arc<Linker<State>>>>,
    prepared: Mutex<HashMap<(EngineKey, String), Prepared>>,
    compiled: compiled::Kept,
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
struct Prepared {
    pre: InstancePre<State>,
    exports: Exports,
}

/// Which of the exports that a host calls a component has, and what else it has.
#[derive(Debug, Clone, Default)]
struct Exports {
    run_p3: bool,
    run_p2: bool,
    tools: bool,
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
            compiled: compiled::Kept::default(),
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
            room::tidy(self.cache());
        }
    }

    fn cache(&self) -> &Path {
        &self.0.options.cache
    }

    fn sender(
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
    async fn prepare(
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
        let ready = Arc::new(wasi::linker(engine, mode, imports)?);
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
        let cache = cache::Cache::open(&self.0.options.cache)
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

/// The stack that a program's engine gives it: what was set, else what it needs, in bytes.
pub fn stack(component: &Component, limits: &Limits) -> u64 {
    limits
        .stack
        .unwrap_or_else(|| component.built_in().map_or(STACK, |built_in| built_in.stack.max(STACK)))
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

/// Tells a component from what people mistake for one.
///
/// # Errors
/// `Status::Invalid`, with what would make it one.
pub fn check_kind(bytes: &[u8]) -> Result<(), Status> {
    // Preamble: magic, then version 0x0d and layer 1 for a component, version 1 and layer 0 for a
    // core module (component-model/design/mvp/Binary.md).
    match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(Status::Invalid {
            message: "this is a core module, not a component".into(),
            fix: Some(
                "build it with `skillhost build`, or with `linker = \"wasm-component-ld\"` for the target in .cargo/config.toml, \
                 or wrap it by `wasm-tools component new MODULE.wasm -o COMPONENT.wasm`"
                    .into(),
            ),
        }),
        [0, b'a', b's', b'm', ..] => Err(invalid("this WebAssembly file is of a version that is not known here".into())),
        _ => Err(invalid("this is no WebAssembly file".into())),
    }
}

fn invalid(message: String) -> Status {
    Status::Invalid { message, fix: None }
}

fn unlinkable(error: &wasmtime::Error) -> Status {
    let fix = "a component here may import WASI 0.3 and 0.2, and skillhost:skill/process; `skillhost inspect` lists what this one imports";
    Status::Invalid {
        message: format!("the component imports what is not here: {error:#}"),
        fix: Some(fix.into()),
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> Status {
    Status::Failed { message: format!("{what}: {error:#}"), fix: None }
}

/// A status that kept a program from starting, in one sentence.
pub fn say(status: &Status) -> String {
    match status {
        Status::Invalid { message, .. } | Status::Failed { message, .. } => message.clone(),
        Status::LimitHit(hit) => hit.explain(),
        Status::Denied(Denial { rule, .. }) => rule.clone(),
        Status::Aborted { reason } => reason.clone(),
        Status::Exited { .. } | Status::Trapped { .. } | Status::Interrupted => {
            "it did not start".into()
        }
    }
}

impl Prepared {
    /// Why an entry cannot be called, with what there is instead.
    fn lacks(&self, entry: &Entry) -> Option<Status> {
        let exports = &self.exports;
        let (has, wanted, nor) = match entry {
            // It is asked what it has: nothing is an answer.
            Entry::ListTools => return None,
            Entry::Command => (
                exports.run_p3 || exports.run_p2,
                "`wasi:cli/run`, so it is no command",
                String::new(),
            ),
            Entry::Tool { scripts, .. } => {
                (exports.tools, "`skillhost:skill/tools`, so it has no tools", tools::nor(scripts))
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
