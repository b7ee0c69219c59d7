//! Resolves a path to the granted folder that contains it.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::rc::Rc;

use crate::bindings::filesystem::wasi::filesystem::{preopens::get_directories, types::Descriptor};

/// A path in the form that WASI takes.
pub(super) struct Resolved {
    /// The granted folder that contains the path.
    pub(super) folder: Rc<Descriptor>,
    /// The path relative to `folder`, or `.` for the folder itself.
    pub(super) relative: String,
    /// The whole path, for messages.
    pub(super) absolute: String,
}

type Preopens = Vec<(Rc<Descriptor>, String)>;

thread_local! {
    /// Cached: preopens do not change while the program runs.
    static PREOPENS: RefCell<Option<Rc<Preopens>>> = const { RefCell::new(None) };
}

/// Finds the granted folder that contains a path.
///
/// # Errors
///
/// Returns [`ErrorKind::PermissionDenied`] if no granted folder contains it.
pub(super) fn resolve(path: impl AsRef<Path>) -> Result<Resolved> {
    let path = path.as_ref();
    let Some(text) = path.to_str() else {
        return Err(Error::new(
            ErrorKind::InvalidFilename,
            format!("{}: not UTF-8", path.display()),
        ));
    };
    if text.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "the path is empty"));
    }
    let absolute = if text.starts_with('/') {
        normalize(text)
    } else {
        normalize(&format!("{}/{text}", crate::env::current_dir().display()))
    };
    let preopens = preopens();
    let names: Vec<&str> = preopens.iter().map(|(_, name)| name.as_str()).collect();
    let Some((index, relative)) = locate(&absolute, &names) else {
        let granted = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("{absolute}: not in a granted folder ({granted})");
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    };
    Ok(Resolved { folder: Rc::clone(&preopens[index].0), relative, absolute })
}

fn preopens() -> Rc<Preopens> {
    PREOPENS.with_borrow_mut(|known| {
        let list = known.get_or_insert_with(|| {
            let granted = get_directories().into_iter();
            Rc::new(granted.map(|(folder, name)| (Rc::new(folder), normalize(&name))).collect())
        });
        Rc::clone(list)
    })
}

/// Removes `.`, `..`, and double and trailing slashes from an absolute path.
fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Finds the longest of the folders that contain `path`, and returns its index and the path below
/// it. Paths must be normalised.
fn locate(path: &str, folders: &[&str]) -> Option<(usize, String)> {
    let below = |folder: &str| {
        let rest = path.strip_prefix(folder.trim_end_matches('/'))?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
    };
    let candidates = folders
        .iter()
        .enumerate()
        .filter_map(|(index, folder)| Some((folder.len(), index, below(folder)?)));
    let (_, index, rest) = candidates.max_by_key(|(length, ..)| *length)?;
    Some((index, if rest.is_empty() { ".".into() } else { rest.into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(path: &str, folders: &[&str]) -> Option<(usize, String)> {
        locate(&normalize(path), folders)
    }

    #[test]
    fn longest_matching_folder_wins() {
        let folders = ["/", "/workspace", "/workspace/data"];
        assert_eq!(located("/workspace/data/a.csv", &folders), Some((2, "a.csv".into())));
        assert_eq!(located("/workspace/other/a.csv", &folders), Some((1, "other/a.csv".into())));
        assert_eq!(located("/etc/passwd", &folders), Some((0, "etc/passwd".into())));
    }

    #[test]
    fn folder_contains_itself() {
        assert_eq!(located("/tmp", &["/tmp"]), Some((0, ".".into())));
        assert_eq!(located("/tmp/", &["/tmp"]), Some((0, ".".into())));
        assert_eq!(located("/", &["/"]), Some((0, ".".into())));
    }

    #[test]
    fn common_prefix_of_a_name_does_not_match() {
        assert_eq!(located("/workspaces/a", &["/workspace"]), None);
        assert_eq!(located("/", &["/workspace"]), None);
    }

    #[test]
    fn dots_are_resolved_before_matching() {
        assert_eq!(
            located("/workspace/../tmp/./a", &["/workspace", "/tmp"]),
            Some((1, "a".into()))
        );
        assert_eq!(located("/../../tmp//a/b/..", &["/tmp"]), Some((0, "a".into())));
    }
}
