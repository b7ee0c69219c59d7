//! The one file layer behind WASI 0.2 and 0.3: `/skill` read-only, `/tmp` as scratch, the granted
//! folders, and `/` with all of them.
//!
//! Path rules, quota, accounts, denials and overlays live here once, for both versions of WASI: a
//! rule that held in one and not in the other would be an escape. In reading order:
//!
//! - `mount`: a host folder is opened, once; `ground`: it, or when. `beneath`: the only way into
//!   it. `root`, `skeleton`: `/`, and the devices in it.
//! - `path`: text to canonical path. `access`: what the capabilities say of one; `protect`: what
//!   makes programs of the host run code; `guard`: what is known by device and inode. `quota`,
//!   `account`: what is used up.
//! - `open`, `handle`, `metadata`, `readdir`, `change`: the operations; `times`: the file times of
//!   a deterministic run.
//! - `overlay`, `raise`: writes kept aside. `changes`, `diff`, `apply`: what becomes of them.
//! - `snapshot`: all of it by digest, for a receipt; `survey`: and by name, for a recording.
//!   `seen`: what of the grants was used. `shown`: the name that a guest was shown just now.
//! - `wasi`, `wasi_p2`, `wasi_p3`: the same operations, as two versions of WASI.
//!
//! What guests cannot do, whatever the rules: make symlinks or hard links, move symlinks, open
//! devices, FIFOs or sockets, write to a file that has another name (which may lie outside the
//! mount). Names that are not UTF-8 are left out of listings, as WASI has no way to say them.
//! Symlinks with an absolute target lead nowhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::recording::keep::Contents;
use skillhost_policy::capabilities::{PathAccess, PathRules};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{Denial, FileActivity};

mod access;
mod account;
mod apply;
mod beneath;
mod change;
mod changes;
mod diff;
mod guard;
mod handle;
mod host_dir;
mod metadata;
mod mount;
mod open;
mod overlay;
mod path;
mod protect;
mod quota;
mod raise;
mod readdir;
mod root;
mod seen;
mod shown;
mod skeleton;
mod snapshot;
mod staged;
mod survey;
mod times;
mod wasi;
mod wasi_p2;
mod wasi_p2_streams;
mod wasi_p3;
mod wasi_p3_streams;

pub use account::FileUsage;
pub use apply::ApplyError;
pub use beneath::{holder, open_root, read_file};
pub use handle::{Handle, OpenFile, OpenFolder};
pub use host_dir::HostDir;
pub use metadata::{Metadata, NewTime};
pub use mount::{Guarded, OpenMount};
pub use open::Want;
pub use protect::is_narrower;

pub use readdir::Listing;
pub use root::Chance;
pub use skeleton::Skeleton;
pub use snapshot::{Snapshot, SnapshotError};
pub use staged::{After, Before, Staged};
pub use times::Times;
pub use wasi::{Files, FsView};
pub use wasi_p2::add_to_linker as add_p2_to_linker;
pub use wasi_p3::add_to_linker as add_p3_to_linker;

use mount::Layer;
use overlay::Tree;
use quota::Ledger;

/// The files of one invocation, shared by all its programs.
#[derive(Debug)]
pub struct Vfs {
    mounts: Vec<OpenMount>,
    decisions: access::Decisions,
    ledger: Arc<Ledger>,
    /// The books of `/state`, where it is there.
    state: Option<Arc<Ledger>>,
    /// Held by each operation on names, so that a check and what follows from it are one step for
    /// the programs of an invocation.
    tree: Mutex<Tree>,
    /// What no rule opens, by device and inode.
    guard: guard::Guard,
    /// Where guests are not shown the host's.
    times: Option<Arc<Times>>,
    /// Whether what is read is kept, or was.
    contents: Option<Arc<Contents>>,
    /// What was used of the grants.
    seen: seen::Seen,
    /// What was shown last.
    shown: Mutex<Option<shown::Shown>>,
}

