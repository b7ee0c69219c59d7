//! Formats the changes of an overlay as a unified diff.

use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Stat};

use super::changes::{Difference, file};
use super::links::LinkTarget;
use super::overlay::Tree;
use super::{Vfs, beneath};
use skillhost_policy::outcome::ChangeKind;
use skillhost_policy::protected::{self, RUN_BY_HOST_MARK};

/// The largest file that is compared line by line, in bytes; a larger one is reported by size.
const FILE_MAX: u64 = 1 << 20;

/// The most bytes of a whole diff; further changes are omitted and counted.
const DIFF_MAX: usize = 4 << 20;

/// Time for the smallest diff of one file; after that, the diff may be larger than necessary.
const FILE_TIME: Duration = Duration::from_millis(500);

/// Time for comparing the files and checking the symlinks of a whole diff; the rest are only named.
/// The guest chooses how much work this is, and its deadline no longer applies. Hence the crate
/// `similar`, which stops at a deadline.
const DIFF_TIME: Duration = Duration::from_secs(1);

impl Vfs {
    /// Returns the changes of the overlays as a unified diff of their text files. Binary files (not
    /// UTF-8, or with NUL bytes) and files over 1 MiB are only named, and so are all files after
    /// one second; the whole is truncated at 4 MiB. Folders are omitted: [`Vfs::changes`] lists
    /// them.
    ///
    /// The text comes from the guest: its control characters must not reach a terminal.
    pub fn diff(&self) -> String {
        self.diff_within(DIFF_TIME)
    }

    pub(super) fn diff_within(&self, time: Duration) -> String {
        let tree = self.tree();
        let mut out = String::new();
        let mut omitted = 0;
        let end = Instant::now() + time;
        for m in self.overlays() {
            for difference in self.differences(&tree, m) {
                if out.len() >= DIFF_MAX {
                    omitted += 1;
                    continue;
                }
                // An unreadable file counts as empty: the change is reported, if not its text.
                let Ok(lower) = self.lower(m) else { continue };
                let sides = (lower, self.storage(&tree, m, &difference.rel).unwrap_or(lower));
                out.push_str(&self.diff_of(m, &difference, sides, end));
                out.push_str(&self.diff_of_links(&tree, m, &difference, end));
            }
        }
        if out.len() > DIFF_MAX {
            out.truncate(out.floor_char_boundary(DIFF_MAX));
            out.push_str("\n[truncated]\n");
        }
        if omitted > 0 {
            let _ = writeln!(out, "[{omitted} more changes omitted]");
        }
        out
    }

    /// Describes the symlinks of a change, and why the new one will not be written.
    fn diff_of_links(
        &self,
        tree: &Tree,
        m: usize,
        difference: &Difference,
        end: Instant,
    ) -> String {
        let is_link = |stat: &Option<Stat>| {
            stat.as_ref().is_some_and(|stat| beneath::kind(stat) == FileType::Symlink)
        };
        let name = printable(&self.label(m, difference));
        let (old, new) = self.targets(tree, m, &difference.rel);
        let mut out = String::new();
        if is_link(&difference.lower) {
            // The target may be a path of the host.
            let is_guest_path = self.has_guest_links(m);
            let old = old.map(|text| LinkTarget { text, is_guest_path });
            let shown = old.filter(|old| old.is_visible(&difference.rel));
            let target = shown.map_or("(outside)".to_owned(), |target| printable(&target.text));
            let _ = writeln!(out, "-symlink a/{name} -> {target}");
        }
        if is_link(&difference.view) {
            let target = printable(&new.unwrap_or_default());
            let _ = writeln!(out, "+symlink b/{name} -> {target}");
            // The guest chooses how many symlinks there are, and how many names each leads through.
            if Instant::now() >= end {
                out.push_str("[not checked: the diff timed out]\n");
            } else if let Some(refusal) = self.refused_link(tree, m, difference) {
                let _ = writeln!(
                    out,
                    "[this symlink prevents all changes from being applied: {refusal}]"
                );
            }
        }
        out
    }

    fn diff_of(
        &self,
        m: usize,
        difference: &Difference,
        sides: (BorrowedFd<'_>, BorrowedFd<'_>),
        end: Instant,
    ) -> String {
        let Difference { rel, lower: old, view: new } = difference;
        let only_folders =
            [old, new].into_iter().flatten().all(|stat| beneath::kind(stat) == FileType::Directory);
        if only_folders {
            return String::new();
        }
        let name = printable(&self.label(m, difference));
        let mark = if protected::is_run_by_host(rel) {
            format!("{name} {RUN_BY_HOST_MARK}\n")
        } else {
            String::new()
        };
        mark + &diff_of_file(difference, &name, sides, end)
    }
}

fn diff_of_file(
    difference: &Difference,
    name: &str,
    (lower, upper): (BorrowedFd<'_>, BorrowedFd<'_>),
    end: Instant,
) -> String {
    let Difference { rel, lower: old, view: new } = difference;
    let (from, to) = match difference.kind() {
        ChangeKind::Added => ("/dev/null".to_owned(), format!("b/{name}")),
        ChangeKind::Changed => (format!("a/{name}"), format!("b/{name}")),
        ChangeKind::Removed => (format!("a/{name}"), "/dev/null".to_owned()),
    };
    if difference.changes_kind() {
        return format!("{from} and {to} have different file types\n");
    }
    if [old, new].into_iter().flatten().any(|stat| beneath::kind(stat) == FileType::Symlink) {
        return format!("--- {from}\n+++ {to}\n");
    }
    let size = |stat: &Option<Stat>| stat.as_ref().map_or(0, beneath::size);
    if size(old).max(size(new)) > FILE_MAX {
        return format!(
            "Large files {from} and {to} differ ({} and {} bytes)\n",
            size(old),
            size(new)
        );
    }
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return format!("Files {from} and {to} differ (not compared: the diff timed out)\n");
    }
    let (Some(before), Some(after)) =
        (text(lower, rel, old.as_ref()), text(upper, rel, new.as_ref()))
    else {
        return format!("Binary files {from} and {to} differ\n");
    };
    if before == after {
        // Empty files have no lines to show.
        return format!("--- {from}\n+++ {to}\n");
    }
    let diff = similar::TextDiff::configure()
        .timeout(FILE_TIME.min(left))
        .diff_lines(before.as_str(), after.as_str());
    diff.unified_diff().context_radius(3).header(&from, &to).to_string()
}

/// Reads the text of a file, or an empty one if it does not exist; returns `None` if it is not
/// text.
fn text(root: BorrowedFd<'_>, rel: &str, stat: Option<&Stat>) -> Option<String> {
    let Some(stat) = stat else { return Some(String::new()) };
    if beneath::kind(stat) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    file(root, rel).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Escapes control characters: a path in a header must stay on its line.
fn printable(path: &str) -> String {
    path.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}
