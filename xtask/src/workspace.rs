//! The folders of this repository and of its cargo workspaces.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use skillhost_toolchain::Error;

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

/// Removes a file or a folder, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let removed =
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .map_err(Error::context(path.display()))
}

/// Returns a command that runs the active toolchain's cargo in `dir`, with the environment that it has
/// outside a task. Build scripts such as that of `ring` run again if the variables change that describe
/// this package, and all that depends on their crates would compile again after each change between a
/// task and a plain `cargo test`.
pub(crate) fn cargo(dir: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"];
        if of_package.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes())) {
            cargo.env_remove(name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_folders_and_nothing_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        remove(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        remove(&path).unwrap();
        std::fs::create_dir_all(path.join("b")).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }
}
