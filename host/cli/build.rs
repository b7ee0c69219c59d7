//! How the command is linked: so that a start costs little.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script asks its environment and the compiler"
)]

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // The unwinder goes into the executable. As a library of its own it has to be loaded by each
    // start, and looks first what the processor can, which takes long in a virtual machine.
    if let Some(folder) = folder_of("libgcc_eh.a") {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Where the C compiler, which links for rustc, has a library of its own; `None` where it has none
/// of that name.
fn folder_of(library: &str) -> Option<PathBuf> {
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return None;
    }
    let said = Command::new("cc").arg(format!("-print-file-name={library}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
    path.is_absolute().then(|| path.parent().map(PathBuf::from))?
}
