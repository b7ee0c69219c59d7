//! The file layer behind WASI 0.2 and 0.3: `/skill` (read-only), `/tmp` (scratch), the granted
//! folders, and `/`, which contains them all.
//!
//! Path rules, quotas, accounts, denials and overlays exist once, for both versions of WASI: a rule
//! that held in only one of them would be an escape. In reading order:
//!
//! - `mount` opens a host folder, once; `host_dir` holds it, or opens it on first use. `beneath` is
//!   the only way into a host folder. `root` and `skeleton` provide `/` and its devices.
//! - `path` turns text into a canonical path; `links` creates symlinks and says where they may lead.
//!   `rules` applies the capabilities to it; `protect`
//!   adds rules for files that configure host programs; `guard` protects folders by device and
//!   inode. `quota` and `account` count usage.
//! - `open`, `handle`, `metadata`, `readdir` and `edit` are the operations; `times` provides the
//!   file times of a deterministic run, and `modes` keeps permission bits.
//! - `shared` has the files of a session, which its runs share, and `watch` announces their changes.
//!   `replace` writes one of them for a client, in one step.
//! - `overlay` and `copy_up` redirect writes. `changes`, `diff`, `staged` and `apply` report the
//!   result and apply it.
//! - `snapshot` digests everything a guest can see, for a receipt; `survey` lists it by name, for a
//!   recording. `uses` records which parts of the grants were used. `last_lookup` caches the most
//!   recent lookup.
//! - `wasi`, `wasi_p2` and `wasi_p3` expose the same operations through both versions of WASI.
//!
//! No rule lets a guest create hard links, open devices, FIFOs or sockets, or write to a file with
//! several names (another name may lie outside the mount). Listings omit names that are not valid
//! UTF-8, which WASI cannot express. Symlinks in folders of the host cannot be followed out of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::recording::blobs::Contents;
use skillhost_policy::capabilities::{PathAccess, PathRules};
use skillhost_policy::limits::{Limit, Limits};
use skillhost_policy::outcome::{Denial, FileActivity};

mod account;
mod apply;
mod beneath;
mod changes;
mod copy_up;
mod diff;
mod edit;
mod guard;
mod handle;
mod host_dir;
mod last_lookup;
mod links;
mod metadata;
mod modes;
mod mount;
mod open;
mod overlay;
mod path;
mod protect;
mod quota;
mod readdir;
mod replace;
mod root;
mod rules;
mod shared;
mod skeleton;
mod snapshot;
mod staged;
mod survey;
mod times;
mod uses;
mod wasi;
mod wasi_p2;
mod wasi_p2_streams;
mod wasi_p3;
mod wasi_p3_streams;
mod watch;

pub use account::FileUsage;
pub use apply::ApplyError;
pub(crate) use beneath::has_openat2;
pub use beneath::{open_parent, open_root, read_file};
pub use handle::{Handle, OpenFile, OpenFolder};
pub use host_dir::HostDir;
pub use links::{LinkRefusal, stays_inside};
pub use metadata::{Metadata, NewTime};
pub use modes::add_to_linker as add_modes_to_linker;
pub use mount::{GuardedPaths, OpenMount};
pub use open::OpenOptions;
pub use protect::may_narrow_to;

pub use readdir::Listing;
pub use root::RandomSource;
pub use shared::{SessionFolders, SharedFiles};
pub use skeleton::Skeleton;
pub use snapshot::{Snapshot, SnapshotError, package_digests};
pub use staged::{NewEntry, OldEntry, StagedChange};
pub use times::Times;
pub use wasi::{Files, FsView};
pub use wasi_p2::add_to_linker as add_p2_to_linker;
pub use wasi_p3::add_to_linker as add_p3_to_linker;
pub use watch::{ChangeLog, LoggedChange, LoggedChanges};

use mount::Layer;
use overlay::Tree;
use quota::Quota;

/// The files of one invocation, shared by all its programs.
#[derive(Debug)]
pub struct Vfs {
    mounts: Vec<OpenMount>,
    decisions: rules::Decisions,
    quota: Arc<Quota>,
    /// The quota of `/state`, if the run has one.
    state: Option<Arc<Quota>>,
    /// The quota of `/tmp`, if it has one of its own.
    tmp: Option<Arc<Quota>>,
    /// Locked by each operation on names, which makes a check and the action that follows it atomic
    /// for the programs of one invocation.
    tree: Mutex<Tree>,
    /// Folders that no rule opens, by device and inode.
    guard: guard::Guard,
    /// Permission bits that guests set.
    modes: Arc<modes::Modes>,
    /// File times of a deterministic run; `None` shows guests the host's times.
    times: Option<Arc<Times>>,
    /// Records file contents as they are read, or supplies recorded ones.
    contents: Option<Arc<Contents>>,
    /// Which parts of the grants were used.
    uses: uses::PathUses,
    /// The most recent lookup.
    last_lookup: Mutex<Option<last_lookup::LastLookup>>,
    /// What this run shares with the other runs of its session.
    shared: Option<shared::Share>,
    /// The last path in `/skill` that a guest could not open because nothing is there.
    missing: Mutex<Option<String>>,
}

impl Vfs {
    /// Creates the file layer over `mounts`, under `rules` and `limits` (`disk`, `files`,
    /// `handles`, `state`, `tmp`). Guests see the host's file times unless `times` is given.
    /// `contents` records or replays what they read. Guarded paths are out of reach under every name
    /// and mount.
    pub fn new(
        mounts: Vec<OpenMount>,
        rules: PathRules,
        limits: &Limits,
        guarded: &GuardedPaths,
        times: Option<Times>,
        contents: Option<Arc<Contents>>,
    ) -> Arc<Vfs> {
        Vfs::sharing(None, mounts, rules, limits, guarded, times, contents)
    }

