//! `cargo xtask python`: the Python runtime, `target/components/python.wasm`.

use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::workspace;

/// Runs the build's own script. It makes again only what has changed.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    check()?;
    progress
        .step("build the Python runtime", |step| step.run(&mut script()).map(drop))
        .map_err(|error| Error::new(error.to_string()))
}

/// Whether all is there that building it needs.
///
/// # Errors
/// Names what is missing, with the commands that install it.
pub(crate) fn check() -> Result<(), Error> {
    let missing = || {
        Error::new(format!("{PYTHON} is not installed"))
            .help("`apt install python3 python3-venv`, or https://www.python.org/downloads")
    };
    let done = script().arg("--check").output().map_err(|_| missing())?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Error::new(said.trim().trim_start_matches("error: ").to_owned()))
}

/// Runs scripts in the sandbox, and compares what they print with what native CPython printed.
/// Needs the host and the runtime.
pub(crate) fn cases() -> Command {
    let root = workspace::root();
    let mut cases = Command::new(PYTHON);
    cases
        .arg(root.join("components/python/tests/run.py"))
        .arg("--skillhost")
        .arg(root.join("target/debug/skillhost"))
        .current_dir(&root);
    cases
}

const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

fn script() -> Command {
    let root = workspace::root();
    let mut script = Command::new(PYTHON);
    script.arg(root.join("components/python/build.py")).current_dir(&root);
    script
}
