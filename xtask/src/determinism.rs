//! `cargo xtask determinism`: runs the full suite of deterministic runs. CI runs only a few rounds.

use std::process::Command;

use skillhost_toolchain::Error;

use crate::workspace;

/// Runs each program `times` times, each time under different conditions.
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
    // Its output goes to the terminal, because it lists what this machine cannot test.
    let status =
        cargo.env("REPEAT", times.to_string()).status().map_err(Error::context("cargo"))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new("the results of some programs differ between runs"))
    }
}
