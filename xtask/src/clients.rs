//! `cargo xtask clients`: other people's clients of the Model Context Protocol, and its conformance
//! suite, for the tests of `skillhost mcp`.
//!
//! They come from PyPI and npm at the versions and digests of `tests/clients/*`, and lie in
//! `target/clients`. No script of a package runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Progress};

use crate::workspace;

/// Makes what is missing, or was made for other versions.
pub(crate) fn run(progress: &Progress) -> Result<(), Error> {
    python("python", progress)?;
    node("node", progress)
}

/// The folder of a set of clients, as [`run`] leaves it.
pub(crate) fn folder(set: &str) -> PathBuf {
    workspace::root().join("target/clients").join(set)
}

/// A virtual environment with what `requirements.txt` names, each file by its digest.
pub(crate) fn python(set: &str, progress: &Progress) -> Result<(), Error> {
    let lock = source(set).join("requirements.txt");
    made(set, &[&lock], progress, &|folder| {
        let pip = folder.join("bin/python");
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
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder);
        let mut install_all = Command::new(pip);
        install_all.args(install).arg(&lock);
        vec![venv, install_all]
    })
}

/// What `package-lock.json` names, each package by its digest.
pub(crate) fn node(set: &str, progress: &Progress) -> Result<(), Error> {
    let locks = ["package.json", "package-lock.json"].map(|name| source(set).join(name));
    made(set, &[&locks[0], &locks[1]], progress, &|folder| {
        for lock in &locks {
            // What is not copied, npm misses with a message of its own.
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

/// Makes a folder anew where what it was made of differs.
fn made(
    set: &str,
    of: &[&Path],
    progress: &Progress,
    commands: &dyn Fn(&Path) -> Vec<Command>,
) -> Result<(), Error> {
    let folder = folder(set);
    let stamp = folder.join("stamp");
    let mut text = String::new();
    for file in of {
        text += &fs::read_to_string(file).map_err(Error::context(file.display()))?;
    }
    if fs::read_to_string(&stamp).is_ok_and(|made_of| made_of == text) {
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
