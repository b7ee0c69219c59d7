//! Which host folder may be shown where.

use std::path::{Path, PathBuf};

use super::MountRule;

/// What the sandbox keeps for itself, and what programs expect of it.
const RESERVED: [&str; 7] = ["/skill", "/tmp", "/state", "/dev", "/proc", "/usr", "/bin"];

/// A guest path that a folder may be mounted at.
///
/// # Errors
/// Why it may not.
pub(super) fn guest_path(text: &str) -> Result<String, String> {
    let segments: Vec<&str> = text.split('/').skip(1).collect();
    if !text.starts_with('/') {
        return Err(format!("the guest path `{text}` is not absolute"));
    }
    if text == "/" {
        return Err("`/` itself cannot be a mount".into());
    }
    if segments.iter().any(|s| s.is_empty() || *s == "." || *s == "..") {
        return Err(format!("the guest path `{text}` is not in its shortest form"));
    }
    if text.contains(|c: char| c.is_control() || "*?[]{}\\".contains(c)) {
        return Err(format!(
            "the guest path `{}` holds a character that globs use",
            text.escape_default()
        ));
    }
    match RESERVED.into_iter().find(|reserved| is_within(text, reserved)) {
        Some(reserved) => Err(format!("`{reserved}` belongs to the sandbox")),
        None => Ok(text.to_owned()),
    }
}

/// The host folder or file that a policy file names: `~/` is the operator's home, a relative path
/// starts at the file's own folder.
///
/// # Errors
/// Why it names none.
pub(super) fn host_path(text: &str, base: &Path, home: Option<&Path>) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err("the path on the host is missing, or holds a NUL character".into());
    }
    match text.strip_prefix('~') {
        None => Ok(base.join(text)),
        Some("") => home.map(Path::to_owned).ok_or_else(|| "the home folder is not known".into()),
        Some(rest) => match (rest.strip_prefix('/'), home) {
            (Some(below), Some(home)) => Ok(home.join(below)),
            (Some(_), None) => Err("the home folder is not known".into()),
            (None, _) => Err("only `~/` is understood, not other people's homes".into()),
        },
    }
}

/// What is wrong with having two mounts side by side: the same place, or one inside the other.
pub(super) fn clash(new: &MountRule, old: &MountRule) -> Option<String> {
    let (a, b) = (&new.mount.guest, &old.mount.guest);
    if a == b {
        Some(format!("`{a}` is already mounted at {}", old.place))
    } else if is_within(a, b) || is_within(b, a) {
        Some(format!("`{a}` and `{b}` (at {}) are inside one another", old.place))
    } else {
        None
    }
}

/// Whether a path is that folder, or below it.
pub(super) fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
