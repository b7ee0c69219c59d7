//! Finds or makes a Rust toolchain that compiles to [`TARGET`], and builds skills with it.
//!
//! Used by the chores of this workspace and by the host's commands for authors. What is built here
//! is the author's own code, run natively by the author's own cargo; a skill that is only *run*
//! never comes near this crate.
//!
//! Reading order: [`find`] picks a [`WasmToolchain`] (`packages` makes one where rustup cannot),
//! [`WasmToolchain::build`] compiles a crate to components, [`new::rust`] makes a skill and
//! [`skill::build`] builds one with the [`sdk`] that is embedded here. [`Progress`] shows each
//! step.

#![expect(
    clippy::disallowed_methods,
    reason = "the author's toolchain is found in the author's environment and started natively"
)]

pub mod files;
pub mod new;
pub mod sdk;
pub mod skill;

mod command;
mod compile;
mod error;
mod find;
mod packages;
mod progress;

pub use command::CommandError;
pub use compile::{Build, Component};
pub use error::Error;
pub use find::{Origin, Source, WasmToolchain, find};
pub use progress::{Progress, Step, Took};

/// The target of every guest: its components import what their WIT names and nothing else.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The linker that turns a core module into a component. rustup's rustc carries it and finds it by
/// itself.
pub const LINKER: &str = "wasm-component-ld";
