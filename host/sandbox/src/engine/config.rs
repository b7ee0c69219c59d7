//! The two engines, and what each keeps ready: a linker, an epoch ticker, and the components it has
//! loaded.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures};

use super::memory::Memories;
use super::stacks::Stacks;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::{Limits, STACK};
use skillhost_skill::runtime::Component;

/// How often a running guest is interrupted to let its host look at deadlines. Long enough that the
/// check costs nothing, short enough that a person does not notice the difference.
pub const EPOCH: Duration = Duration::from_millis(10);

/// Which engine runs a guest.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Epochs alone: the fastest code that can still be stopped.
    Fast,
    /// Fuel is counted, with epochs as well.
    Metered,
    /// Fuel is counted and decides; epochs may only abort. Every NaN is the same one.
    Deterministic,
}

impl Mode {
    /// The one that runs a guest with these capabilities.
    pub fn of(capabilities: &Capabilities) -> Mode {
        match (capabilities.determinism, capabilities.limits.fuel) {
            (Some(_), _) => Mode::Deterministic,
            (None, Some(_)) => Mode::Metered,
            (None, None) => Mode::Fast,
        }
    }
}

/// How stores get their memory, but for built-in programs, which have [memory of their
/// own](super::memory).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Allocation {
    /// Mapped when asked for.
    #[default]
    OnDemand,
    /// Reserved once and used again: at most that many stores at once, whatever they run.
    Pooling(u32),
}

/// What an engine is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Guests {
    /// Any components.
    Any(Allocation),
    /// A built-in program, by the digest of its component.
    BuiltIn(String),
}

impl Guests {
    /// Whether their memory begins with an [image](super::memory) of the host's, and not with one
    /// of wasmtime's.
    pub(crate) fn have_images(&self) -> bool {
        matches!(self, Guests::BuiltIn(_))
    }
}

/// Features that no toolchain of ours needs: each is code of the engine that a hostile component
/// cannot reach.
pub(crate) const OFF: [WasmFeatures; 7] = [
    WasmFeatures::THREADS,
    WasmFeatures::SHARED_EVERYTHING_THREADS,
    WasmFeatures::MEMORY64,
    WasmFeatures::RELAXED_SIMD,
    WasmFeatures::GC,
    WasmFeatures::EXCEPTIONS,
    WasmFeatures::STACK_SWITCHING,
];

/// A memory's initial content of up to this size, in bytes, becomes one image, which instances map
/// and copy as they write: an interpreter's snapshot, 40 MiB of Python, starts at once. What a
/// component can make of it is bounded as all that is compiled: by `compile-memory`.
pub(crate) const IMAGE: u64 = 64 << 20;

/// The settings that decide what code is generated. A compiled component fits engines that share
/// them.
pub(crate) fn codegen(mode: Mode, have_images: bool) -> Config {
    let mut config = Config::new();
    config.memory_init_cow(!have_images);
    config
        .epoch_interruption(true)
        .consume_fuel(mode != Mode::Fast)
        .cranelift_nan_canonicalization(mode == Mode::Deterministic);
    config.memory_guaranteed_dense_image_size(IMAGE);
    for feature in OFF {
        config.wasm_features(feature, false);
    }
    config
}

/// The stack that a program's engine gives it: what was set, else what it needs, in bytes.
pub fn stack(component: &Component, limits: &Limits) -> u64 {
    limits
        .stack
        .unwrap_or_else(|| component.built_in().map_or(STACK, |built_in| built_in.stack.max(STACK)))
}

/// Makes an engine whose guests get `stack` bytes of stack, and the memory that they have where
/// that is not wasmtime's.
///
/// # Errors
/// The address space or the stack size asked for cannot be had.
pub(crate) fn engine(
    mode: Mode,
    stack: u64,
    guests: &Guests,
) -> wasmtime::Result<(Engine, Memories)> {
    let mut config = codegen(mode, guests.have_images());
    let memories = Memories::default();
    // Code comes from the cache alone, which the compiler's own process fills.
    config.enable_compiler(false);
    let stack = usize::try_from(stack)?;
    config.max_wasm_stack(stack);
    // The host's own functions run on the same stack.
    config.async_stack_size(stack + (1 << 20));
    match guests {
        Guests::Any(Allocation::OnDemand) => {}
        Guests::Any(Allocation::Pooling(stores)) => {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(*stores)));
        }
        Guests::BuiltIn(_) => {
            config
                .with_host_memory(Arc::new(memories.clone()))
                .with_host_stack(Arc::new(Stacks::default()));
        }
    }
    let engine = Engine::new(&config)?;
    tick(&engine);
    Ok((engine, memories))
}

/// Pages kept resident a slot, so that a guest run again and again does not fault them in each
/// time.
const KEEP_RESIDENT: usize = 8 << 20;

/// Memories and tables that each store of a pool has room for, on the average.
const POOL_MEMORIES: u32 = 2;
const POOL_TABLES: u32 = 4;
/// Core instances that a component may have. They are counted, and nothing is reserved for them:
/// each store has all of them.
const POOL_INSTANCES: u32 = 200;

fn pool(stores: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(stores)
        .total_core_instances(stores.saturating_mul(POOL_INSTANCES))
        .total_memories(stores.saturating_mul(POOL_MEMORIES))
        .total_tables(stores.saturating_mul(POOL_TABLES))
        .total_stacks(stores.saturating_mul(2))
        .max_memories_per_component(20)
        .max_tables_per_component(40)
        .max_core_instances_per_component(POOL_INSTANCES)
        .table_elements(100_000)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(1 << 20)
        .pagemap_scan(wasmtime::Enabled::Auto);
    pool
}

/// One thread an engine moves its epoch; it ends with the engine.
fn tick(engine: &Engine) {
    let engine = engine.weak();
    let ticker = std::thread::Builder::new().name("epoch".into()).stack_size(64 << 10);
    let spawned = ticker.spawn(move || {
        loop {
            std::thread::sleep(EPOCH);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    });
    if let Err(error) = spawned {
        // Without a ticker no deadline would ever fire.
        panic!("no thread for the epoch ticker: {error}");
    }
}
