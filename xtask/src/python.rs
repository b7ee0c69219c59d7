//! `cargo xtask python`: the Python runtime, `target/components/python.wasm`.

use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::workspace;

/// Runs the build's own script. It checks what else it needs, and makes again only what has changed.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    let python = if cfg!(windows) { "python" } else { "python3" };
    if Command::new(python).arg("--version").output().is_err() {
        return Err(Error::new(format!("{python} is not installed"))
            .help("`apt install python3 python3-venv`, or https://www.python.org/downloads"));
    }
    let mut build = Command::new(python);
    build.arg(root.join("components/python/build.py")).current_dir(&root);
    progress.loud_step("build the Python runtime", |step| step.run_loud(&mut build)).map_err(|error| Error::new(error.to_string()))
}
