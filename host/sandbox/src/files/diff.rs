//! The changes of an overlay as a unified diff.

use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Stat};

use super::changes::{Difference, file};
use super::{Vfs, beneath, lock};
use skillhost_policy::outcome::ChangeKind;
use skillhost_policy::protected::{self, RUN_BY_HOST_MARK};

/// Bytes of a file that is compared line by line; of a larger one the sizes are told.
const FILE_MAX: u64 = 1 << 20;

/// Bytes of a whole diff; what follows is left out, and counted.
const DIFF_MAX: usize = 4 << 20;

/// Time spent on one file for a smaller diff; then it may be larger than it need be.
const FILE_TIME: Duration = Duration::from_millis(500);

/// Time spent on comparing the files of a whole diff; those that are left are named only. The guest
/// chooses what this costs, and its deadline is over by then.
const DIFF_TIME: Duration = Duration::from_secs(1);

impl Vfs {
    /// What the overlays would change, as a unified diff of their text files. Binary files (not
    /// UTF-8, or with NUL bytes) and files over 1 MiB are named only, and so are those that are
    /// left after a second; the whole is cut at 4 MiB. Folders are left out: [`Vfs::changes`] lists
    /// them.
    ///
    /// The text is the guest's: a terminal must not get its control characters.
    pub fn diff(&self) -> String {
        self.diff_within(DIFF_TIME)
    }

    pub(super) fn diff_within(&self, time: Duration) -> String {
        let tree = lock(&self.tree);
        let mut out = String::new();
        let mut left_out = 0;
        let end = Instant::now() + time;
        for m in self.overlays() {
            for difference in self.differences(&tree, m) {
                if out.len() >= DIFF_MAX {
                    left_out += 1;
                    continue;
                }
                // An unreadable view is an empty one: the change is shown, if not its text.
                let Ok(lower) = self.lower(m) else { continue };
                let sides = (lower, self.storage(&tree, m, &difference.rel).unwrap_or(lower));
                out.push_str(&self.diff_of(m, &difference, sides, end));
            }
        }
        if out.len() > DIFF_MAX {
            out.truncate(out.floor_char_boundary(DIFF_MAX));
            out.push_str("\n[cut here]\n");
        }
        if left_out > 0 {
            let _ = writeln!(out, "[{left_out} more changes are left out]");
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
        return format!("{from} and {to} differ in kind\n");
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
        return format!("Files {from} and {to} differ (not compared: the diff takes too long)\n");
    }
    let (Some(before), Some(after)) =
        (text(lower, rel, old.as_ref()), text(upper, rel, new.as_ref()))
    else {
        return format!("Binary files {from} and {to} differ\n");
    };
    if before == after {
        // An empty file has no lines to show.
        return format!("--- {from}\n+++ {to}\n");
    }
    let diff = similar::TextDiff::configure()
        .timeout(FILE_TIME.min(left))
        .diff_lines(before.as_str(), after.as_str());
    diff.unified_diff().context_radius(3).header(&from, &to).to_string()
}

/// The text of a file, nothing where there is none; `None` where it is not text.
fn text(root: BorrowedFd<'_>, rel: &str, stat: Option<&Stat>) -> Option<String> {
    let Some(stat) = stat else { return Some(String::new()) };
    if beneath::kind(stat) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    file(root, rel).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// A path in a header must stay in its line.
fn printable(path: &str) -> String {
    path.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect()
}
