//! Prepares the source of the shell runtime: bashkit as published, with the patches of
//! components/shell.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skillhost_toolchain::{Error, Step, TARGET, files};

use crate::workspace;

/// The name of the component and of its crate.
pub(crate) const NAME: &str = "shell";
/// The crate that is patched.
const UPSTREAM: &str = "bashkit";
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
    let dir = root.join("target/shell");
    let patches = patches(root)?;
    let source = upstream(root, step)?;
    let stamp = stamp(&source, &patches)?;
    let done = dir.join("stamp");
    if std::fs::read_to_string(&done).is_ok_and(|old| old == stamp) {
        return Ok(());
    }
    let copy = dir.join(UPSTREAM);
    // An interrupted run must not leave a partly patched copy that counts as complete.
    for old in [&copy, &done] {
        let removed =
            if old.is_dir() { std::fs::remove_dir_all(old) } else { std::fs::remove_file(old) };
        removed
            .or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
            .map_err(Error::context(old.display()))?;
    }
    std::fs::create_dir_all(&copy).map_err(Error::context(copy.display()))?;
    for name in ["Cargo.toml", "README.md", "src", "docs"] {
        copy_tree(&source.join(name), &copy.join(name))
            .map_err(Error::context(source.join(name).display()))?;
    }
    // The source keeps its authors' formatting.
    files::write_if_changed(&dir.join("rustfmt.toml"), b"disable_all_formatting = true\n")?;
    for patch in &patches {
        let mut apply = Command::new("git");
        // Hides the repository: inside one, git does not patch files that the repository ignores.
        apply
            .current_dir(&copy)
            .env("GIT_CEILING_DIRECTORIES", &dir)
            .args(["apply", "--whitespace=nowarn"])
            .arg(patch);
        step.run(&mut apply)?;
    }
    std::fs::write(&done, stamp).map_err(Error::context(done.display()))
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

/// Returns our patches, sorted by name.
fn patches(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let dir = root.join("components/shell/patches");
    let entries = std::fs::read_dir(&dir)
        .and_then(|e| e.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
    let mut patches = entries.map_err(Error::context(dir.display()))?;
    patches.retain(|patch| patch.extension().is_some_and(|e| e == "patch"));
    patches.sort();
    Ok(patches)
}

/// Returns the folder of the published source, which cargo fetches and checks against
/// components/shell/upstream/Cargo.lock.
fn upstream(root: &Path, step: &Step) -> Result<PathBuf, Error> {
    let mut cargo = workspace::cargo(&root.join("components/shell/upstream"));
    let metadata = step.run(cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        TARGET,
    ]))?;
    let metadata: Value =
        serde_json::from_slice(&metadata).map_err(Error::context("cargo metadata"))?;
    let package = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|package| package["name"] == UPSTREAM));
    let manifest = package
        .and_then(|package| package["manifest_path"].as_str())
        .map(Path::new)
        .and_then(Path::parent);
    manifest
        .map(Path::to_owned)
        .ok_or_else(|| Error::new(format!("`cargo metadata` does not list {UPSTREAM}")))
}

/// Identifies the source and the patches of the patched copy.
fn stamp(source: &Path, patches: &[PathBuf]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for patch in patches {
        hash.update(std::fs::read(patch).map_err(Error::context(patch.display()))?);
    }
    Ok(format!("{} {}\n", source.display(), hex(&hash.finalize())))
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return if from.exists() { std::fs::copy(from, to).map(drop) } else { Ok(()) };
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        copy_tree(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
