//! Which granted folder a path is in.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::rc::Rc;

use crate::bindings::filesystem::wasi::filesystem::{preopens::get_directories, types::Descriptor};

/// A path as WASI takes it.
pub(super) struct Resolved {
    /// The granted folder that it is in.
    pub(super) folder: Rc<Descriptor>,
    /// Below that; `.` for the folder itself.
    pub(super) relative: String,
    /// For messages.
    pub(super) absolute: String,
}

type Preopens = Vec<(Rc<Descriptor>, String)>;

thread_local! {
    /// They stay what they are while the program runs.
    static PREOPENS: RefCell<Option<Rc<Preopens>>> = const { RefCell::new(None) };
}

/// # Errors
///
/// [`ErrorKind::PermissionDenied`] where no granted folder holds it.
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
        let message = format!("{absolute}: not in a folder that is granted here ({granted})");
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

/// Absolute, without `.`, `..`, double or trailing slashes.
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

/// The folder with the longest name that holds `path`, and the path below it. Both are normalized.
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
    fn the_longest_folder_wins() {
        let folders = ["/", "/workspace", "/workspace/data"];
        assert_eq!(located("/workspace/data/a.csv", &folders), Some((2, "a.csv".into())));
        assert_eq!(located("/workspace/other/a.csv", &folders), Some((1, "other/a.csv".into())));
        assert_eq!(located("/etc/passwd", &folders), Some((0, "etc/passwd".into())));
    }

    #[test]
    fn a_folder_holds_itself() {
        assert_eq!(located("/tmp", &["/tmp"]), Some((0, ".".into())));
        assert_eq!(located("/tmp/", &["/tmp"]), Some((0, ".".into())));
        assert_eq!(located("/", &["/"]), Some((0, ".".into())));
    }

    #[test]
    fn a_name_that_merely_begins_alike_is_not_held() {
        assert_eq!(located("/workspaces/a", &["/workspace"]), None);
        assert_eq!(located("/", &["/workspace"]), None);
    }

    #[test]
    fn dots_are_taken_out_before_the_folder_is_chosen() {
        assert_eq!(
            located("/workspace/../tmp/./a", &["/workspace", "/tmp"]),
            Some((1, "a".into()))
        );
        assert_eq!(located("/../../tmp//a/b/..", &["/tmp"]), Some((0, "a".into())));
    }
}
