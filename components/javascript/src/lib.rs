//! node for the sandbox: QuickJS with Node's modules, over the files, clocks, HTTP and programs that
//! the host grants.
//!
//! Start reading at `run` below. [`command_line`] parses the arguments, [`engine`] starts the
//! interpreter and its modules, [`modules`] finds and loads the modules of scripts, and
//! js/event_loop.js runs their callbacks until nothing is left to wait for. [`builtins`] has the
//! native half of Node's modules; the other half is JavaScript: ours in js/, and that of
//! wasm-rquickjs, which `cargo xtask components` fetches and patches.
//!
//! Everything is synchronous: WASI 0.2 has no callbacks, and `fs.readFileSync` is one call. Only
//! js/event_loop.js waits.

mod bindings;
mod builtins;
mod callee;
mod command_line;
mod engine;
mod files;
mod modules;
mod program;
mod stdio;
mod system;
mod typescript;

use bindings::wasi::cli::environment;

struct Node;

impl bindings::exports::wasi::cli::run::Guest for Node {
    fn run() -> Result<(), ()> {
        system::install_panic_hook();
        let code = program::run(environment::get_arguments());
        system::exit(code)
    }
}

bindings::export!(Node with_types_in bindings);

/// Starts the engine before the component's memory is recorded, so that runs find it started.
/// Called when the component is built; it calls nothing of the host.
#[unsafe(export_name = "wizer-initialize")]
extern "C" fn initialize() {
    engine::start();
}
