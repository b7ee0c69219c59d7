//! Host folders that guests cannot reach, or cannot write, identified by device and inode: a bind
//! mount, a renamed parent or another name of a mount's folder does not bypass them. Also detects
//! mounts that ignore the case of names.
//!
//! Every path to a guarded folder passes through that folder, so each folder on the way is checked
//! when a run first uses it, and the result is cached. Mounts on a device without guarded folders
//! are not checked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, OFlags, Stat};
use rustix::io::Errno;

use super::mount::{GuardedPaths, OpenMount, Rules};
use super::rules::Attempt;
use super::{Vfs, beneath, lock};

/// Folders cached per mount; a full cache is cleared.
const FOLDERS_MAX: usize = 4_096;

/// What may be done with an entry, whatever the rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Nothing: it belongs to the host.
    Hidden,
    /// Reading only: skills run from it.
    ReadOnly,
    /// Anything that the rules allow.
    Open,
}

/// The guarded folders and files, and what is known about each mount.
#[derive(Debug, Default)]
pub(super) struct Guard {
    places: Vec<(Identity, Reach)>,
    mounts: Vec<Option<MountGuard>>,
}

type Identity = (u64, u64);

/// What is known about a mount's folders.
#[derive(Debug)]
pub(super) struct MountGuard {
    /// The reach of the mount's own folder, given the folders above it.
    top: Reach,
    /// Whether individual folders may be case-insensitive.
    may_fold: bool,
    /// Whether names are case-insensitive.
    folds: AtomicBool,
    known: Mutex<HashMap<String, Reach>>,
}

impl Guard {
    pub(super) fn new(mounts: &[OpenMount], guarded: &GuardedPaths) -> Guard {
        let is_granted = |mount: &&OpenMount| matches!(mount.rules, Rules::Granted(_));
        if !mounts.iter().any(|mount| is_granted(&mount)) {
            return Guard::default();
        }
        let identify = |paths: &[PathBuf], reach| {
            paths.iter().filter_map(|path| Some((identity(path)?, reach))).collect::<Vec<_>>()
        };
        let places = [
            identify(&guarded.hidden, Reach::Hidden),
            identify(&guarded.read_only, Reach::ReadOnly),
        ]
        .concat();
        let mounts = mounts.iter().map(|mount| MountGuard::new(mount, &places)).collect();
        Guard { places, mounts }
    }

    fn of(&self, m: usize) -> Option<&MountGuard> {
        self.mounts.get(m)?.as_ref()
    }

    fn reach(&self, stat: &Stat) -> Reach {
        reach_of(&self.places, (stat.st_dev, stat.st_ino))
    }
}

impl MountGuard {
    fn new(mount: &OpenMount, places: &[(Identity, Reach)]) -> Option<MountGuard> {
        let Rules::Granted(granted) = &mount.rules else { return None };
        let folder = mount.host_dir.folder().ok()?;
        let (stat, disk) = (fs::fstat(folder).ok()?, fs::fstatfs(folder).ok()?);
        // A btrfs subvolume has its own device number without being a mount.
        let kind = disk.f_type as u64 & 0xffff_ffff;
        let guards = kind == BTRFS || places.iter().any(|((device, _), _)| *device == stat.st_dev);
        let real = granted.host.canonicalize().unwrap_or_default();
        let above = |_| real.ancestors().filter_map(identity).map(|id| reach_of(places, id)).min();
        let top = reach_of(places, (stat.st_dev, stat.st_ino))
            .min(guards.then_some(()).and_then(above).unwrap_or(Reach::Open));
        let may_fold = FOLDS_SOME.contains(&kind);
        let folds = FOLDS_ALL.contains(&kind) || may_fold && is_case_insensitive(folder, ".");
        let watch =
            MountGuard { top, may_fold, folds: AtomicBool::new(folds), known: Mutex::default() };
        (guards || may_fold || folds).then_some(watch)
    }
}

impl Vfs {
    /// Returns the reach of a canonical path. `stat` is the entry there, in the folder below an
    /// overlay.
    pub(super) fn reach(&self, m: usize, rel: &str, stat: Option<&Stat>) -> Reach {
        let Some(watch) = self.guard.of(m) else { return Reach::Open };
        let mut reach = watch.top;
        for folder in beneath::ancestors(rel) {
            reach = reach.min(self.reach_of_folder(m, watch, folder));
            if reach == Reach::Hidden {
                return reach;
            }
        }
        match stat {
            Some(stat) if !rel.is_empty() && beneath::kind(stat) == fs::FileType::Directory => {
                reach.min(self.reach_of_folder(m, watch, rel))
            }
            Some(stat) => reach.min(self.guard.reach(stat)),
            None => reach,
        }
    }

