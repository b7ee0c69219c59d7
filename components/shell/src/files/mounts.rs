//! Resolves a path to the mount that contains it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::errors::missing;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::Descriptor;

/// The skill's own files, which the host mounts read-only.
const READ_ONLY: &str = "/skill";

/// The mounts.
pub(super) struct Mounts(Vec<(PathBuf, Descriptor)>);

/// A path in the form that WASI takes.
pub(super) struct MountPath<'a> {
    pub(super) folder: &'a Descriptor,
    /// The path relative to `folder`, or `.` for the folder itself.
    pub(super) relative: String,
    pub(super) writable: bool,
}

impl MountPath<'_> {
    pub(super) fn is_mount(&self) -> bool {
        self.relative == "."
    }
}

impl Mounts {
    pub(super) fn granted() -> Mounts {
        Mounts(
            get_directories()
                .into_iter()
                .map(|(folder, name)| (normalize(Path::new(&name)), folder))
                .collect(),
        )
    }

    /// Finds the longest mount that contains `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<MountPath<'_>> {
        let path = normalize(path);
        let holding = self.0.iter().filter(|(mount, _)| path.starts_with(mount));
        let (mount, folder) =
            holding.max_by_key(|(mount, _)| mount.as_os_str().len()).ok_or_else(missing)?;
        let below = path.strip_prefix(mount).ok().and_then(Path::to_str).ok_or_else(missing)?;
        let relative = if below.is_empty() { ".".to_owned() } else { below.to_owned() };
        Ok(MountPath { folder, relative, writable: !mount.starts_with(READ_ONLY) })
    }

    /// Returns whether `path` is above a mount.
    pub(super) fn is_above(&self, path: &Path) -> bool {
        let path = normalize(path);
        self.0.iter().any(|(mount, _)| mount.starts_with(&path))
    }

    /// Returns the names of folders in `path` that lead to mounts.
    pub(super) fn below(&self, path: &Path) -> impl Iterator<Item = String> {
        let path = normalize(path);
        let next = self
            .0
            .iter()
            .filter_map(|(mount, _)| mount.strip_prefix(&path).ok()?.components().next());
        next.map(|name| name.as_os_str().to_string_lossy().into_owned())
            .collect::<BTreeSet<_>>()
            .into_iter()
    }
}

/// Resolves `.` and `..` in an absolute path.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}
