//! Finds or builds a Rust toolchain that compiles to [`TARGET`], and builds skills with it.
//!
//! Used by the repository's development tasks and by the host's commands for skill authors. The
//! code that is built is the author's own, and the author's own cargo builds it natively. Running a
//! skill never uses this crate.
//!
//! Start reading at [`find`], which selects a [`WasmToolchain`] (module `packages` builds one if
//! rustup cannot add the target). [`WasmToolchain::build`] compiles a crate to components,
//! [`new`] creates a skill, and [`skill::build`] builds one with the embedded [`sdk`].
//! [`Progress`] shows each step.

#![expect(
    clippy::disallowed_methods,
    reason = "finds the author's toolchain in the environment and runs it natively"
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
pub use packages::{unpack_file, unpack_packages, unpack_program};
pub use progress::{FinishedStep, Progress, Step};

/// The target of all guests. Components for it import only the interfaces that their code uses.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The linker that turns a core module into a component. It is part of rustup's rustc, which finds
/// it without a path.
pub const LINKER: &str = "wasm-component-ld";
