//! Checks the paths of mounts: guest paths, host paths, and mounts that clash.

use std::path::{Path, PathBuf};

use super::MountRule;

/// Guest paths that the sandbox uses itself, or that programs expect to be the system's.
const RESERVED: [&str; 8] =
    ["/skill", "/skills", "/tmp", "/state", "/dev", "/proc", "/usr", "/bin"];

/// Checks a guest path for a mount.
///
/// # Errors
/// Why nothing can be mounted there.
pub(super) fn guest_path(text: &str) -> Result<String, String> {
    let segments: Vec<&str> = text.split('/').skip(1).collect();
    if !text.starts_with('/') {
        return Err(format!("the guest path `{text}` is not absolute"));
    }
    if text == "/" {
        return Err("cannot mount at `/`".into());
    }
    if segments.iter().any(|s| s.is_empty() || *s == "." || *s == "..") {
        return Err(format!("the guest path `{text}` is not normalized"));
    }
    if text.contains(|c: char| c.is_control() || "*?[]{}\\".contains(c)) {
        return Err(format!(
            "the guest path `{}` contains a glob or control character",
            text.escape_default()
        ));
    }
    match RESERVED.into_iter().find(|reserved| is_within(text, reserved)) {
        Some(reserved) => Err(format!("`{reserved}` is reserved for the sandbox")),
        None => Ok(text.to_owned()),
    }
}

/// Resolves a host path in a policy file. `~/` expands to the operator's home folder, and a relative
/// path starts at the folder of the policy file.
///
/// # Errors
/// Why the path is invalid.
pub(super) fn host_path(text: &str, base: &Path, home: Option<&Path>) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("the host path is empty or contains a NUL character".into());
    }
    match text.strip_prefix('~') {
        None => Ok(base.join(text)),
        Some("") => home.map(Path::to_owned).ok_or_else(|| "the home folder is unknown".into()),
        Some(rest) => match (rest.strip_prefix('/'), home) {
            (Some(below), Some(home)) => Ok(home.join(below)),
            (Some(_), None) => Err("the home folder is unknown".into()),
            (None, _) => Err("only `~/` is supported, not `~USER/`".into()),
        },
    }
}

/// Describes why two mounts clash: they have the same guest path, or one is inside the other.
pub(super) fn clash(new: &MountRule, old: &MountRule) -> Option<String> {
    let (a, b) = (&new.mount.guest, &old.mount.guest);
    if a == b {
        Some(format!("`{a}` is already mounted at {}", old.place))
    } else if is_within(a, b) || is_within(b, a) {
        Some(format!("the mounts `{a}` and `{b}` (at {}) overlap", old.place))
    } else {
        None
    }
}

/// Checks whether a path is a folder or lies below it.
pub(super) fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
