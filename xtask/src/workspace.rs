//! Where things are: this repository, and the cargo workspaces in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspaces whose crates compile to components: all guests share one, apart from the shell,
/// whose interpreter exists only after [`shell::prepare`](crate::shell::prepare).
const GUESTS: [&str; 2] = ["guests", "components/shell"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// The workspaces of guests.
pub(crate) fn guests(root: &Path) -> [PathBuf; 2] {
    GUESTS.map(|folder| root.join(folder))
}

/// Every workspace: the host's, the guests', the fuzz targets'.
pub(crate) fn all(root: &Path) -> Vec<PathBuf> {
    std::iter::once(root.to_owned()).chain(guests(root)).chain([root.join("fuzz")]).collect()
}

/// The target folder of all guests: shared, so that each dependency compiles once.
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
