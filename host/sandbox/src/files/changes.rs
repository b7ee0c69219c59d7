//! Computes how the overlays of a run differ from the folders below them.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::overlay::Tree;
use super::{Vfs, beneath};
use skillhost_policy::outcome::{Change, ChangeKind};

/// A path at which the guest's view differs from the folder.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) rel: String,
    /// The folder's entry.
    pub(super) lower: Option<Stat>,
    /// The entry in the guest's view.
    pub(super) view: Option<Stat>,
}

impl Difference {
    pub(super) fn kind(&self) -> ChangeKind {
        match (&self.lower, &self.view) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        }
    }

    /// Checks whether an entry of another kind takes its place; then the old one must be removed
    /// first.
    pub(super) fn changes_kind(&self) -> bool {
        matches!((&self.lower, &self.view), (Some(lower), Some(view)) if beneath::kind(lower) != beneath::kind(view))
    }

    pub(super) fn is_folder(stat: Option<&Stat>) -> bool {
        stat.is_some_and(|stat| beneath::kind(stat) == FileType::Directory)
    }
}

impl Vfs {
    /// Returns how the overlays currently differ from the folders below them, sorted by path. Only
    /// contents count: rewriting a file with the same bytes is not a change, and neither is a new
    /// time. Folders end in a slash. With more than one overlay, paths are guest paths.
    pub fn changes(&self) -> Vec<Change> {
        let tree = self.tree();
        let mut changes = Vec::new();
        for m in self.overlays() {
            changes.extend(self.differences(&tree, m).iter().map(|difference| Change {
                path: self.label(m, difference),
                kind: difference.kind(),
            }));
        }
        changes.sort();
        changes
    }

    /// Returns the mounts that are overlays. That of a session belongs to the session, and not to one
    /// of its runs.
    pub(super) fn overlays(&self) -> Vec<usize> {
        (0..self.mounts.len()).filter(|m| self.is_overlay(*m) && !self.is_anothers(*m)).collect()
    }

    /// Returns a changed path as outcomes show it.
    pub(super) fn label(&self, m: usize, difference: &Difference) -> String {
        let rel = &difference.rel;
        let path =
            if self.overlays().len() > 1 { self.mounts[m].guest_path(rel) } else { rel.clone() };
        let folder = Difference::is_folder(difference.view.as_ref().or(difference.lower.as_ref()));
        if folder { path + "/" } else { path }
    }

    /// Returns the differences of one overlay, sorted by path.
    pub(super) fn differences(&self, tree: &Tree, m: usize) -> Vec<Difference> {
        let overlay = tree.overlay(m);
        let mut paths: BTreeSet<String> =
            overlay.upper.keys().chain(&overlay.whiteouts).cloned().collect();
        for removed in &overlay.whiteouts {
            self.add_lower(m, removed, &mut paths);
        }
        let found = paths.into_iter().map(|rel| Difference {
            lower: self.lower_stat(m, &rel),
            view: self.lstat(tree, m, &rel).ok(),
            rel,
        });
        found.filter(|difference| self.is_difference(tree, m, difference)).collect()
    }

    /// Adds the folder's entries below a removed path.
    fn add_lower(&self, m: usize, rel: &str, paths: &mut BTreeSet<String>) {
        for (name, kind) in
            self.lower(m).and_then(|lower| beneath::list(lower, rel)).unwrap_or_default()
        {
            let Ok(name) = name.into_string() else { continue };
            let rel = beneath::join(rel, &name);
            if kind == FileType::Directory {
                self.add_lower(m, &rel, paths);
            }
            paths.insert(rel);
        }
    }

    fn is_difference(&self, tree: &Tree, m: usize, difference: &Difference) -> bool {
        let (lower, view) = match (&difference.lower, &difference.view) {
            (None, None) => return false,
            (Some(lower), Some(view)) => (lower, view),
            _ => return true,
        };
        match (beneath::kind(lower), beneath::kind(view)) {
            (FileType::Directory, FileType::Directory) => false,
            (FileType::RegularFile, FileType::RegularFile) => {
                // Files that cannot be compared are reported as changed.
                lower.st_size != view.st_size
                    || !self.same_bytes(tree, m, &difference.rel).unwrap_or(false)
            }
            (FileType::Symlink, FileType::Symlink) => {
                let (lower, view) = self.targets(tree, m, &difference.rel);
                lower.is_none() || lower != view
            }
            _ => true,
        }
    }

    /// Returns the targets of the symlinks at a path in the folder and in the guest's view.
    pub(super) fn targets(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
    ) -> (Option<String>, Option<String>) {
        let lower = self.lower(m).and_then(|lower| beneath::read_link(lower, rel));
        let view = self.storage(tree, m, rel).and_then(|root| beneath::read_link(root, rel));
        (lower.ok(), view.ok())
    }

    fn same_bytes(&self, tree: &Tree, m: usize, rel: &str) -> Result<bool, Errno> {
        let mut lower = file(self.lower(m)?, rel)?;
        let mut view = file(self.storage(tree, m, rel)?, rel)?;
        let (mut a, mut b) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        loop {
            let count = fill(&mut lower, &mut a)?;
            if fill(&mut view, &mut b)? != count || a[..count] != b[..count] {
                return Ok(false);
            }
            if count == 0 {
                return Ok(true);
            }
        }
    }
}

/// Opens a file for reading only.
pub(super) fn file(root: BorrowedFd<'_>, rel: &str) -> Result<std::fs::File, Errno> {
    let fd: OwnedFd =
        beneath::open(root, rel, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    Ok(fd.into())
}

fn fill(file: &mut std::fs::File, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut count = 0;
    while count < buffer.len() {
        match file.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(n) => count += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
        }
    }
    Ok(count)
}
