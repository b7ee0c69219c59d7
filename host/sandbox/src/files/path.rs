//! Turns the text of a path into the canonical path that is opened. Symlinks are followed here, not
//! by the kernel, so that each step is checked.

use std::collections::VecDeque;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::handle::Handle;
use super::mount::Rules;
use super::overlay::Tree;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;

/// Bytes of a path, before and after resolution (Linux: `PATH_MAX`, including the NUL).
pub(super) const PATH_MAX: usize = 4_095;

/// Components of a path. Bounded because rules are evaluated for each folder above a path.
const DEPTH_MAX: usize = 256;

/// Symlinks followed in one path, as in Linux.
const LINKS_MAX: usize = 40;

/// Names resolved in one path, with those of the symlinks in it. Each takes some microseconds, and a
/// guest could make 40 symlinks of 2,000 names each. No path without symlinks has more.
const STEPS_MAX: usize = 4_096;

/// The error of [`Vfs::walk`] for what the rules hide. Guests get `NOENT`: for them, it does not exist.
pub(super) const HIDDEN: Errno = Errno::NOKEY;

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
        if path.split('/').all(|c| c != "..") {
            let (m, rel) = match self.resolve_from_root(base.mount, &base.rel, path) {
                Some(found) => found,
                None => {
                    let join = |rel: String, name| beneath::join(&rel, name);
                    (base.mount, components(path).fold(base.rel.clone(), join))
                }
            };
            let rel = bounded(rel)?;
            match act(tree, Location { m, rel: &rel, folder }) {
                Err(Errno::LOOP | Errno::NOTDIR) => {}
                done => return done,
            }
        }
        let (m, rel) = self
            .walk(tree, base.mount, &base.rel, path, follow || folder)
            .map_err(|error| if error == HIDDEN { Errno::NOENT } else { error })?;
        act(tree, Location { m, rel: &rel, folder })
    }

    /// Resolves symlinks and `..` step by step, from the folder `base` of the mount `m`. The last
    /// name need not exist. Returns the mount that the path leads into, and the path in it.
    ///
    /// # Errors
    /// `PERM` if `..` leaves the mount, unless the path started at `/` or has followed a symlink
    /// that a guest created: everything that guests see is below `/`. [`HIDDEN`] if the rules hide a
    /// folder or a symlink on the way.
    pub(super) fn walk(
        &self,
        tree: &Tree,
        m: usize,
        base: &str,
        path: &str,
        follow: bool,
    ) -> Result<(usize, String), Errno> {
        let mut done: Vec<String> =
            components(&self.mounts[m].guest_path(base)).map(str::to_owned).collect();
        let mut todo: VecDeque<Step> = steps(path, Origin::Path).collect();
        let mut is_free = matches!(self.mounts[m].rules, Rules::Root(_));
        let (mut links, mut left) = (0, STEPS_MAX);
        while let Some(Step { name, origin }) = todo.pop_front() {
            left = usize::checked_sub(left, 1).ok_or(Errno::NAMETOOLONG)?;
            if name == ".." {
                let (_, rel) = self.locate(&done)?;
                match origin {
                    _ if !rel.is_empty() => {}
                    Origin::HostLink => return Err(Errno::PERM),
                    Origin::Path if !is_free || done.is_empty() && links == 0 => {
                        return Err(Errno::PERM);
                    }
                    Origin::Path | Origin::GuestLink => {}
                }
                // `..` of `/` is `/`.
                done.pop();
                continue;
            }
            done.push(name);
            let (m, rel) = self.locate(&done)?;
            let rel = bounded(rel)?;
            if !todo.is_empty() && self.access(m, &rel) == PathAccess::None {
                return Err(HIDDEN);
            }
            match self.lstat(tree, m, &rel).map(|stat| beneath::kind(&stat)) {
                Ok(FileType::Symlink) if follow || !todo.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    if self.access(m, &rel) == PathAccess::None {
                        return Err(HIDDEN);
                    }
                    done.pop();
                    let target = self.link_target(tree, m, &rel)?;
                    let origin = match (target.is_guest_path, target.text.starts_with('/')) {
                        (true, is_absolute) => {
                            is_free = true;
                            if is_absolute {
                                done.clear();
                            }
                            Origin::GuestLink
                        }
                        // Guests have no such paths.
                        (false, true) => return Err(Errno::PERM),
                        (false, false) => Origin::HostLink,
                    };
                    for step in steps(&target.text, origin).rev() {
                        todo.push_front(step);
                    }
                }
                Ok(kind) if !todo.is_empty() && kind != FileType::Directory => {
                    return Err(Errno::NOTDIR);
                }
                Ok(_) => {}
                Err(Errno::NOENT) if todo.is_empty() => {}
                Err(e) => return Err(e),
            }
        }
        let (m, rel) = self.locate(&done)?;
        Ok((m, bounded(rel)?))
    }

    /// Returns the mount that holds a guest path, and the path in it.
    ///
    /// # Errors
    /// `NOENT` if no mount contains the path.
    fn locate(&self, names: &[String]) -> Result<(usize, String), Errno> {
        let path = names.join("/");
        self.nearest_mount(&path).ok_or(Errno::NOENT)
    }
}

/// A name of a path that is being resolved.
#[derive(Debug)]
struct Step {
    name: String,
    origin: Origin,
}

/// Where a name comes from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// The path that the guest asked for.
    Path,
    /// The target of a symlink that a guest created.
    GuestLink,
    /// The target of a symlink in a folder of the host.
    HostLink,
}

fn steps(path: &str, origin: Origin) -> impl DoubleEndedIterator<Item = Step> {
    components(path).map(move |name| Step { name: name.to_owned(), origin })
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
