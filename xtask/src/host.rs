//! Builds the host. [`build`] builds the program that is installed: a static position-independent
//! executable, optimised as one unit, whose start-up functions are adjacent. [`build_for_development`]
//! builds it in the development profile, whose compiled dependencies the demo shares with the
//! tests.
//!
//! docs/contribute/start-up.md lists what each measure here gains, and when it can be deleted.

#[cfg(target_arch = "x86_64")]
mod calls;
mod hardening;
#[cfg(target_arch = "x86_64")]
pub(crate) mod link;

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Step};

use crate::machine::Machine;
use crate::workspace;

/// Optimises all crates as one unit, so that a start touches less code. Only the compilation of the
/// program gets these arguments, not that of its dependencies.
const WHOLE_PROGRAM: [&str; 4] = ["-C", "lto=fat", "-C", "codegen-units=1"];

/// Links a static executable that the kernel loads at a random address.
const STATIC_PIE: [&str; 4] = ["-C", "target-feature=+crt-static", "-C", "relocation-model=pie"];

/// Packs relative relocations into bitmaps instead of 24 bytes each, and makes the relocated tables
/// read-only before `main` runs.
const HARDENED: [&str; 4] =
    ["-C", "relro-level=full", "-C", "link-arg=-Wl,-z,pack-relative-relocs"];

/// Builds the program in the development profile, without link-time optimisation. Without
/// `--package`, its dependencies have the features of all workspace members, as those of xtask do.
pub(crate) fn build_for_development(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["build", "--locked", "--bin", "skillhost"]);
    cargo.arg("--message-format=json-render-diagnostics");
    executable(&step.run(&mut cargo)?, "skillhost")
}

/// Makes cargo compile our own crates with clippy as the compiler, which reports its lints as
/// errors. `cargo clippy` would check every dependency as well, which takes longer than compiling
/// our crates.
pub(crate) fn linted(cargo: &mut Command) -> &mut Command {
    // `__CLIPPY_HACKERY__` separates arguments in this variable.
    cargo
        .env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver")
        .env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__")
}

/// Builds the program that is installed on a machine, checks its hardening, and returns its path.
pub(crate) fn build(root: &Path, machine: &Machine, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args(["rustc", "--release", "--locked", "-p", "skillhost-cli", "--bin", "skillhost"]);
    machine.select(&mut cargo);
    cargo.args(["--message-format=json-render-diagnostics", "--"]);
    cargo.args(WHOLE_PROGRAM);
    let is_static = match machine {
        Machine::This => has_static_libc(),
        Machine::Emulated { .. } => true,
    };
    if is_static {
        cargo.args(STATIC_PIE).args(HARDENED);
    }
    match machine {
        #[cfg(target_arch = "x86_64")]
        Machine::This => {
            cargo.arg("-C").arg(format!("linker={}", link::linker(root)?.display()));
        }
        #[cfg(not(target_arch = "x86_64"))]
        Machine::This => {}
        // The linker of the cross compiler cannot pack relocations for aarch64.
        Machine::Emulated { .. } => {
            cargo.args(["-C", "link-arg=-fuse-ld=lld", "-C"]);
            cargo.arg(format!("link-arg=-B{}", lld(step)?.display()));
        }
    }
    let program = executable(&step.run(&mut cargo)?, "skillhost")?;
    if is_static {
        hardening::check(&program)?;
        // With a C library that cannot read packed relocations, the program crashes at start.
        step.run(machine.command(&program).arg("--version"))?;
    }
    Ok(program)
}

/// Returns the folder in which a C compiler finds the linker of the Rust toolchain as `ld.lld`.
fn lld(step: &Step) -> Result<PathBuf, Error> {
    let printed = step.run(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&printed).trim());
    let folder = libraries.with_file_name("bin").join("gcc-ld");
    match folder.join("ld.lld").is_file() {
        true => Ok(folder),
        false => Err(Error::new(format!("{} has no ld.lld", folder.display()))
            .help("use a toolchain from rustup: `rustup default stable`")),
    }
}

/// Compiles the runtimes into the operator's cache, so that the first run does not spend seconds on
/// it.
pub(crate) fn compile_runtimes(skillhost: &Path, step: &Step) -> Result<(), Error> {
    step.run(Command::new(skillhost).args(["runtimes", "compile"])).map(drop).map_err(Error::from)
}

/// Finds the path of a target's executable in cargo's messages.
pub(crate) fn executable(messages: &[u8], target: &str) -> Result<PathBuf, Error> {
    let text = String::from_utf8_lossy(messages);
    let mut messages =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let found = messages.find_map(|m| {
        (m["target"]["name"] == target)
            .then(|| m["executable"].as_str().map(PathBuf::from))
            .flatten()
    });
    found.ok_or_else(|| Error::new(format!("cargo built no executable named {target}")))
}

/// Checks whether the C compiler, which links for rustc, finds the static glibc that a static
/// position-independent executable needs. Some distributions do not install it.
fn has_static_libc() -> bool {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return false;
    }
    ["libc.a", "rcrt1.o"].iter().all(|file| {
        let output = Command::new("cc").arg(format!("-print-file-name={file}")).output();
        output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_absolute())
    })
}
