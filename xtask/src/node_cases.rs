//! The cases of the JavaScript runtime: scripts whose recorded output of Node.js 22 is compared with
//! what they print in the sandbox.

use std::path::PathBuf;
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::{clients, workspace};

/// Returns the command that runs the cases in the sandbox. It requires the host and the runtimes.
pub(crate) fn sandboxed() -> Command {
    let mut cases = script();
    cases.arg("--skillhost").arg(workspace::root().join("target/debug/skillhost"));
    cases
}

/// Runs the cases natively, in Node.js 22 from npm, and compares its output with the recorded one.
/// With `BLESS=1`, records the output.
pub(crate) fn native(names: &[String], progress: &Progress) -> Result<(), Error> {
    let node = node(progress)?;
    let status = script()
        .arg("--native")
        .arg(node)
        .args(names)
        .status()
        .map_err(|error| Error::new(format!("python3: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::new("the records differ from what Node.js 22 does")
            .help("BLESS=1 cargo xtask conformance node-cases"))
    }
}

/// Fetches Node.js 22 from npm, and returns the path of its executable.
pub(crate) fn node(progress: &Progress) -> Result<PathBuf, Error> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => return Err(Error::new(format!("npm has no Node.js 22 for {other}"))),
    };
    clients::node("node22", progress)?;
    let node = format!("node_modules/node-linux-{architecture}/bin/node");
    Ok(clients::folder("node22").join(node))
}

fn script() -> Command {
    let root = workspace::root();
    let mut script = Command::new("python3");
    script.arg(root.join("components/javascript/tests/run.py")).current_dir(&root);
    script
}
