//! Typed tools: what a component offers (`listing`), and calls of a tool within its schemas
//! (`call`).
//!
//! Schemas, names and results come from guests. They are limited before they are parsed, and
//! evaluated within the run (`offload`). Must not know who asks for a tool. May use `determinism`,
//! `limits` and `schema`.

pub(crate) mod call;
pub(crate) mod listing;
mod offload;

pub(crate) use offload::HostWork;

#[cfg(feature = "fuzz")]
pub use listing::fuzz_listing;
pub use listing::{Tool, ToolListing, listing, with_listing};
