//! Applies an overlay to the folder below it: each file atomically, and nothing at all if the
//! folder has changed since.

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::changes::Difference;
use super::copy_up::copy;
use super::links::{LinkRefusal, replace_by_link};
use super::overlay::{LowerStamp, Tree};
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;

/// Why an overlay was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// These paths have changed since the guest first changed them. Nothing was written.
    #[error("nothing was applied: the folder has changed since the run: {}", .0.join(", "))]
    Changed(Vec<String>),
    /// This symlink may not be written to the folder. Nothing was written.
    #[error("nothing was applied: {path} is a symlink, and {refusal}")]
    Symlink {
        /// The path, as [`Vfs::changes`] names it.
        path: String,
        /// Why it may not be written.
        refusal: LinkRefusal,
    },
    /// The host failed to apply one path, after `done` of `all` changes.
    #[error("cannot apply {path}, after {done} of {all} changes: {error}")]
    Host {
        /// The path, as [`Vfs::changes`] names it.
        path: String,
        /// The host's error; `BUSY` if the path changed at the last moment.
        error: Errno,
        /// Changes made.
        done: usize,
        /// Changes to make.
        all: usize,
    },
}

/// One half of a change: an entry that changes kind takes both.
#[derive(Debug, Clone, Copy)]
enum Step {
    Remove,
    Make,
}

impl Vfs {
    /// Makes the folders below the overlays match the guest's view. Call it after the guest has
    /// ended.
    ///
    /// Writes each file next to its destination and renames it into place. Existing files keep
    /// their mode, also if they are moved; new files get 0666 minus the umask. Bits that the guest
    /// sets are not applied.
    ///
    /// # Errors
    /// [`ApplyError::Changed`] if a path changed on both sides; then nothing was written. A failure
    /// of the host can occur halfway.
    pub fn apply(&self) -> Result<(), ApplyError> {
        let mut tree = self.tree();
        let plan: Vec<(usize, Difference)> = self
            .overlays()
            .into_iter()
            .flat_map(|m| self.differences(&tree, m).into_iter().map(move |d| (m, d)))
            .collect();
        let stale: Vec<String> = plan
            .iter()
            .filter(|(m, d)| self.is_stale(&tree, *m, d))
            .map(|(m, d)| self.label(*m, d))
            .collect();
        if !stale.is_empty() {
            return Err(ApplyError::Changed(stale));
        }
        // Files that appeared in the folder since the run may turn it into a git repository that
        // runs the commands written here.
        let completes_repository = |m: usize, d: &Difference| {
            let attempt = if d.lower.is_none() { Attempt::Create } else { Attempt::Change };
            d.view.is_some() && self.check_repository(&tree, m, &d.rel, attempt).is_err()
        };
        let forbidden = plan.iter().find(|(m, d)| {
            self.access(*m, &d.rel) != PathAccess::Write || completes_repository(*m, d)
        });
        if let Some((m, difference)) = forbidden {
            let path = self.label(*m, difference);
            return Err(ApplyError::Host { path, error: Errno::ACCESS, done: 0, all: plan.len() });
        }
        if let Some((m, difference, refusal)) =
            plan.iter().find_map(|(m, d)| Some((*m, d, self.refused_link(&tree, *m, d)?)))
        {
            return Err(ApplyError::Symlink { path: self.label(m, difference), refusal });
        }
        let all = plan.len();
        for (done, (at, step)) in order(&plan).into_iter().enumerate() {
            let (m, difference) = &plan[at];
            let result = match step {
                Step::Remove => self.remove_entry(*m, difference),
                Step::Make => self.write_entry(&tree, *m, difference),
            };
            result.map_err(|error| ApplyError::Host {
                path: self.label(*m, difference),
                error,
                done: done.min(all),
                all,
            })?;
        }
        for (m, difference) in &plan {
            let now = self.lower_stat(*m, &difference.rel).map(|stat| LowerStamp::of(&stat));
            tree.overlay_mut(*m).stamps.insert(difference.rel.clone(), now);
        }
        Ok(())
    }

    /// Returns why the symlink of a change may not be written to the folder.
    pub(super) fn refused_link(
        &self,
        tree: &Tree,
        m: usize,
        difference: &Difference,
    ) -> Option<LinkRefusal> {
        let view = difference.view.as_ref()?;
        if beneath::kind(view) != FileType::Symlink {
            return None;
        }
        match self.link_target(tree, m, &difference.rel) {
            Ok(target) => self.link_refusal(tree, m, &difference.rel, &target.text),
            Err(_) => Some(LinkRefusal::Outside),
        }
    }

