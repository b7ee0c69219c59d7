//! The `skillhost` command. [`args`] holds what was typed, [`context`] what a command works with;
//! [`commands`] has a file for each command, [`error`] every exit code, and [`output`] prints.

mod args;
mod client;
mod commands;
mod compilation;
mod context;
mod error;
mod event_loop;
mod events;
mod native;
mod network;
mod operator;
mod output;
mod recording;
mod remote;
mod requirements;
mod server;
mod sources;
mod temp_files;
mod terminal;

use std::process::ExitCode;
use std::time::Instant;

use commands::Command;
use error::Exit;
use skillhost_sandbox::startup::heap::Heap;

#[global_allocator]
static HEAP: Heap = Heap::new();

fn main() -> ExitCode {
    skillhost::compile_if_asked();
    args::parse().map_or_else(Exit::into, run)
}

fn run(command: Command) -> ExitCode {
    let started = Instant::now();
    let leaves_files = matches!(
        command,
        Command::Run(_)
            | Command::Shell(_)
            | Command::Test(_)
            | Command::Verify(_)
            | Command::Replay(_)
    );
    let exit = commands::run(command).unwrap_or_else(|error| {
        output::failure(&error);
        error.exit
    });
    if leaves_files {
        temp_files::sweep_after_run();
    }
    output::info(|| format!("ended after {:.1} ms", started.elapsed().as_secs_f64() * 1e3));
    exit.into()
}
