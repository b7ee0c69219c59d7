//! Applying an overlay to the folder under it: file by file atomically, and not at all where the
//! folder changed meanwhile.

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::access::Attempt;
use super::changes::Difference;
use super::overlay::{Seen, Tree};
use super::raise::copy;
use super::{Vfs, beneath, lock};
use skillhost_policy::capabilities::PathAccess;

/// Why an overlay was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// These paths are not what they were when the guest first changed them. Nothing was written.
    #[error("the folder changed meanwhile, so nothing was applied: {}", .0.join(", "))]
    Changed(Vec<String>),
    /// The host failed at one path; `done` of `all` changes had been made.
    #[error("{path} could not be applied, after {done} of {all} changes: {error}")]
    Host {
        /// The path, as [`Vfs::changes`] names it.
        path: String,
        /// What the host said; `BUSY` where the path changed in the last moment.
        error: Errno,
        /// Changes made.
        done: usize,
        /// Changes to make.
        all: usize,
    },
}

/// One thing to do.
#[derive(Debug, Clone, Copy)]
enum Step {
    Remove,
    Make,
}

impl Vfs {
    /// Makes the folders under the overlays what the guest sees. To be called when the guest has
    /// ended.
    ///
    /// Each file is written beside its place and renamed into it. Files keep their modes, and new
    /// ones get the usual one.
    ///
    /// # Errors
    /// Nothing was written where the folder changed since the guest changed the same paths; a
    /// failure of the host may come in the middle.
    pub fn apply(&self) -> Result<(), ApplyError> {
        let mut tree = lock(&self.tree);
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
        // What the folder has gained meanwhile may make a git repository of it, with the commands
        // that it was given here.
        let runs = |m: usize, d: &Difference| {
            let attempt = if d.lower.is_none() { Attempt::Create } else { Attempt::Change };
            d.view.is_some() && self.check_repository(&tree, m, &d.rel, attempt).is_err()
        };
        let forbidden =
            plan.iter().find(|(m, d)| self.access(*m, &d.rel) != PathAccess::Write || runs(*m, d));
        if let Some((m, difference)) = forbidden {
            let path = self.label(*m, difference);
            return Err(ApplyError::Host { path, error: Errno::ACCESS, done: 0, all: plan.len() });
        }
        let all = plan.len();
        for (done, (at, step)) in order(&plan).into_iter().enumerate() {
            let (m, difference) = &plan[at];
            let worked = match step {
                Step::Remove => self.take_away(*m, difference),
                Step::Make => self.put(&tree, *m, difference),
            };
            worked.map_err(|error| ApplyError::Host {
                path: self.label(*m, difference),
                error,
                done: done.min(all),
                all,
            })?;
        }
        for (m, difference) in &plan {
            let now = self.lower_stat(*m, &difference.rel).map(|stat| Seen::of(&stat));
            tree.overlay_mut(*m).seen.insert(difference.rel.clone(), now);
        }
        Ok(())
    }

    /// Whether the folder no longer holds at a path what it held when the guest first changed it.
    fn is_stale(&self, tree: &Tree, m: usize, difference: &Difference) -> bool {
        let now = difference.lower.as_ref().map(Seen::of);
        let removes_folder =
            difference.view.is_none() && Difference::is_folder(difference.lower.as_ref());
        // Names that are not UTF-8 cannot have been seen by the guest, so they came later.
        let listed = || {
            self.lower(m)
                .and_then(|lower| beneath::list(lower, &difference.rel))
                .unwrap_or_default()
        };
        let unseen = || listed().iter().any(|(n, _)| n.to_str().is_err());
        tree.overlay(m).seen.get(&difference.rel) != Some(&now) || (removes_folder && unseen())
    }

    fn take_away(&self, m: usize, difference: &Difference) -> Result<(), Errno> {
        let (parent, name) = beneath::parent(self.lower(m)?, &difference.rel)?;
        expect(&parent, name, difference.lower.as_ref())?;
        let folder = Difference::is_folder(difference.lower.as_ref());
        fs::unlinkat(&parent, name, if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() })
    }

    fn put(&self, tree: &Tree, m: usize, difference: &Difference) -> Result<(), Errno> {
        let Difference { rel, lower, view } = difference;
        let Some(view) = view else { return Ok(()) };
        let (parent, name) = beneath::parent(self.lower(m)?, rel)?;
        if beneath::kind(view) == FileType::Directory {
            return fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777));
        }
        // What was of another kind has been taken away.
        let replaced = lower.as_ref().filter(|_| !difference.changes_kind());
        let from =
            beneath::open(self.storage(tree, m, rel)?, rel, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let temporary = format!(".skillhost-{}-{:x}", std::process::id(), view.st_ino);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = fs::openat(&parent, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mode = Mode::from_raw_mode(replaced.unwrap_or(view).st_mode & 0o777);
        let placed = copy(&from, &to, beneath::size(view))
            .and_then(|()| fs::fchmod(&to, mode))
            .and_then(|()| expect(&parent, name, replaced))
            .and_then(|()| match replaced {
                Some(_) => fs::renameat(&parent, &temporary, &parent, name),
                None => rename_new(&parent, &temporary, name),
            });
        placed.inspect_err(|_| {
            // The error at hand says more than a second one would.
            let _ = fs::unlinkat(&parent, &temporary, AtFlags::empty());
        })
    }
}

/// What to do first: away with what something of another kind replaces, and with all below it; then
/// folders and files, parents first; then away with the rest, children first.
fn order(plan: &[(usize, Difference)]) -> Vec<(usize, Step)> {
    let removes = |d: &Difference| d.view.is_none() || d.changes_kind();
    let replaced: Vec<(usize, &str)> =
        plan.iter().filter(|(_, d)| d.changes_kind()).map(|(m, d)| (*m, d.rel.as_str())).collect();
    let is_below = |rel: &str, top: &str| {
        rel.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let makes_room =
        |m: usize, rel: &str| replaced.iter().any(|(n, top)| *n == m && is_below(rel, top));
    let (first, last): (Vec<_>, Vec<_>) = plan
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, (_, d))| removes(d))
        .partition(|(_, (m, d))| makes_room(*m, &d.rel));
    let makes = plan.iter().enumerate().filter(|(_, (_, d))| d.view.is_some());
    let step = |step: Step| move |(at, _): (usize, _)| (at, step);
    first
        .into_iter()
        .map(step(Step::Remove))
        .chain(makes.map(step(Step::Make)))
        .chain(last.into_iter().map(step(Step::Remove)))
        .collect()
}

/// Fails with `BUSY` where an entry is no longer what it was a moment ago.
fn expect(parent: &beneath::Parent<'_>, name: &str, expected: Option<&Stat>) -> Result<(), Errno> {
    let now = match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(Seen::of(&stat)),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e),
    };
    if now == expected.map(Seen::of) { Ok(()) } else { Err(Errno::BUSY) }
}

/// Renames where nothing is, and nothing may be overwritten.
fn rename_new(parent: &beneath::Parent<'_>, from: &str, to: &str) -> Result<(), Errno> {
    match fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it; what was there a moment ago has been checked.
        Err(Errno::INVAL | Errno::NOSYS) => fs::renameat(parent, from, parent, to),
        done => done,
    }
}
