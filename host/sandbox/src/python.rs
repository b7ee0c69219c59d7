//! What belongs to the built-in Python alone: the interfaces `skillhost:python/compiled`
//! (`compiled_scripts`) and `skillhost:python/web` (`web`).
//!
//! Both are shortcuts: a Python without them reads and compiles its files itself, and sends requests
//! by `wasi:http`. No other room names Python. May use `http`, `files`, `engine` and `limits`.

pub(crate) mod compiled_scripts;
pub(crate) mod web;
