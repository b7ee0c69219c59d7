//! Makes components ready to run: settings, compilation in a confined process, the cache of
//! compiled code, and the memory and stacks that guests run in.
//!
//! Start at `loader`. Owns the settings of each [`Mode`] (`config`), the compiler (`compile`, `confine`, `compilation`), compiled
//! code on disk (`cache`, `shipped`), memory images and stacks (`memory`, `stacks`, `address_space`). `world` reads what a
//! component imports and exports, and `program_end` what an error of the engine means. Must not
//! know what a store holds, or any interface of the host. May use `limits` and `startup`.

mod address_space;
mod cache;
mod compilation;
pub(crate) mod compile;
pub(crate) mod config;
mod confine;
mod fingerprint;
mod loader;
mod memory;
mod program_end;
pub mod shipped;
mod stacks;
mod status;
pub mod world;

pub(crate) use cache::CacheFolder;
pub use compilation::{Compilation, CompilationStage};
pub use config::{Allocation, Architecture, EPOCH, Mode, stack};
pub(crate) use confine::{LandlockSupport, has_landlock, has_seccomp};
pub use fingerprint::{ENGINE, fingerprint};
pub use loader::CodeState;
pub(crate) use loader::{EngineKey, Loader};
pub(crate) use memory::has_pagemap_scan;
pub(crate) use program_end::{ProgramEnd, RunEnd};
pub(crate) use status::failed;
pub use status::say;
pub use world::check_kind;
