//! The `skillhost` command.

mod cli;

use std::process::ExitCode;

#[global_allocator]
static HEAP: skillhost_sandbox::heap::Heap = skillhost_sandbox::heap::Heap::new();

fn main() -> ExitCode {
    skillhost::compile_if_asked();
    cli::main()
}
