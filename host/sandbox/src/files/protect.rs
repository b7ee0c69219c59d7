//! Refuses changes that would make host programs run code later and that a path alone does not
//! reveal: moving a folder that contains protected files, and turning a folder into a git
//! repository that is not called `.git`.

use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::links::LinkRefusal;
use super::mount::Rules;
use super::overlay::Tree;
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::{Mount, PathAccess};
use skillhost_policy::protected::{self, REPOSITORY_CONFIG, normalize_name};

/// The most entries checked in a folder that is renamed. Guests copy a larger folder, entry by
/// entry.
const MOVED_MAX: usize = 10_000;

impl Vfs {
    /// Refuses to rename a folder that contains entries that may not be written at the old or the
    /// new path. If the folder moves `up`, refuses all symlinks in it: at a place with fewer folders
    /// above it, one could lead out of the mount.
    pub(super) fn check_move(
        &self,
        tree: &Tree,
        m: usize,
        from: &str,
        to: &str,
        up: bool,
    ) -> Result<(), Errno> {
        let Rules::Granted(granted) = &self.mounts[m].rules else { return Ok(()) };
        let mut folders = vec![String::new()];
        let mut seen = 0;
        while let Some(folder) = folders.pop() {
            for (name, kind) in self.list(tree, m, &below(from, &folder))? {
                seen += 1;
                if seen > MOVED_MAX {
                    return Err(Errno::XDEV);
                }
                if up && kind == FileType::Symlink {
                    return Err(Errno::XDEV);
                }
                // All protected names are valid UTF-8.
                let Ok(name) = name.into_string() else { continue };
                let inner = beneath::join(&folder, &name);
                for path in [below(from, &inner), below(to, &inner)] {
                    if self.decide(m, Some(granted), &path) != PathAccess::Write {
                        self.refuse(m, &path, Attempt::Create);
                        return Err(Errno::ACCESS);
                    }
                }
                self.check_reach(m, &below(from, &inner), Attempt::Change)?;
                let moved = below(to, &inner);
                if kind == FileType::Symlink && self.leads_to_protected(m, &moved) {
                    self.record_refusal(m, &moved, LinkRefusal::Protected);
                    return Err(Errno::ACCESS);
                }
                if kind == FileType::Directory {
                    folders.push(inner);
                }
            }
        }
        Ok(())
    }

    /// Refuses to add commands to a git repository outside a `.git` folder, and to turn a folder
    /// that contains some into a repository.
    ///
    /// Git treats any folder that has `HEAD`, `objects` and `refs` as a repository, and runs the
    /// commands in its `config` and `hooks`.
    pub(super) fn check_repository(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
        attempt: Attempt,
    ) -> Result<(), Errno> {
        let Rules::Granted(granted) = &self.mounts[m].rules else { return Ok(()) };
        let names: Vec<&str> = rel.split('/').collect();
        let exists =
            |folder: &str, name: &str| self.lstat(tree, m, &beneath::join(folder, name)).is_ok();
        let refuse = |path: &str| {
            self.refuse_repository(m, granted, path, rel);
            Err(Errno::ACCESS)
        };
        for (at, name) in names.iter().enumerate() {
            let name = normalize_name(name);
            if !REPOSITORY_CONFIG.contains(&&*name) {
                continue;
            }
            let (folder, path) = (names[..at].join("/"), names[..=at].join("/"));
            // `commondir` points to another folder, which has the rest.
            let is_repository = exists(&folder, "HEAD")
                && (name == "commondir"
                    || exists(&folder, "objects")
                    || exists(&folder, "commondir"));
            if is_repository && !self.is_named(granted, m, &path) {
                return refuse(&path);
            }
        }
        let (folder, name) = beneath::split(rel);
        let completes = attempt == Attempt::Create
            && match &*normalize_name(name) {
                "head" => exists(folder, "objects") || exists(folder, "commondir"),
                "objects" | "refs" => exists(folder, "HEAD"),
                _ => false,
            };
        if completes && let Some(runs) = REPOSITORY_CONFIG.iter().find(|name| exists(folder, name))
        {
            let path = beneath::join(folder, runs);
            if !self.is_named(granted, m, &path) {
                return refuse(&path);
            }
        }
        Ok(())
    }

    /// Checks whether a path has the name of a folder in which there are protected paths.
    pub(super) fn leads_to_protected(&self, m: usize, rel: &str) -> bool {
        let path = self.mounts[m].rule_path(rel);
        let top = match &self.mounts[m].rules {
            Rules::Granted(granted) => granted.guest.as_str(),
            _ => "",
        };
        protected::leads_to_protected(path.strip_prefix(top).unwrap_or(&path))
    }

    /// Checks whether the operator names a path literally, or a protected folder that contains it.
    fn is_named(&self, granted: &Mount, m: usize, rel: &str) -> bool {
        let path = self.mounts[m].rule_path(rel);
        let relative = path.strip_prefix(granted.guest.as_str()).unwrap_or(&path);
        let entries =
            self.path_rules().write.operator_patterns().iter().filter_map(|glob| glob.literal());
        protected::kind_of(relative).is_some() || entries.into_iter().any(|entry| entry == path)
    }

    fn refuse_repository(&self, m: usize, granted: &Mount, path: &str, rel: &str) {
        let (path, what) =
            (self.mounts[m].rule_path(path), format!("write {}", self.mounts[m].guest_path(rel)));
        let name =
            path.strip_prefix(granted.guest.as_str()).unwrap_or(&path).trim_start_matches('/');
        let rule = format!(
            "git would run commands from `{name}`; only an operator entry that names it can grant that"
        );
        self.record_protected(what, rule, &path);
    }
}

/// Checks whether a folder below a workspace may replace the workspace. It must be reachable
/// without leaving the workspace or its mount, and must not be the part of a git repository that
/// contains commands: mounted alone, that part would no longer be recognised.
pub fn may_narrow_to(workspace: &Path, below: &str) -> bool {
    let Ok(workspace) = beneath::open_root(workspace) else { return false };
    let names: Vec<&str> = below.split('/').collect();
    let has_commands = |at: usize| {
        let head = beneath::join(&names[..at].join("/"), "HEAD");
        REPOSITORY_CONFIG.contains(&&*normalize_name(names[at]))
            && beneath::stat(workspace.as_fd(), &head).is_ok()
    };
    !(0..names.len()).any(has_commands)
        && beneath::open(workspace.as_fd(), below, beneath::FOLDER).is_ok()
}

/// Joins a folder and a path in it; the empty path is the folder itself.
fn below(folder: &str, inner: &str) -> String {
    if inner.is_empty() { folder.to_owned() } else { beneath::join(folder, inner) }
}
