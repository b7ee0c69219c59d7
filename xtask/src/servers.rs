//! `cargo xtask servers`: fetches the servers and the clients of others with which fetching and
//! publishing are tested, and a fleet: a registry, NATS, an SSH server, skopeo, and a library that
//! changes the clock of a process, from Debian's packages, unpacked without root into `target/tools`; an
//! S3 store, oras and an MCP server with skills from PyPI; and the npm client `skills`. Those of PyPI and
//! npm are pinned in `tests/clients/*`.

use std::path::PathBuf;
use std::process::Command;

use skillhost_toolchain::{Error, Progress, unpack_program};

use crate::{clients, print_line, workspace};

/// Debian's packages. apt verifies them by its keys; no version is pinned, because mirrors keep only
/// the newest one.
const PACKAGES: [&str; 5] =
    ["docker-registry", "libfaketime", "nats-server", "openssh-server", "skopeo"];

/// The first version of Python that the MCP server runs in.
const MCP_PYTHON: u32 = 12;

/// Fetches what is missing or outdated.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    let tools = workspace::root().join("target/tools");
    for package in PACKAGES {
        unpack_program(&tools, package, progress)?;
    }
    clients::python("stores", progress)?;
    clients::node("npm-skills", progress)?;
    match python() {
        Some(python) => clients::python_of(&python, "mcp-skills", progress),
        None => {
            print_line(format!(
                "There is no Python 3.{MCP_PYTHON} or later: the test with an MCP server of PyPI is skipped."
            ));
            Ok(())
        }
    }
}

/// Finds a Python in which the MCP server runs.
fn python() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let managed = versions.map(|version| version.path().join("bin/python3"));
    let named = (MCP_PYTHON..20).map(|minor| PathBuf::from(format!("python3.{minor}")));
    std::iter::once(PathBuf::from("python3")).chain(named).chain(managed).find(is_new_enough)
}

fn is_new_enough(python: &PathBuf) -> bool {
    let check = format!("import sys; sys.exit(sys.version_info < (3, {MCP_PYTHON}))");
    let output = Command::new(python).args(["-c", &check]).output();
    output.is_ok_and(|output| output.status.success())
}
