//! The `skillhost` command.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    skillhost::compile_if_asked();
    cli::main()
}
