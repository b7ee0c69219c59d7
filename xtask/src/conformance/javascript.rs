//! `cargo xtask conformance npm` and `skill-scripts`: other people's packages and scripts in the
//! JavaScript runtime, next to Node.js 22.

use std::path::Path;
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use super::{build_host, host};
use crate::{clients, components, node_cases, workspace};

/// The folder of the scripts and of the known differences.
const FOLDER: &str = "components/javascript/conformance";

/// Exercises the most downloaded packages of npm. `names` selects some.
pub(crate) fn npm(names: &[String], progress: &Progress) -> Result<(), Error> {
    clients::node("npm-packages", progress)?;
    let mut command = prepared("npm_packages.py", progress)?;
    command.arg("--packages").arg(clients::folder("npm-packages")).args(names);
    run(&mut command, "the packages that work differ from npm_packages.txt")
}

/// Compares public scripts below `suite`. `arguments` are those of `skill_scripts.py`.
pub(crate) fn skill_scripts(
    suite: &Path,
    arguments: &[String],
    progress: &Progress,
) -> Result<(), Error> {
    let mut command = prepared("skill_scripts.py", progress)?;
    command.arg("--suite").arg(suite).args(arguments);
    run(&mut command, "the scripts that differ are not those of skill_scripts.txt")
}

/// Builds the host and the runtimes, fetches Node.js 22, and returns the command of a script.
fn prepared(script: &str, progress: &Progress) -> Result<Command, Error> {
    let node = node_cases::node(progress)?;
    components::run(progress)?;
    build_host(progress)?;
    let root = workspace::root();
    let mut command = Command::new("python3");
    command.arg(root.join(FOLDER).join(script)).arg("--node").arg(node);
    command.arg("--skillhost").arg(host()).current_dir(&root);
    Ok(command)
}

fn run(command: &mut Command, failure: &str) -> Result<(), Error> {
    let status = command.status().map_err(|error| Error::new(format!("python3: {error}")))?;
    if status.success() { Ok(()) } else { Err(Error::new(failure)) }
}
