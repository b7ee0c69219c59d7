//! Where things are: this repository, and the cargo workspaces in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::Error;

/// The folders whose crates compile to components, in the order in which they need one another.
const GUESTS: [&str; 4] = ["guest-sdk", "components", "components/shell", "skills"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The workspaces of guests: each of the folders, or the crates in it where it is no workspace.
pub(crate) fn guests(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for folder in GUESTS.map(|f| root.join(f)).into_iter().filter(|f| f.is_dir()) {
        if folder.join("Cargo.toml").is_file() {
            found.push(folder);
            continue;
        }
        let entries = std::fs::read_dir(&folder)
            .and_then(|e| e.map(|e| Ok(e?.path())).collect::<Result<Vec<_>, _>>());
        let mut crates = entries.map_err(Error::context(folder.display()))?;
        crates.retain(|c| c.join("Cargo.toml").is_file());
        crates.sort();
        found.extend(crates);
    }
    Ok(found)
}

/// Every workspace: the host's, the guests', the fuzz targets'.
pub(crate) fn all(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let fuzz = root.join("fuzz");
    let fuzz = fuzz.join("Cargo.toml").is_file().then_some(fuzz);
    Ok(std::iter::once(root.to_owned()).chain(guests(root)?).chain(fuzz).collect())
}

/// What guests are built in: shared, so that what they stand on is compiled once.
pub(crate) fn guest_target_dir(root: &Path) -> PathBuf {
    root.join("target/guests")
}

/// A workspace's folder as a person calls it.
pub(crate) fn name(root: &Path, dir: &Path) -> String {
    match dir.strip_prefix(root) {
        Ok(relative) if relative != Path::new("") => relative.display().to_string(),
        _ => "host".into(),
    }
}

/// The active toolchain's cargo in `dir`.
pub(crate) fn cargo(dir: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(dir);
    cargo
}
