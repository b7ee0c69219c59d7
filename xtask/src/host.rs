//! Builds the host: for people, optimised as one unit and linked so that a start costs little; for
//! the demo and the tests, in the development profile, whose dependencies both share.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::{Error, Step};

use crate::workspace;

/// Over all crates at once: a start then touches less code. Of the program alone, since its
/// libraries are compiled either way.
const WHOLE: [&str; 4] = ["-C", "lto=fat", "-C", "codegen-units=1"];

/// Nothing to load and nothing to relocate at a start.
const STATIC: [&str; 4] = ["-C", "target-feature=+crt-static", "-C", "relocation-model=static"];

/// Each segment begins on a boundary of a large page, in memory as in the file: where the kernel
/// holds the file in pieces of that size, a start maps them as they are. Read by LLVM's linker,
/// which is rustc's own here; GNU's warns of the second and does the first.
const ALIGNED: [&str; 2] =
    ["-C", "link-arg=-Wl,-z,max-page-size=0x200000,-z,separate-loadable-segments"];

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

/// Builds the program for people, and returns it.
pub(crate) fn build(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(root);
    cargo.args([
        "rustc",
        "--release",
        "--locked",
        "-p",
        "skillhost-cli",
        "--bin",
        "skillhost",
        "--message-format=json-render-diagnostics",
        "--",
    ]);
    cargo.args(WHOLE).args(ALIGNED);
    if has_static_libc() {
        cargo.args(STATIC);
    }
    #[cfg(target_arch = "x86_64")]
    cargo.arg("-C").arg(format!("linker={}", crate::link::linker(root)?.display()));
    executable(&step.run(&mut cargo)?, "skillhost")
}

/// Compiles the runtimes into the user's cache, which takes seconds, so that the first run need
/// not.
pub(crate) fn compile_runtimes(skillhost: &Path, step: &Step) -> Result<(), Error> {
    step.run(Command::new(skillhost).args(["runtimes", "compile"])).map(drop).map_err(Error::from)
}

/// Of what cargo reports, the executable of a target.
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

/// Whether the C compiler, which links for rustc, has glibc as an archive. Some systems' packages
/// leave it out.
fn has_static_libc() -> bool {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return false;
    }
    let said = Command::new("cc").arg("-print-file-name=libc.a").output();
    said.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute())
}
