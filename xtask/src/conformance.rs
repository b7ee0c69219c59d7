//! `cargo xtask conformance`: others' own tests of a runtime, run in the sandbox.

use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::workspace;

/// Runs CPython's tests; what it prints goes to stdout. `arguments` are those of `components/python/conformance/run.py`.
pub(crate) fn python(arguments: &[String], progress: &Progress) -> Result<(), Error> {
    let root = workspace::root();
    crate::python::run(progress)?;
    let mut build = workspace::cargo(&root);
    progress.loud_step("build the host", |step| step.run_loud(build.args(["build", "-p", "skillhost"])))?;
    let python = if cfg!(windows) { "python" } else { "python3" };
    let status = Command::new(python)
        .arg(root.join("components/python/conformance/run.py"))
        .arg("--skillhost")
        .arg(root.join("target/debug").join(format!("skillhost{}", std::env::consts::EXE_SUFFIX)))
        .args(arguments)
        .status()
        .map_err(|error| Error::new(format!("{python}: {error}")))?;
    if status.success() { Ok(()) } else { Err(Error::new("CPython's tests: not all is as reasons.txt has it")) }
}
