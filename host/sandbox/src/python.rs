//! What belongs to the built-in Python alone: the interfaces `skillhost:python/compiled`
//! (`compiled`), `skillhost:python/lines` (`lines`), `skillhost:python/usage` (`usage`) and
//! `skillhost:python/web` (`web`).
//!
//! All but `usage` are shortcuts: a Python without them reads and compiles its files itself, writes
//! each line to stdout by `wasi:io`, and sends requests by `wasi:http`. Only `run` also names Python. May use
//! `http`, `scripts`, `streams` and `engine`.

mod compiled;
pub(crate) mod lines;
mod usage;
mod web;

use wasmtime::component::Linker;

use crate::scripts::ScriptsView;

pub(crate) use lines::{HasLines, Lines};
pub(crate) use usage::UsageView;
pub(crate) use web::WebView;

/// Links the interfaces.
pub(crate) fn add_to_linker<T: HasLines>(
    linker: &mut Linker<T>,
    scripts: fn(&mut T) -> ScriptsView<'_>,
    usage: fn(&mut T) -> UsageView<'_>,
    web: fn(&mut T) -> WebView<'_>,
) -> wasmtime::Result<()> {
    compiled::add_to_linker(linker, scripts)?;
    lines::add_to_linker(linker)?;
    usage::add_to_linker(linker, usage)?;
    web::add_to_linker(linker, web)
}
