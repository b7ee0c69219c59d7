//! Links the unwinder into the program, so that a start does not load it.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script asks its environment and the compiler"
)]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // As a shared library, the unwinder would be loaded by each start, and would first ask for the
    // processor's features, which takes long in a virtual machine.
    if let Some(folder) = folder_of("libgcc_eh.a") {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// The folder in which the C compiler, which links for rustc, has a library of its own; `None` if
/// it does not exist, or when cross-compiling.
fn folder_of(library: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" || variable("TARGET") != variable("HOST") {
        return None;
    }
    let said = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    path.is_absolute().then(|| path.parent().map(PathBuf::from))?
}
