//! `cargo xtask clients`: fetches third-party MCP clients for the tests of `skillhost mcp`,
//! model-signing for those of signatures, and pre-commit, check-jsonschema and the YAML language server for those of the hook, the action and the
//! schemas. The conformance suite, its Node.js, and Pyodide and wasmtime for the benchmark are fetched
//! in the same way.
//!
//! They come from PyPI and npm, pinned by the versions and digests in `tests/clients/*`, and are
//! stored in `target/clients`. Install scripts of packages do not run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::workspace;

/// Fetches the clients that are missing or outdated.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    python("python", progress)?;
    python("pre-commit", progress)?;
    python("model-signing", progress)?;
    node("node", progress)?;
    node("editor", progress)
}

/// Returns the folder of a set of clients.
pub(crate) fn folder(set: &str) -> PathBuf {
    workspace::root().join("target/clients").join(set)
}

/// Creates a virtual environment with the packages that `requirements.txt` pins by digest.
pub(crate) fn python(set: &str, progress: &Progress) -> Result<(), Error> {
    python_of(Path::new("python3"), set, progress)
}

/// The same, with another Python than the default one.
pub(crate) fn python_of(python3: &Path, set: &str, progress: &Progress) -> Result<(), Error> {
    let lock = source(set).join("requirements.txt");
    update(set, &[&lock], progress, &|folder| {
        let python = folder.join("bin/python");
        let install = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            "--require-hashes",
            "-r",
        ];
        let mut venv = Command::new(python3);
        venv.args(["-m", "venv"]).arg(folder);
        let mut install_all = Command::new(python);
        install_all.args(install).arg(&lock);
        vec![venv, install_all]
    })
}

/// Installs the packages that `package-lock.json` pins by digest.
pub(crate) fn node(set: &str, progress: &Progress) -> Result<(), Error> {
    let locks = ["package.json", "package-lock.json"].map(|name| source(set).join(name));
    update(set, &[&locks[0], &locks[1]], progress, &|folder| {
        for lock in &locks {
            // If a file cannot be copied, npm reports that it is missing.
            drop(fs::copy(lock, folder.join(lock.file_name().unwrap_or_default())));
        }
        let mut install = Command::new("npm");
        install.current_dir(folder).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        vec![install]
    })
}

fn source(set: &str) -> PathBuf {
    workspace::root().join("tests/clients").join(set)
}

/// Creates a set's folder with `commands`, unless it was created from the same `locks`.
fn update(
    set: &str,
    locks: &[&Path],
    progress: &Progress,
    commands: &dyn Fn(&Path) -> Vec<Command>,
) -> Result<(), Error> {
    let folder = folder(set);
    let stamp = folder.join("stamp");
    let mut text = String::new();
    for file in locks {
        text += &fs::read_to_string(file).map_err(Error::context(file.display()))?;
    }
    if fs::read_to_string(&stamp).is_ok_and(|old| old == text) {
        return Ok(());
    }
    progress.step(
        &format!("fetch the clients of {}", workspace::name(&workspace::root(), &source(set))),
        |step| {
            drop(fs::remove_dir_all(&folder));
            fs::create_dir_all(&folder).map_err(Error::context(folder.display()))?;
            for mut command in commands(&folder) {
                step.run(&mut command).map_err(|error| {
                    Error::new(error.to_string())
                        .help("`apt install python3 python3-venv nodejs npm`")
                })?;
            }
            fs::write(&stamp, &text).map_err(Error::context(stamp.display()))
        },
    )
}
