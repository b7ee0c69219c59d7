//! Builds the host. [`build`] makes the program that is installed: optimised as one unit, a static
//! position-independent executable, with the functions of a start side by side. [`build_for_demo`]
//! makes it in the development profile, whose dependencies the demo and the tests share.
//!
//! docs/contribute/start-up.md lists what each measure here buys, and when it can be deleted.

#[cfg(target_arch = "x86_64")]
mod calls;
mod hardening;
#[cfg(target_arch = "x86_64")]
pub(crate) mod link;

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Step};

use crate::workspace;

/// Optimises all crates as one unit, so that a start touches less code. Passed to the program's
/// compilation only: its libraries are compiled either way.
const WHOLE_PROGRAM: [&str; 4] = ["-C", "lto=fat", "-C", "codegen-units=1"];

/// One executable without libraries to load, at an address that the kernel chooses.
const STATIC_PIE: [&str; 4] = ["-C", "target-feature=+crt-static", "-C", "relocation-model=pie"];

/// A start relocates itself from a bitmap of addresses instead of 24 bytes for each of them, and
/// makes what it relocated read-only.
const HARDENED: [&str; 4] =
    ["-C", "relro-level=full", "-C", "link-arg=-Wl,-z,pack-relative-relocs"];

/// Builds the program in the development profile: without link-time optimisation, its dependencies
/// optimised.
pub(crate) fn build_for_demo(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["build", "--locked", "--workspace", "--bins"]);
    cargo.arg("--message-format=json-render-diagnostics");
    executable(&step.run(&mut cargo)?, "skillhost")
}

/// Compiles our own crates with clippy as the compiler, which reports its lints as errors. Checking
/// them by `cargo clippy` would check every dependency as well, which takes longer than compiling
/// our crates.
pub(crate) fn linted(cargo: &mut Command) -> &mut Command {
    // Clippy's own separator of arguments in this variable.
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
}

/// Builds the program that is installed, checks its hardening, and returns its path.
pub(crate) fn build(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["rustc", "--release", "--locked", "-p", "skillhost-cli", "--bin", "skillhost"]);
    cargo.args(["--message-format=json-render-diagnostics", "--"]);
    cargo.args(WHOLE_PROGRAM);
    let is_static = has_static_libc();
    if is_static {
        cargo.args(STATIC_PIE).args(HARDENED);
    }
    #[cfg(target_arch = "x86_64")]
    cargo.arg("-C").arg(format!("linker={}", link::linker(root)?.display()));
    let program = executable(&step.run(&mut cargo)?, "skillhost")?;
    if is_static {
        hardening::check(&program)?;
        // A C library that cannot read packed relocations ends the program at its start.
        step.run(Command::new(&program).arg("--version"))?;
    }
    Ok(program)
}

/// Compiles the runtimes into the user's cache, which takes seconds, so that the first run need
/// not.
pub(crate) fn compile_runtimes(skillhost: &Path, step: &Step) -> Result<(), Error> {
    step.run(Command::new(skillhost).args(["runtimes", "compile"])).map(drop).map_err(Error::from)
}

/// Finds the executable of a target in what cargo reports.
pub(crate) fn executable(messages: &[u8], target: &str) -> Result<PathBuf, Error> {
    let text = String::from_utf8_lossy(messages);
    let mut messages =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let found = messages.find_map(|m| {
        (m["target"]["name"] == target)
            .then(|| m["executable"].as_str().map(PathBuf::from))
            .flatten()
    });
    found.ok_or_else(|| Error::new(format!("cargo reports no program {target}")))
}

/// Checks whether the C compiler, which links for rustc, has glibc as an archive for static
/// position-independent executables. Some systems' packages leave it out.
fn has_static_libc() -> bool {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return false;
    }
    ["libc.a", "rcrt1.o"].iter().all(|file| {
        let output = Command::new("cc").arg(format!("-print-file-name={file}")).output();
        output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_absolute())
    })
}
