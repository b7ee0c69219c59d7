//! Builds and fetches the programs that isolate in `cargo xtask bench isolation`, without root. A
//! program that is not available makes its tier missing, with the reason; the benchmark goes on.

use std::collections::BTreeMap;
use std::path::PathBuf;

use skillhost_toolchain::{Error, Progress, unpack_packages};

use crate::{clients, host, workspace};

/// A function that returns the path of a program or library.
type Fetch = fn(&Progress) -> Result<PathBuf, Error>;

/// Returns the programs by name, or the reasons why they are missing.
pub(crate) fn fetch(progress: &Progress) -> BTreeMap<&'static str, Result<PathBuf, String>> {
    let tools: [(&str, Fetch); 5] = [
        ("confine", confine),
        ("runsc", runsc),
        ("qemu", qemu),
        ("pyodide", pyodide),
        ("wasmtime", wasmtime),
    ];
    let found = |fetch: Fetch| fetch(progress).map_err(|error| error.to_string());
    tools.into_iter().map(|(name, fetch)| (name, found(fetch))).collect()
}

/// Builds the launcher for Landlock and seccomp.
fn confine(progress: &Progress) -> Result<PathBuf, Error> {
    let package = "skillhost-bench-confine";
    let mut cargo = workspace::cargo(&workspace::root());
    cargo.args(["build", "--release", "--locked", "-p", package]);
    cargo.arg("--message-format=json-render-diagnostics");
    progress.step("build the launcher for Landlock and seccomp", |step| {
        host::executable(&step.run(&mut cargo)?, package)
    })
}

/// The folder of programs from Debian's packages.
fn tools() -> PathBuf {
    workspace::root().join("target/tools")
}

/// gVisor is one program without dependencies.
fn runsc(progress: &Progress) -> Result<PathBuf, Error> {
    unpack_packages(&tools(), "gvisor", &["runsc"], &[], progress)
        .map(|folder| folder.join("usr/bin/runsc"))
}

/// QEMU with its libraries, the kernel for clouds, which is the smallest, and a static shell.
fn qemu(progress: &Progress) -> Result<PathBuf, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::new("QEMU has the `microvm` machine only for x86-64"));
    }
    let alone = ["linux-image-cloud-amd64", "busybox-static"];
    unpack_packages(&tools(), "microvm", &alone, &["qemu-system-x86"], progress)
        .map(|folder| folder.join("usr/bin/qemu-system-x86_64"))
}

fn pyodide(progress: &Progress) -> Result<PathBuf, Error> {
    clients::node("pyodide", progress)?;
    Ok(clients::folder("pyodide").join("node_modules/pyodide"))
}

fn wasmtime(progress: &Progress) -> Result<PathBuf, Error> {
    clients::python("wasmtime", progress)?;
    let library = clients::folder("wasmtime").join("lib");
    let mut entries = std::fs::read_dir(&library).map_err(Error::context(library.display()))?;
    let python = entries.find_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
    let python = python.ok_or_else(|| Error::new(format!("{} is empty", library.display())))?;
    Ok(python.join("site-packages"))
}
