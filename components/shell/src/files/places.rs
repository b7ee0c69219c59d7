//! Which granted folder a path is in.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::errors::missing;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::Descriptor;

/// What the host mounts read-only; a skill's own files.
const READ_ONLY: &str = "/skill";

/// The granted folders.
pub(super) struct Places(Vec<(PathBuf, Descriptor)>);

/// A path as WASI takes it.
pub(super) struct At<'a> {
    pub(super) folder: &'a Descriptor,
    /// Below that; `.` for the folder itself.
    pub(super) relative: String,
    pub(super) writable: bool,
}

impl At<'_> {
    pub(super) fn is_mount(&self) -> bool {
        self.relative == "."
    }
}

impl Places {
    pub(super) fn granted() -> Places {
        Places(
            get_directories()
                .into_iter()
                .map(|(folder, name)| (normal(Path::new(&name)), folder))
                .collect(),
        )
    }

    /// The folder with the longest name that holds `path`.
    pub(super) fn find(&self, path: &Path) -> io::Result<At<'_>> {
        let path = normal(path);
        let holding = self.0.iter().filter(|(mount, _)| path.starts_with(mount));
        let (mount, folder) =
            holding.max_by_key(|(mount, _)| mount.as_os_str().len()).ok_or_else(missing)?;
        let below = path.strip_prefix(mount).ok().and_then(Path::to_str).ok_or_else(missing)?;
        let relative = if below.is_empty() { ".".to_owned() } else { below.to_owned() };
        Ok(At { folder, relative, writable: !mount.starts_with(READ_ONLY) })
    }

    /// Whether `path` is above one of them.
    pub(super) fn is_above(&self, path: &Path) -> bool {
        let path = normal(path);
        self.0.iter().any(|(mount, _)| mount.starts_with(&path))
    }

    /// The names that lead to them from `path`.
    pub(super) fn below(&self, path: &Path) -> impl Iterator<Item = String> {
        let path = normal(path);
        let next = self
            .0
            .iter()
            .filter_map(|(mount, _)| mount.strip_prefix(&path).ok()?.components().next());
        next.map(|name| name.as_os_str().to_string_lossy().into_owned())
            .collect::<BTreeSet<_>>()
            .into_iter()
    }
}

/// Absolute, without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
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
