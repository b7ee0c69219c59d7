//! What belongs to the built-in Python alone: the interfaces `skillhost:python/compiled`
//! (`compiled_scripts`) and `skillhost:python/web` (`web`).
//!
//! Both are shortcuts: a Python without them reads and compiles its files itself, and sends requests
//! by `wasi:http`. No other module names Python. May use `http`, `files` and `engine`.

mod compiled_scripts;
mod web;

use wasmtime::component::Linker;

pub(crate) use compiled_scripts::{Compiler, ScriptCache, Scripts, ScriptsView};
pub(crate) use web::WebView;

/// Links both interfaces.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    scripts: fn(&mut T) -> ScriptsView<'_>,
    web: fn(&mut T) -> WebView<'_>,
) -> wasmtime::Result<()> {
    compiled_scripts::add_to_linker(linker, scripts)?;
    web::add_to_linker(linker, web)
}