    fn reach_of_folder(&self, m: usize, watch: &MountGuard, rel: &str) -> Reach {
        if let Some(known) = lock(&watch.known).get(rel) {
            return *known;
        }
        // An entry that exists only in the overlay belongs to the run.
        let Ok(lower) = self.lower(m) else { return Reach::Open };
        let Ok(stat) = beneath::stat(lower, rel) else { return Reach::Open };
        let reach = self.guard.reach(&stat);
        if beneath::kind(&stat) == fs::FileType::Directory {
            if watch.may_fold
                && self.has_denials()
                && !self.folds_case(m)
                && is_case_insensitive(lower, rel)
            {
                watch.folds.store(true, Ordering::Relaxed);
                self.forget_decisions(m);
            }
            let mut known = lock(&watch.known);
            if known.len() >= FOLDERS_MAX {
                known.clear();
            }
            known.insert(rel.to_owned(), reach);
        }
        reach
    }

    /// Refuses to change guarded entries.
    pub(super) fn check_reach(&self, m: usize, rel: &str, attempt: Attempt) -> Result<(), Errno> {
        if self.guard.of(m).is_none() {
            return Ok(());
        }
        match self.reach(m, rel, self.lower_stat(m, rel).as_ref()) {
            Reach::Open => Ok(()),
            reach => {
                self.refuse_reach(m, rel, attempt, reach);
                Err(if reach == Reach::Hidden && attempt == Attempt::Change {
                    Errno::NOENT
                } else {
                    Errno::ACCESS
                })
            }
        }
    }

    pub(super) fn refuse_reach(&self, m: usize, rel: &str, attempt: Attempt, reach: Reach) {
        let rule = if reach == Reach::Hidden {
            "it belongs to skillhost itself, and no grant can include it"
        } else {
            "skills run from this folder, so guests cannot write to it"
        };
        self.refuse_kind(m, rel, attempt, rule);
    }

    /// Clears the cached folders of a mount, after one of them was renamed.
    pub(super) fn forget_folders(&self, m: usize) {
        if let Some(watch) = self.guard.of(m) {
            lock(&watch.known).clear();
        }
    }

    /// Checks whether names in a mount are case-insensitive.
    pub(super) fn folds_case(&self, m: usize) -> bool {
        self.guard.of(m).is_some_and(|watch| watch.folds.load(Ordering::Relaxed))
    }

    /// Treats the mount as case-insensitive.
    #[cfg(test)]
    pub(super) fn fold_case(&self, m: usize) {
        self.guard.of(m).unwrap().folds.store(true, Ordering::Relaxed);
    }
}

fn identity(path: impl AsRef<Path>) -> Option<Identity> {
    fs::stat(path.as_ref()).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

fn reach_of(places: &[(Identity, Reach)], id: Identity) -> Reach {
    places
        .iter()
        .filter(|(place, _)| *place == id)
        .map(|(_, reach)| *reach)
        .min()
        .unwrap_or(Reach::Open)
}

/// Checks whether a folder has the case-insensitivity attribute.
fn is_case_insensitive(root: std::os::fd::BorrowedFd<'_>, rel: &str) -> bool {
    const CASEFOLD: u32 = 0x4000_0000;
    let rel = if rel == "." { "" } else { rel };
    let folder = beneath::open(root, rel, OFlags::RDONLY | OFlags::DIRECTORY);
    folder.and_then(fs::ioctl_getflags).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

const BTRFS: u64 = 0x9123_683e;

/// File systems in which each folder may be case-insensitive: ext4, f2fs, tmpfs, bcachefs.
const FOLDS_SOME: [u64; 4] = [0xef53, 0xf2f5_2010, 0x0102_1994, 0xca45_1a4e];

/// File systems that are case-insensitive, or may be without saying so: FAT, exFAT, NTFS, CIFS and
/// SMB, HFS and HFS+, shared folders of virtual machines, 9P and FUSE. Denials that match too much
/// are safe.
const FOLDS_ALL: [u64; 13] = [
    0x4d44,
    0x2011_bab0,
    0x5346_544e,
    0x7366_746e,
    0xff53_4d42,
    0xfe53_4d42,
    0x517b,
    0x4244,
    0x482b,
    0x786f_4256,
    0x0102_1997,
    0x6573_5546,
    0xbacb_acbc,
];

/// File systems that expose the kernel: writing to them changes the machine, and reading shows
/// processes and their memory.
const KERNEL: [(u64, &str); 18] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0xcafe_4a11, "bpf"),
    (0x1cd1, "devpts"),
    (0x6165_676c, "pstore"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x6e73_6673, "nsfs"),
    (0x1980_0202, "mqueue"),
];

/// Returns the name of the kernel file system that a folder is in, if it is in one.
pub(super) fn kernel_file_system(
    folder: impl std::os::fd::AsFd,
) -> Result<Option<&'static str>, Errno> {
    let kind = fs::fstatfs(folder)?.f_type as u64 & 0xffff_ffff;
    Ok(KERNEL.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

/// Returns the ID of the mount that a folder is in, or its device if the kernel does not report
/// one.
pub(super) fn mount_id(folder: impl std::os::fd::AsFd) -> Result<u64, Errno> {
    let flags = fs::StatxFlags::MNT_ID;
    match fs::statx(&folder, "", fs::AtFlags::EMPTY_PATH, flags) {
        Ok(stat) if stat.stx_mask & flags.bits() != 0 => Ok(stat.stx_mnt_id),
        _ => Ok(fs::fstat(&folder)?.st_dev),
    }
}
