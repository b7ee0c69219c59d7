//! bash for the sandbox: bashkit's interpreter and commands over the files, clocks, HTTP and
//! programs that the host grants.

mod bindings;
mod command_line;
mod commands;
mod curl;
mod denials;
mod files;
mod hooks;
mod limits;
mod program;
mod session;
mod stdio;

use bindings::wasi::cli::environment;
use bindings::wasi::cli::exit::exit_with_code;

struct Shell;

impl bindings::exports::wasi::cli::run::Guest for Shell {
    async fn run() -> Result<(), ()> {
        hooks::install_panic_hook();
        let code = session::run(environment::get_arguments()).await;
        if code != 0 {
            exit_with_code(code);
        }
        Ok(())
    }
}

bindings::export!(Shell with_types_in bindings);