    /// As [`Vfs::new`], for a run that shares files with others.
    fn sharing(
        shared: Option<shared::Share>,
        mounts: Vec<OpenMount>,
        rules: PathRules,
        limits: &Limits,
        guarded: &GuardedPaths,
        times: Option<Times>,
        contents: Option<Arc<Contents>>,
    ) -> Arc<Vfs> {
        let quota = Quota::new(limits);
        let state = mounts.iter().find_map(|mount| match mount.rules {
            mount::Rules::State(size) => Some(Quota::for_state(limits, size.bytes, size.files)),
            _ => None,
        });
        let tmp = limits.tmp.map(|bytes| Quota::for_tmp(limits, bytes));
        let decisions = rules::Decisions::new(rules, mounts.len());
        let tree = Mutex::new(Tree::new(mounts.len()));
        let guard = guard::Guard::new(&mounts, guarded);
        let (times, uses) = (times.map(Arc::new), uses::PathUses::default());
        Arc::new(Vfs {
            mounts,
            decisions,
            quota,
            state,
            tmp,
            tree,
            guard,
            modes: shared.as_ref().map(shared::Share::modes).unwrap_or_default(),
            times,
            contents,
            uses,
            last_lookup: Mutex::default(),
            shared,
            missing: Mutex::default(),
        })
    }

    /// Returns the folders that a guest starts from, with their guest paths. Omits mounts in which
    /// nothing is allowed.
    ///
    /// # Errors
    /// `MFILE` at the limit of open handles.
    pub fn preopens(&self) -> Result<Vec<(Handle, String)>, Errno> {
        let visible = (0..self.mounts.len()).filter(|m| {
            self.access(*m, "") != PathAccess::None
                && self.reach(*m, "", None) != guard::Reach::Hidden
        });
        visible.map(|m| Ok((self.folder(m, "")?, self.mounts[m].guest.clone()))).collect()
    }

    /// Returns the usage so far.
    pub fn usage(&self) -> FileUsage {
        let main = self.quota.usage();
        self.own_quotas().map(Quota::usage).fold(main, |sum, own| FileUsage {
            bytes_read: sum.bytes_read + own.bytes_read,
            bytes_written: sum.bytes_written + own.bytes_written,
            files_created: sum.files_created + own.files_created,
            disk: main.disk,
        })
    }

    /// Returns the quotas of mounts that do not count towards `disk`.
    fn own_quotas(&self) -> impl Iterator<Item = &Quota> {
        let shared = self.shared.as_ref().map(|shared| &*shared.quota);
        [&self.state, &self.tmp].into_iter().flatten().map(|quota| &**quota).chain(shared)
    }

    /// Returns the guest paths that were read, written, created or removed outside `/tmp`: the
    /// first 10,000.
    pub fn touched(&self) -> BTreeMap<String, FileActivity> {
        self.quota.touched()
    }

    /// Returns the distinct denials, sorted: the first 100.
    pub fn denials(&self) -> Vec<Denial> {
        self.decisions.denials()
    }

    /// Returns the first error that the host caused, such as a full disk. The guest received it and
    /// may have continued.
    pub fn failure(&self) -> Option<Errno> {
        self.quota.failure().or_else(|| self.own_quotas().find_map(Quota::failure))
    }

    /// Returns the first limit (`disk`, `files`, `handles`, `state` or `tmp`) that was hit. The
    /// guest received an error and may have continued.
    pub fn hit(&self) -> Option<Limit> {
        self.quota.hit().or_else(|| self.own_quotas().find_map(Quota::hit))
    }

    /// Returns the last file that a guest did not find in `/skill`, relative to it. The path has no
    /// `..` and at most 255 bytes. Without a workspace, guests start in `/skill`, so this may be a
    /// file that the operator expected in the workspace.
    pub fn missing(&self) -> Option<String> {
        lock(&self.missing).clone()
    }

    /// Returns the account of a path. `/tmp`, `/` and packages are not accounted for: their account
    /// is discarded.
    fn account(&self, m: usize, rel: &str) -> Arc<account::Account> {
        match self.mounts[m].rules {
            mount::Rules::Scratch | mount::Rules::Root(_) | mount::Rules::Packages => {
                Arc::default()
            }
            _ => self.quota.account(self.mounts[m].guest_path(rel)),
        }
    }

    /// Returns the quota that a mount's files count towards.
    fn quota_of(&self, m: usize) -> &Arc<Quota> {
        if let Some(shared) = self.shared.as_ref().filter(|shared| shared.has(m)) {
            return &shared.quota;
        }
        let own = match self.mounts[m].rules {
            mount::Rules::State(_) => &self.state,
            mount::Rules::Scratch => &self.tmp,
            _ => &None,
        };
        own.as_ref().unwrap_or(&self.quota)
    }

    fn is_overlay(&self, m: usize) -> bool {
        matches!(self.mounts[m].layer, Layer::Overlay(_))
    }
}

/// The host's error numbers, which the operations use for their own errors as well.
pub use rustix::io::Errno;

/// Locks a mutex, ignoring poison: a panic in one host call must not end the others, and each
/// update leaves the value consistent.
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
#[path = "files/tests/links.rs"]
mod links_tests;

#[cfg(test)]
#[path = "files/tests/model.rs"]
mod model_tests;

#[cfg(test)]
#[path = "files/tests/modes.rs"]
mod modes_tests;

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
