//! The folders of this repository and of its cargo workspaces.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspaces whose crates compile to components. All guests share one, except the shell and the
/// JavaScript runtime, whose sources exist only after [`shell::prepare`](crate::shell::prepare) and
/// [`javascript::prepare`](crate::javascript::prepare).
const GUESTS: [&str; 3] = ["guests", "components/shell", "components/javascript"];

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Returns the workspaces of guests.
pub(crate) fn guests(root: &Path) -> [PathBuf; 3] {
    GUESTS.map(|folder| root.join(folder))
}

/// Returns every workspace: the host's, the guests', the fuzz targets'.
pub(crate) fn all(root: &Path) -> Vec<PathBuf> {
    std::iter::once(root.to_owned()).chain(guests(root)).chain([root.join("fuzz")]).collect()
}

/// Returns the target folder that all guests share, so that each dependency compiles once.
pub(crate) fn guest_target_dir(root: &Path) -> PathBuf {
    root.join("target/guests")
}

/// Returns a folder's path in the repository, for messages; `host` for the root.
pub(crate) fn name(root: &Path, dir: &Path) -> String {
    match dir.strip_prefix(root) {
        Ok(relative) if relative != Path::new("") => relative.display().to_string(),
        _ => "host".into(),
    }
}

/// Returns a command that runs the active toolchain's cargo in `dir`.
pub(crate) fn cargo(dir: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(dir);
    cargo
}
