//! Prepares the source of the shell runtime: bashkit as published, with the patches of
//! components/shell.

use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use skillhost_toolchain::{Error, Step, files};

use crate::patched::Patched;

/// The name of the component and of its crate.
pub(crate) const NAME: &str = "shell";
/// The crate that is patched.
const UPSTREAM: &str = "bashkit";
const SOURCE: Patched = Patched {
    component: NAME,
    patches: "patches",
    upstream: UPSTREAM,
    copied: &[
        ("Cargo.toml", "bashkit/Cargo.toml"),
        ("README.md", "bashkit/README.md"),
        ("src", "bashkit/src"),
        ("docs", "bashkit/docs"),
    ],
    patched_in: "bashkit",
};
/// The names by which scripts start the shell itself.
const SHELLS: [&str; 2] = ["bash", "sh"];
/// The commands of the shell that other programs start by name. `tests/bash.rs` compares them with
/// the shell's own list.
const COMMANDS: &str = include_str!("../../components/shell/programs.txt");
/// The names of the functions that starts call, as recorded by `record_order.py` in the same
/// folder.
const ORDER: &str = include_str!("../../components/shell/order.txt");
/// The wasm stack that the deepest recursion of the shell needs: see `limits.rs` of the component.
const STACK: &str = "64MiB";

/// Writes the patched source to the folder that components/shell/Cargo.toml refers to, unless it is
/// up to date.
pub(crate) fn prepare(root: &Path, step: &Step) -> Result<(), Error> {
    SOURCE.prepare(root, step)
}

/// Writes the component to `to`, with its functions in the order of [`ORDER`], and their names to
/// target/shell/names.txt.
pub(crate) fn write_ordered(root: &Path, built: &Path, to: &Path) -> Result<(), Error> {
    let component = std::fs::read(built).map_err(Error::context(built.display()))?;
    let image = skillhost_image::shell(&component, ORDER)
        .map_err(Error::context("the component of the shell"))?;
    files::write_if_changed(&root.join("target/shell/names.txt"), image.names.as_bytes())?;
    files::write_if_changed(to, &image.component).map(drop)
}

/// Writes the program manifest next to the component.
pub(crate) fn write_manifest(root: &Path, wasm: &Path) -> Result<(), Error> {
    let bytes = std::fs::read(wasm).map_err(Error::context(wasm.display()))?;
    let programs: Vec<&str> = SHELLS.into_iter().chain(COMMANDS.split_whitespace()).collect();
    let manifest = json!({
        "name": "shell",
        "version": version(root)?,
        "programs": programs,
        "wasm": "shell.wasm",
        "size": bytes.len(),
        "digest": format!("sha256:{}", hex(&Sha256::digest(&bytes))),
        "limits": { "stack": STACK },
    });
    let text = format!(
        "{}\n",
        serde_json::to_string_pretty(&manifest).map_err(Error::context("the shell's manifest"))?
    );
    files::write_if_changed(&wasm.with_extension("json"), text.as_bytes()).map(drop)
}

/// Returns the version of the patched crate, which is that of the shell.
fn version(root: &Path) -> Result<String, Error> {
    let manifest = root.join("target/shell").join(UPSTREAM).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(Error::context(manifest.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    line.map(|rest| rest.trim_end_matches('"').to_owned())
        .ok_or_else(|| Error::new(format!("{} has no version", manifest.display())))
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
