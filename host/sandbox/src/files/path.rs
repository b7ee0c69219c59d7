//! Turns the text of a path into the canonical path that is opened. Symlinks are followed here, not
//! by the kernel, so that each step is checked.

use std::collections::VecDeque;

use rustix::fs::{self, FileType};
use rustix::io::Errno;

use super::handle::Handle;
use super::overlay::Tree;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;

/// Bytes of a path, before and after resolution (Linux: `PATH_MAX`, including the NUL).
const PATH_MAX: usize = 4_095;

/// Components of a path. Bounded because rules are evaluated for each folder above a path.
const DEPTH_MAX: usize = 256;

/// Symlinks followed in one path, as in Linux.
const LINKS_MAX: usize = 40;

/// A resolved path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location<'a> {
    /// The mount's index.
    pub(super) m: usize,
    /// The canonical path in the mount.
    pub(super) rel: &'a str,
    /// Whether the text ended in a slash, so that only a folder is accepted.
    pub(super) folder: bool,
}

impl Vfs {
    /// Calls `act` with the canonical location of `path` below `base`. Tries the literal path
    /// first, which is right unless a symlink is involved; in that case `act` fails with `LOOP` or
    /// `NOTDIR` before it has an effect, and is called again with the resolved path.
    pub(super) fn resolve<T>(
        &self,
        tree: &mut Tree,
        base: &Handle,
        path: &str,
        follow: bool,
        mut act: impl FnMut(&mut Tree, Location<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.forget_lookup();
        let Handle::Folder(base) = base else { return Err(Errno::NOTDIR) };
        check_text(path)?;
        let folder = path.ends_with('/') || path.ends_with("/.") || path == ".";
        let (m, base, path) = match self.resolve_from_root(base.mount, &base.rel, path)? {
            Some((m, rest)) => (m, "", rest),
            None => (base.mount, base.rel.as_str(), path.to_owned()),
        };
        if path.split('/').all(|c| c != "..") {
            let rel = bounded(
                components(&path).fold(base.to_owned(), |rel, name| beneath::join(&rel, name)),
            )?;
            match act(tree, Location { m, rel: &rel, folder }) {
                Err(Errno::LOOP | Errno::NOTDIR) => {}
                done => return done,
            }
        }
        let rel = self.walk(tree, m, base, &path, follow || folder)?;
        act(tree, Location { m, rel: &rel, folder })
    }

    /// Resolves symlinks and `..` step by step. The last name need not exist.
    fn walk(
        &self,
        tree: &Tree,
        m: usize,
        base: &str,
        path: &str,
        follow: bool,
    ) -> Result<String, Errno> {
        let mut done: Vec<String> = components(base).map(str::to_owned).collect();
        let mut todo: VecDeque<String> = components(path).map(str::to_owned).collect();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            if name == ".." {
                done.pop().ok_or(Errno::PERM)?;
                continue;
            }
            let rel = bounded(beneath::join(&done.join("/"), &name))?;
            if !todo.is_empty() && self.access(m, &rel) == PathAccess::None {
                return Err(Errno::NOENT);
            }
            match self.lstat(tree, m, &rel).map(|stat| beneath::kind(&stat)) {
                Ok(FileType::Symlink) if follow || !todo.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    if self.access(m, &rel) == PathAccess::None {
                        return Err(Errno::NOENT);
                    }
                    let target = self.link_target(tree, m, &rel)?;
                    for part in components(&target).rev() {
                        todo.push_front(part.to_owned());
                    }
                }
                Ok(kind) if !todo.is_empty() && kind != FileType::Directory => {
                    return Err(Errno::NOTDIR);
                }
                Ok(_) => done.push(name),
                Err(Errno::NOENT) if todo.is_empty() => done.push(name),
                Err(e) => return Err(e),
            }
        }
        Ok(done.join("/"))
    }

    /// Returns the target of a symlink, relative to its folder.
    ///
    /// # Errors
    /// `PERM` for an absolute target: guests have no such paths.
    pub(super) fn link_target(&self, tree: &Tree, m: usize, rel: &str) -> Result<String, Errno> {
        let (parent, name) = beneath::parent(self.storage(tree, m, rel)?, rel)?;
        let target =
            fs::readlinkat(&parent, name, Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)?;
        if target.starts_with('/') { Err(Errno::PERM) } else { Ok(target) }
    }
}

/// Checks whether the target of a symlink at `rel` climbs above the mount; the rest would be part
/// of a host path.
pub(super) fn climbs_out(rel: &str, target: &str) -> bool {
    let mut depth = beneath::ancestors(rel).count();
    for name in components(target) {
        match (name, depth) {
            ("..", 0) => return true,
            ("..", _) => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// Returns the components of a path without empty ones and `.`.
fn components(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|c| !c.is_empty() && *c != ".")
}

fn check_text(path: &str) -> Result<(), Errno> {
    match path {
        "" => Err(Errno::NOENT),
        _ if path.starts_with('/') => Err(Errno::PERM),
        _ if path.len() > PATH_MAX => Err(Errno::NAMETOOLONG),
        _ if path.contains('\0') => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

fn bounded(rel: String) -> Result<String, Errno> {
    if rel.len() > PATH_MAX || rel.matches('/').count() >= DEPTH_MAX {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(rel)
    }
}
