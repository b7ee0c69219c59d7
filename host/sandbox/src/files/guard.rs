//! Host folders that guests do not reach, or do not write, by device and inode: a bind mount, a
//! renamed parent or another name of a mount's folder changes nothing. And whether names in a mount
//! differ by case.
//!
//! A path leads to a guarded folder only through that folder, so every folder on the way down is
//! looked at when a run first touches it, and remembered. Nothing is looked at where no guarded
//! folder can be: on another device.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{self, OFlags, Stat};
use rustix::io::Errno;

use super::access::Attempt;
use super::mount::{Guarded, OpenMount, Rules};
use super::{Vfs, beneath, lock};

/// Folders remembered per mount; then they are forgotten and looked at again.
const FOLDERS_MAX: usize = 4_096;

/// What may be done in a place, whatever the rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// Nothing: it is the host's own.
    Hidden,
    /// Reading: skills run from it.
    ReadOnly,
    /// What the rules allow.
    Open,
}

/// The guarded folders and files, and what is known of each mount.
#[derive(Debug, Default)]
pub(super) struct Guard {
    places: Vec<(Identity, Reach)>,
    mounts: Vec<Option<Watch>>,
}

type Identity = (u64, u64);

/// What is known of a mount's folders.
#[derive(Debug)]
pub(super) struct Watch {
    /// Of the mount's own folder, by itself and by those above it.
    top: Reach,
    /// Whether single folders may be case-insensitive.
    may_fold: bool,
    /// Whether names are matched without regard to case.
    folds: AtomicBool,
    known: Mutex<HashMap<String, Reach>>,
}

impl Guard {
    pub(super) fn new(mounts: &[OpenMount], guarded: &Guarded) -> Guard {
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
        let mounts = mounts.iter().map(|mount| Watch::new(mount, &places)).collect();
        Guard { places, mounts }
    }

    fn of(&self, m: usize) -> Option<&Watch> {
        self.mounts.get(m)?.as_ref()
    }

    fn reach(&self, stat: &Stat) -> Reach {
        reach_of(&self.places, (stat.st_dev, stat.st_ino))
    }
}

impl Watch {
    fn new(mount: &OpenMount, places: &[(Identity, Reach)]) -> Option<Watch> {
        let Rules::Granted(granted) = &mount.rules else { return None };
        let folder = mount.ground.folder().ok()?;
        let (stat, disk) = (fs::fstat(folder).ok()?, fs::fstatfs(folder).ok()?);
        // A subvolume has a device number of its own, and is no mount.
        let kind = disk.f_type as u64 & 0xffff_ffff;
        let guards = kind == BTRFS || places.iter().any(|((device, _), _)| *device == stat.st_dev);
        let real = granted.host.canonicalize().unwrap_or_default();
        let above = |_| real.ancestors().filter_map(identity).map(|id| reach_of(places, id)).min();
        let top = reach_of(places, (stat.st_dev, stat.st_ino))
            .min(guards.then_some(()).and_then(above).unwrap_or(Reach::Open));
        let may_fold = FOLDS_SOME.contains(&kind);
        let folds = FOLDS_ALL.contains(&kind) || may_fold && is_case_insensitive(folder, ".");
        let watch = Watch { top, may_fold, folds: AtomicBool::new(folds), known: Mutex::default() };
        (guards || may_fold || folds).then_some(watch)
    }
}

impl Vfs {
    /// What may be done at a canonical path, as far as it is known by what it is. `stat`: what is
    /// there, in the folder under an overlay.
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

    fn reach_of_folder(&self, m: usize, watch: &Watch, rel: &str) -> Reach {
        if let Some(known) = lock(&watch.known).get(rel) {
            return *known;
        }
        // What is in the overlay alone is the run's own.
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

    /// Refuses to change what is guarded.
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
            "it belongs to skillhost itself, which no grant reaches under any name"
        } else {
            "skills run from this folder, and no guest writes what runs"
        };
        self.refuse_kind(m, rel, attempt, rule);
    }

    /// Forgets what folders of a mount are, because one of them has another name now.
    pub(super) fn forget_folders(&self, m: usize) {
        if let Some(watch) = self.guard.of(m) {
            lock(&watch.known).clear();
        }
    }

    /// Whether names in a mount are matched without regard to case.
    pub(super) fn folds_case(&self, m: usize) -> bool {
        self.guard.of(m).is_some_and(|watch| watch.folds.load(Ordering::Relaxed))
    }

    /// As on a file system that folds case.
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

/// Whether a folder has the attribute for it.
fn is_case_insensitive(root: std::os::fd::BorrowedFd<'_>, rel: &str) -> bool {
    const CASEFOLD: u32 = 0x4000_0000;
    let rel = if rel == "." { "" } else { rel };
    let folder = beneath::open(root, rel, OFlags::RDONLY | OFlags::DIRECTORY);
    folder.and_then(fs::ioctl_getflags).is_ok_and(|flags| flags.bits() & CASEFOLD != 0)
}

const BTRFS: u64 = 0x9123_683e;

/// Kinds of file systems where each folder may be case-insensitive: ext4, f2fs, tmpfs, bcachefs.
const FOLDS_SOME: [u64; 4] = [0xef53, 0xf2f5_2010, 0x0102_1994, 0xca45_1a4e];

/// Kinds of file systems that are case-insensitive, or may be without telling: FAT, exFAT, NTFS,
/// CIFS and SMB, HFS and HFS+, shared folders of virtual machines, 9P and FUSE. Denials that match
/// too much are safe.
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

/// Kinds of file systems that are windows into the kernel: writing there changes the machine, and
/// reading shows processes and their memory.
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

/// The name of the kernel's own file system that a folder is in.
pub(super) fn kernel_file_system(
    folder: impl std::os::fd::AsFd,
) -> Result<Option<&'static str>, Errno> {
    let kind = fs::fstatfs(folder)?.f_type as u64 & 0xffff_ffff;
    Ok(KERNEL.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name))
}

/// The mount that a folder is in, as far as the kernel tells, else its device.
pub(super) fn mount_id(folder: impl std::os::fd::AsFd) -> Result<u64, Errno> {
    let flags = fs::StatxFlags::MNT_ID;
    match fs::statx(&folder, "", fs::AtFlags::EMPTY_PATH, flags) {
        Ok(stat) if stat.stx_mask & flags.bits() != 0 => Ok(stat.stx_mnt_id),
        _ => Ok(fs::fstat(&folder)?.st_dev),
    }
}