impl Vfs {
    /// The files that `mounts` hold, under `rules` and `limits` (`disk`, `files`, `handles`). Guests are told the host's file times, or those that `times` has; what they
    /// read is kept, or was, as `contents` says. What is `guarded` is out of reach, wherever it
    /// appears.
    pub fn new(
        mounts: Vec<OpenMount>,
        rules: PathRules,
        limits: &Limits,
        guarded: &Guarded,
        times: Option<Times>,
        contents: Option<Arc<Contents>>,
    ) -> Arc<Vfs> {
        let ledger = Ledger::new(limits);
        let state = mounts.iter().find_map(|mount| match mount.rules {
            mount::Rules::State(size) => Some(Ledger::of_state(limits, size.bytes, size.files)),
            _ => None,
        });
        let decisions = access::Decisions::new(rules, mounts.len());
        let tree = Mutex::new(Tree::new(mounts.len()));
        let guard = guard::Guard::new(&mounts, guarded);
        let (times, seen) = (times.map(Arc::new), seen::Seen::default());
        Arc::new(Vfs {
            mounts,
            decisions,
            ledger,
            state,
            tree,
            guard,
            times,
            contents,
            seen,
            shown: Mutex::default(),
        })
    }

    /// The folders that a guest starts from, with their guest paths. A mount in which nothing is
    /// allowed is left out.
    ///
    /// # Errors
    /// `MFILE` over the limit of handles.
    pub fn preopens(&self) -> Result<Vec<(Handle, String)>, Errno> {
        let visible = (0..self.mounts.len()).filter(|m| {
            self.access(*m, "") != PathAccess::None
                && self.reach(*m, "", None) != guard::Reach::Hidden
        });
        visible.map(|m| Ok((self.folder(m, "")?, self.mounts[m].guest.clone()))).collect()
    }

    /// What was done so far.
    pub fn usage(&self) -> FileUsage {
        let main = self.ledger.usage();
        let Some(state) = self.state.as_ref().map(|ledger| ledger.usage()) else { return main };
        FileUsage {
            bytes_read: main.bytes_read + state.bytes_read,
            bytes_written: main.bytes_written + state.bytes_written,
            files_created: main.files_created + state.files_created,
            disk: main.disk,
        }
    }

    /// The guest paths that were read, written, created or removed outside `/tmp`: the first
    /// 10,000.
    pub fn touched(&self) -> BTreeMap<String, FileActivity> {
        self.ledger.touched()
    }

    /// What the rules refused, sorted, each once: the first 100.
    pub fn denials(&self) -> Vec<Denial> {
        self.decisions.denials()
    }

    /// The first error that is the host's own (its disk is full, say). The guest saw it, and may
    /// have gone on.
    pub fn failure(&self) -> Option<Errno> {
        self.ledger.failure().or_else(|| self.state.as_ref()?.failure())
    }

    /// The first limit (`disk`, `files`, `handles` or `state`) that was hit. The guest saw an
    /// error, and may have gone on.
    pub fn hit(&self) -> Option<Limit> {
        self.ledger.hit().or_else(|| self.state.as_ref()?.hit())
    }

    /// The account of a path; of `/tmp` nobody keeps any.
    fn account(&self, m: usize, rel: &str) -> Arc<account::Account> {
        match self.mounts[m].rules {
            mount::Rules::Scratch | mount::Rules::Root(_) | mount::Rules::Packages => {
                Arc::default()
            }
            _ => self.ledger.account(self.mounts[m].guest_path(rel)),
        }
    }

    /// The books that a mount's files are in.
    fn ledger_of(&self, m: usize) -> &Arc<Ledger> {
        match (&self.mounts[m].rules, &self.state) {
            (mount::Rules::State(_), Some(state)) => state,
            _ => &self.ledger,
        }
    }

    fn is_overlay(&self, m: usize) -> bool {
        matches!(self.mounts[m].layer, Layer::Overlay(_))
    }
}

/// The host's error numbers, which the operations use for their own errors too.
pub use rustix::io::Errno;

/// A poisoned lock is taken as it is: a panic in one host call must not end the others, and each
/// update is complete by itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "files/tests/support.rs"]
mod support;

#[cfg(test)]
#[path = "files/tests/rules.rs"]
mod rules_tests;

#[cfg(test)]
#[path = "files/tests/guard.rs"]
mod guard_tests;

#[cfg(test)]
#[path = "files/tests/protect.rs"]
mod protect_tests;

#[cfg(test)]
#[path = "files/tests/operations.rs"]
mod operations_tests;

#[cfg(test)]
#[path = "files/tests/overlay.rs"]
mod overlay_tests;

#[cfg(test)]
#[path = "files/tests/model.rs"]
mod model_tests;

#[cfg(test)]
#[path = "files/tests/quota.rs"]
mod quota_tests;

#[cfg(test)]
#[path = "files/tests/root.rs"]
mod root_tests;

#[cfg(test)]
#[path = "files/tests/times.rs"]
mod times_tests;

#[cfg(test)]
#[path = "files/tests/p3.rs"]
mod p3_tests;
