//! `cargo xtask determinism`: the suite of deterministic runs, whole. What CI runs of it is a few
//! turns.

use std::process::Command;

use skillhost_toolchain::Error;

use crate::workspace;

/// Runs each program `times` times, each time under other conditions.
pub(crate) fn run(times: u32) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace::root()).args([
        "test",
        "-p",
        "skillhost-cli",
        "--test",
        "main",
        "--",
        "determinism::",
        "--nocapture",
    ]);
    // Straight to the terminal: it says what could not be tested here.
    let status =
        cargo.env("REPEAT", times.to_string()).status().map_err(Error::context("cargo"))?;
    if status.success() { Ok(()) } else { Err(Error::new("not all programs came to the same")) }
}
