//! The `skillhost` command.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The compiler is this binary in another role: no argument parser, no runtime, nothing of the host.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == skillhost::sandbox::COMPILER_VERB) {
        let args: Vec<String> = std::env::args_os().skip(2).map(|arg| arg.to_string_lossy().into_owned()).collect();
        return ExitCode::from(skillhost::sandbox::compiler_main(&args));
    }
    cli::main()
}