    /// Checks whether the folder's entry has changed since the guest first changed it.
    fn is_stale(&self, tree: &Tree, m: usize, difference: &Difference) -> bool {
        let now = difference.lower.as_ref().map(LowerStamp::of);
        let removes_folder =
            difference.view.is_none() && Difference::is_folder(difference.lower.as_ref());
        // The guest cannot have seen a name that is not valid UTF-8: it appeared later.
        let listing = || {
            self.lower(m)
                .and_then(|lower| beneath::list(lower, &difference.rel))
                .unwrap_or_default()
        };
        let unseen = || listing().iter().any(|(n, _)| n.to_str().is_err());
        tree.overlay(m).stamps.get(&difference.rel) != Some(&now) || (removes_folder && unseen())
    }

    fn remove_entry(&self, m: usize, difference: &Difference) -> Result<(), Errno> {
        let (parent, name) = beneath::parent(self.lower(m)?, &difference.rel)?;
        check_unchanged(&parent, name, difference.lower.as_ref())?;
        let folder = Difference::is_folder(difference.lower.as_ref());
        fs::unlinkat(&parent, name, if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() })
    }

    fn write_entry(&self, tree: &Tree, m: usize, difference: &Difference) -> Result<(), Errno> {
        let Difference { rel, lower, view } = difference;
        let Some(view) = view else { return Ok(()) };
        let (parent, name) = beneath::parent(self.lower(m)?, rel)?;
        if beneath::kind(view) == FileType::Directory {
            return fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777));
        }
        // An entry of another kind has been removed already.
        let replaced = lower.as_ref().filter(|_| !difference.changes_kind());
        if beneath::kind(view) == FileType::Symlink {
            let target = self.link_target(tree, m, rel)?.text;
            if self.link_refusal(tree, m, rel, &target).is_some() {
                return Err(Errno::PERM);
            }
            let check = |parent: &beneath::Parent<'_>| check_unchanged(parent, name, replaced);
            return match replaced {
                Some(_) => replace_by_link(&parent, name, &target, view.st_ino, check),
                None => match fs::symlinkat(&target, &parent, name) {
                    Err(Errno::EXIST) => Err(Errno::BUSY),
                    done => done,
                },
            };
        }
        let from =
            beneath::open(self.storage(tree, m, rel)?, rel, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let temporary = format!(".skillhost-{}-{:x}", std::process::id(), view.st_ino);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mode = Mode::from_raw_mode(replaced.unwrap_or(view).st_mode & 0o777);
        let placed = copy(&from, &to, beneath::size(view))
            .and_then(|()| fs::fchmod(&to, mode))
            .and_then(|()| check_unchanged(&parent, name, replaced))
            .and_then(|()| match replaced {
                Some(_) => fs::renameat(&parent, &temporary, &parent, name),
                None => rename_new(&parent, &temporary, name),
            });
        placed.inspect_err(|_| {
            // Best effort: the first error is the one to report.
            let _ = fs::unlinkat(&parent, &temporary, AtFlags::empty());
        })
    }
}

/// Orders the steps: first removes entries that something of another kind replaces, with everything
/// below them; then creates folders and files, parents first; then removes the rest, children
/// first.
fn order(plan: &[(usize, Difference)]) -> Vec<(usize, Step)> {
    let removes = |d: &Difference| d.view.is_none() || d.changes_kind();
    let replaced: Vec<(usize, &str)> =
        plan.iter().filter(|(_, d)| d.changes_kind()).map(|(m, d)| (*m, d.rel.as_str())).collect();
    let is_below = |rel: &str, top: &str| {
        rel.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_replaced =
        |m: usize, rel: &str| replaced.iter().any(|(n, top)| *n == m && is_below(rel, top));
    let (first, last): (Vec<_>, Vec<_>) = plan
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, (_, d))| removes(d))
        .partition(|(_, (m, d))| is_replaced(*m, &d.rel));
    let makes = plan.iter().enumerate().filter(|(_, (_, d))| d.view.is_some());
    let step = |step: Step| move |(at, _): (usize, _)| (at, step);
    first
        .into_iter()
        .map(step(Step::Remove))
        .chain(makes.map(step(Step::Make)))
        .chain(last.into_iter().map(step(Step::Remove)))
        .collect()
}

/// Fails with `BUSY` if an entry has changed since it was compared.
fn check_unchanged(
    parent: &beneath::Parent<'_>,
    name: &str,
    expected: Option<&Stat>,
) -> Result<(), Errno> {
    let now = match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(LowerStamp::of(&stat)),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    if now == expected.map(LowerStamp::of) { Ok(()) } else { Err(Errno::BUSY) }
}

/// Renames to a name that is not taken, without overwriting.
fn rename_new(parent: &beneath::Parent<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        // The file system does not support NOREPLACE; `check_unchanged` found the name free a
        // moment ago.
        Err(Errno::INVAL | Errno::NOSYS) => fs::renameat(parent, from, parent, to),
        done => done,
    }
}
