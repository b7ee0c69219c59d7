//! The engines: their modes and settings.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, WasmFeatures};

use super::memory::Memories;
use super::stacks::Stacks;
use skillhost_policy::capabilities::Capabilities;
use skillhost_policy::limits::{Limits, STACK};
use skillhost_skill::runtime::Component;

/// How often a running guest is interrupted so that the host can check deadlines. Long enough for
/// the check to cost nothing, short enough for a person not to notice.
pub const EPOCH: Duration = Duration::from_millis(10);

/// The engine that runs a guest.
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
    /// Epochs only: the fastest code that can be interrupted.
    Fast,
    /// Counts fuel, and uses epochs.
    Metered,
    /// Counts fuel, which alone interrupts guests; an epoch can only abort the run. NaNs are
    /// canonical.
    Deterministic,
}

impl Mode {
    /// Returns the mode for a guest with these capabilities.
    pub fn of(capabilities: &Capabilities) -> Mode {
        match (capabilities.determinism, capabilities.limits.fuel) {
            (Some(_), _) => Mode::Deterministic,
            (None, Some(_)) => Mode::Metered,
            (None, None) => Mode::Fast,
        }
    }
}

/// How stores get their memory. Built-in programs have [memory of their own](super::memory)
/// instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Allocation {
    /// Maps memory when a store needs it.
    #[default]
    OnDemand,
    /// Reserves memory once and reuses it, for at most this many stores at once.
    Pooling(u32),
}

/// The guests of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Guests {
    /// Any component.
    Any(Allocation),
    /// A built-in program, by the digest of its component.
    BuiltIn(String),
}

impl Guests {
    /// Checks whether their memory starts from an [image](super::memory) of the host's instead of
    /// one of wasmtime's.
    pub(crate) fn have_images(&self) -> bool {
        matches!(self, Guests::BuiltIn(_))
    }
}

/// Features that are off because no supported toolchain needs them: a hostile component cannot
/// reach that code of the engine.
pub(crate) const OFF: [WasmFeatures; 7] = [
    WasmFeatures::THREADS,
    WasmFeatures::SHARED_EVERYTHING_THREADS,
    WasmFeatures::MEMORY64,
    WasmFeatures::RELAXED_SIMD,
    WasmFeatures::GC,
    WasmFeatures::EXCEPTIONS,
    WasmFeatures::STACK_SWITCHING,
];

/// Initial memory content of up to this size, in bytes, becomes one image, which instances map and
/// copy on write: an interpreter's snapshot, such as 40 MiB of Python, starts at once. The limit
/// `compile-memory` bounds what a component can make of this.
pub(crate) const IMAGE: u64 = 64 << 20;

/// Returns the settings that affect generated code. Engines that share them can load the same code.
pub(crate) fn codegen(mode: Mode, have_images: bool) -> Config {
    let mut config = Config::new();
    config.memory_init_cow(!have_images);
    config
        .epoch_interruption(true)
        .consume_fuel(mode != Mode::Fast)
        .cranelift_nan_canonicalization(mode == Mode::Deterministic);
    config.memory_guaranteed_dense_image_size(IMAGE);
    // Backtraces of the runtimes need no offsets, which take up a tenth of the code that a release
    // ships and that its first run checks.
    config.generate_address_map(!have_images);
    for feature in OFF {
        config.wasm_features(feature, false);
    }
    config
}

/// The processors that compiled code runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processor {
    /// This machine's, with every feature that it has.
    Native,
    /// Those of an architecture that code is shipped for.
    Shipped(Architecture),
}

/// An architecture that code is shipped for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64-v3: processors since 2013.
    X86_64,
    /// Every 64-bit Arm processor.
    Aarch64,
}

impl Architecture {
    /// This machine's.
    pub const OWN: Architecture =
        if cfg!(target_arch = "aarch64") { Architecture::Aarch64 } else { Architecture::X86_64 };

    fn target(self) -> &'static str {
        match self {
            Architecture::X86_64 => "x86_64-unknown-linux-gnu",
            Architecture::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// Returns the settings that affect generated code, for the compiler.
///
/// # Errors
/// The compiler does not support the architecture.
pub(crate) fn compiler(
    mode: Mode,
    have_images: bool,
    processor: Processor,
) -> wasmtime::Result<Config> {
    let mut config = codegen(mode, have_images);
    if let Processor::Shipped(architecture) = processor {
        // With a target, wasmtime does not look at this machine's processor.
        config.target(architecture.target())?;
        if architecture == Architecture::X86_64 {
            for feature in ["x86-64-v3", "has_avx"] {
                #[expect(unsafe_code, reason = "wasmtime cannot check names of features")]
                // SAFETY: these are names of the compiler's, and the engine that loads the code
                // checks that its processor has the features.
                unsafe {
                    config.cranelift_flag_enable(feature);
                }
            }
        }
    }
    Ok(config)
}

/// The size of a stack below which there are fewer sizes: few programs run with less.
const SMALL_STACK: u64 = 64 << 10;

/// Returns the size of a program's stack, in bytes: the limit if it was set, else what the program
/// needs. A limit is rounded down to a power of two, and one below 64 KiB to a power of four: each size has an engine
/// with a thread and memory of its own, and clients of the run API choose the limit.
pub fn stack(component: &Component, limits: &Limits) -> u64 {
    let of_program = || component.built_in().map_or(STACK, |built_in| built_in.stack.max(STACK));
    let Some(limit) = limits.stack else { return of_program() };
    match limit.checked_ilog2() {
        // No engine has such a stack.
        None => 0,
        Some(bits) if limit < SMALL_STACK => 1 << (bits & !1),
        Some(bits) => 1 << bits,
    }
}

/// Makes an engine whose guests get `stack` bytes of stack, and the memory of its guests if it is
/// not wasmtime's.
///
/// # Errors
/// The address space or the stack size is not available.
pub(crate) fn engine(
    mode: Mode,
    stack: u64,
    guests: &Guests,
) -> wasmtime::Result<(Engine, Memories)> {
    let mut config = codegen(mode, guests.have_images());
    let memories = Memories::default();
    // Code comes only from the cache, which the compiler process fills.
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

/// Bytes kept resident per slot: a guest that runs repeatedly does not fault these pages in each
/// time.
const KEEP_RESIDENT: usize = 8 << 20;

/// Memories and tables per store of a pool, on average.
const POOL_MEMORIES: u32 = 2;
const POOL_TABLES: u32 = 4;
/// Core instances per component. They are only counted; nothing is reserved for them.
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

/// Starts a thread that increments the engine's epoch. It ends with the engine.
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
        panic!("cannot start a thread for the epoch ticker: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_lead_to_few_sizes_of_stacks() {
        let component = Component::new(*b"a component");
        let stack = |limit| stack(&component, &Limits { stack: limit, ..Limits::default() });
        assert_eq!(stack(None), STACK);
        for (limit, expected) in [
            (0, 0),
            (1, 1),
            ((16 << 10) - 1, 4 << 10),
            (SMALL_STACK - 1, 16 << 10),
            (SMALL_STACK, SMALL_STACK),
            ((128 << 10) - 1, SMALL_STACK),
            (1 << 20, 1 << 20),
            (3 << 20, 2 << 20),
            (u64::MAX, 1 << 63),
        ] {
            assert_eq!(stack(Some(limit)), expected, "{limit}");
        }
    }
}
