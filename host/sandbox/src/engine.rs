//! Makes components ready to run: settings, compilation in a confined process, the cache of
//! compiled code, and the memory and stacks that guests run in.
//!
//! Owns the settings of each [`Mode`] (`config`), the compiler (`compile`, `confine`), compiled
//! code on disk (`cache`, `read_ahead`), memory images and stacks (`memory`, `stacks`,
//! `address_space`), and the allocator of the host's process (`heap`). `world` reads what a
//! component imports and exports, and `program_end` what an error of the engine means. Must not
//! know what a store holds, or any interface of the host. May use `limits`.

pub(crate) mod address_space;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod config;
mod confine;
mod fingerprint;
pub mod heap;
pub(crate) mod memory;
mod program_end;
mod read_ahead;
mod stacks;
mod status;
pub mod world;

pub use config::{Allocation, EPOCH, Mode, stack};
pub(crate) use config::{Guests, engine};
pub use fingerprint::{ENGINE, fingerprint};
pub(crate) use program_end::Ended;
pub use status::say;
pub(crate) use status::{failed, invalid};
pub use world::check_kind;
