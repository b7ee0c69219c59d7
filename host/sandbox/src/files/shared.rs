//! The files of a session, which all its runs share: `/workspace`, an overlay, and `/tmp`.
//!
//! Each run has its own rules, its own accounts and its own denials. Shared are what is at which path,
//! the bytes and files in use, permission bits, and the log of changes. The overlay is locked with the
//! tree of the run, so that a check and the action that follows it are atomic for all runs of the
//! session.
//!
//! Folders are opened by each run, and closed with it: an idle session has no open files.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::copy_up::{copy, times_of};
use super::host_dir::HostDir;
use super::modes::Modes;
use super::mount::{GuardedPaths, Layer, OpenMount, Rules};
use super::overlay::{Overlay, Tree};
use super::quota::Quota;
use super::times::Times;
use super::watch::ChangeLog;
use super::{Vfs, beneath, lock};
use crate::recording::blobs::Contents;
use skillhost_policy::WORKSPACE;
use skillhost_policy::capabilities::{Mount, MountMode, PathRules};
use skillhost_policy::limits::Limits;

/// The folders of a session. Only the host can enter the folder that contains them.
#[derive(Debug, Clone)]
pub struct SessionFolders {
    /// What the workspace contained at the beginning. Never written: sessions may share it.
    pub base: PathBuf,
    /// Changes of the workspace; an empty folder of this session.
    pub upper: PathBuf,
    /// `/tmp`.
    pub tmp: PathBuf,
}

/// The files of a session.
#[derive(Debug)]
pub struct SharedFiles {
    folders: SessionFolders,
    overlay: Mutex<Overlay>,
    quota: Arc<Quota>,
    modes: Arc<Modes>,
    log: Arc<ChangeLog>,
    limits: Limits,
}

/// A run's part in the files of its session.
#[derive(Debug)]
pub(super) struct Share {
    files: Arc<SharedFiles>,
    /// The mounts that are shared.
    workspace: Option<usize>,
    tmp: Option<usize>,
    /// Counts for the run, and charges the session.
    pub(super) quota: Arc<Quota>,
    /// Whether changes are reported: to the session, not to its runs.
    reports: bool,
}

/// The tree of a run, locked. It contains the overlay of the session as long as this value exists.
pub(super) struct LockedTree<'a> {
    tree: MutexGuard<'a, Tree>,
    shared: Option<(usize, MutexGuard<'a, Overlay>)>,
}

impl SharedFiles {
    /// The files of a new session, whose upper folder and `/tmp` are empty. `limits` bounds what all
    /// runs together may write (`disk`, `files`).
    pub fn new(folders: SessionFolders, limits: &Limits) -> SharedFiles {
        SharedFiles {
            folders,
            overlay: Mutex::default(),
            quota: Quota::of_session(limits, 0, 0),
            modes: Arc::default(),
            log: Arc::default(),
            limits: limits.clone(),
        }
    }

    /// Copies what was changed in this session into the empty folders of another one, which shares
    /// the base. The caller ensures that no run of this session writes meanwhile.
    ///
    /// # Errors
    /// The file system fails.
    pub fn fork(&self, folders: SessionFolders) -> io::Result<SharedFiles> {
        let overlay = lock(&self.overlay).clone();
        let (from, to) =
            (beneath::open_root(&self.folders.upper)?, beneath::open_root(&folders.upper)?);
        let (mut bytes, mut files, mut folder_times) = (0, 0, BTreeMap::new());
        // Sorted by path, so a folder comes before its entries.
        for (rel, entry) in &overlay.upper {
            let stat = beneath::stat(from.as_fd(), rel)?;
            files += u64::from(entry.created);
            match beneath::kind(&stat) {
                FileType::Directory => {
                    let (parent, name) = beneath::parent(to.as_fd(), rel)?;
                    fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))?;
                    folder_times.insert(rel, times_of(&stat));
                }
                FileType::Symlink => {
                    let target = beneath::read_link(from.as_fd(), rel)?;
                    let (parent, name) = beneath::parent(to.as_fd(), rel)?;
                    fs::symlinkat(&target, &parent, name)?;
                    bytes += target.len() as u64;
                }
                _ => {
                    copy_file(from.as_fd(), to.as_fd(), rel, &stat)?;
                    bytes += beneath::size(&stat);
                }
            }
        }
        // Creating its entries has changed the times of a folder.
        for (rel, times) in folder_times {
            let (parent, name) = beneath::parent(to.as_fd(), rel)?;
            fs::utimensat(&parent, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(SharedFiles {
            folders,
            overlay: Mutex::new(overlay),
            quota: Quota::of_session(&self.limits, bytes, files),
            modes: Arc::default(),
            log: Arc::default(),
            limits: self.limits.clone(),
        })
    }

    /// The same session with nothing changed in its workspace. `/tmp` stays, and counts as before.
    pub fn without_changes(&self, upper: PathBuf, base: PathBuf) -> SharedFiles {
        let (bytes, entries) = self.in_tmp();
        let files = SharedFiles {
            folders: SessionFolders { base, upper, tmp: self.folders.tmp.clone() },
            overlay: Mutex::default(),
            quota: Quota::of_session(&self.limits, bytes, entries),
            modes: Arc::default(),
            log: self.log.clone(),
            limits: self.limits.clone(),
        };
        self.log.reset();
        files
    }

    /// The same files with an overlay of their own: what happens in the session from now on does not
    /// wait for whoever reads them. What is removed meanwhile may be missing.
    #[must_use]
    pub fn frozen(&self) -> SharedFiles {
        SharedFiles {
            folders: self.folders.clone(),
            overlay: Mutex::new(lock(&self.overlay).clone()),
            quota: self.quota.clone(),
            modes: self.modes.clone(),
            log: Arc::default(),
            limits: self.limits.clone(),
        }
    }

    /// Opens the workspace and `/tmp` as a run under these rules would see them. Reports the changes
    /// of the session.
    pub fn open(self: &Arc<Self>, rules: PathRules) -> Arc<Vfs> {
        // The host folder is never opened by this name.
        let mount = Mount {
            guest_links: true,
            ..Mount::new(WORKSPACE, &self.folders.base, MountMode::Overlay)
        };
        let mounts = vec![
            OpenMount::scratch(self.tmp()),
            OpenMount {
                guest: WORKSPACE.to_owned(),
                host_dir: self.base(),
                rules: Rules::Granted(mount),
                layer: Layer::Overlay(self.upper()),
            },
        ];
        let share = Share::of(self, &mounts, true);
        let guarded = GuardedPaths::default();
        Vfs::sharing(Some(share), mounts, rules, &self.limits, &guarded, None, None)
    }

    /// Opens the file layer of a run in this session. Its folder at `/workspace` becomes the overlay of
    /// the session.
    pub(crate) fn of_run(
        self: &Arc<Self>,
        mut mounts: Vec<OpenMount>,
        rules: PathRules,
        limits: &Limits,
        guarded: &GuardedPaths,
        (times, contents): (Option<Times>, Option<Arc<Contents>>),
    ) -> Arc<Vfs> {
        for mount in &mut mounts {
            // Includes a mount that the run may only read: the rules prevent writing, not the layer.
            if mount.guest == WORKSPACE
                && let Rules::Granted(granted) = &mut mount.rules
            {
                granted.guest_links = true;
                mount.host_dir = self.base();
                mount.layer = Layer::Overlay(self.upper());
            } else if matches!(mount.rules, Rules::Scratch) {
                mount.host_dir = self.tmp();
            }
        }
        let share = Share::of(self, &mounts, false);
        Vfs::sharing(Some(share), mounts, rules, limits, guarded, times, contents)
    }

    /// Returns the folders.
    pub fn folders(&self) -> &SessionFolders {
        &self.folders
    }

    /// Returns the log of changes.
    pub fn log(&self) -> &Arc<ChangeLog> {
        &self.log
    }

    /// Returns the bytes in use: changes of the workspace, and `/tmp`.
    pub fn disk(&self) -> u64 {
        self.quota.usage().disk
    }

    fn base(&self) -> HostDir {
        let path = self.folders.base.clone();
        HostDir::lazy(move || beneath::open_root(&path))
    }

    fn upper(&self) -> HostDir {
        let path = self.folders.upper.clone();
        HostDir::lazy(move || beneath::open_root(&path))
    }

    fn tmp(&self) -> HostDir {
        let path = self.folders.tmp.clone();
        HostDir::lazy(move || beneath::open_root(&path))
    }

    /// Returns the bytes and the entries in `/tmp`, which the quota does not count apart.
    fn in_tmp(&self) -> (u64, u64) {
        let Ok(root) = beneath::open_root(&self.folders.tmp) else { return (0, 0) };
        let (mut bytes, mut entries, mut folders) = (0, 0, vec![String::new()]);
        while let Some(folder) = folders.pop() {
            for (name, kind) in beneath::list(root.as_fd(), &folder).unwrap_or_default() {
                entries += 1;
                let Ok(name) = name.into_string() else { continue };
                let rel = beneath::join(&folder, &name);
                match kind {
                    FileType::Directory => folders.push(rel),
                    _ => {
                        bytes += beneath::stat(root.as_fd(), &rel).map_or(0, |s| beneath::size(&s))
                    }
                }
            }
        }
        (bytes, entries)
    }
}

impl Share {
    fn of(files: &Arc<SharedFiles>, mounts: &[OpenMount], reports: bool) -> Share {
        let is_workspace = |mount: &OpenMount| {
            mount.guest == WORKSPACE && matches!(mount.layer, Layer::Overlay(_))
        };
        Share {
            workspace: mounts.iter().position(is_workspace),
            tmp: mounts.iter().position(|mount| matches!(mount.rules, Rules::Scratch)),
            quota: Quota::in_pool(&files.limits, files.quota.clone()),
            files: files.clone(),
            reports,
        }
    }

    /// Returns the mount of the workspace.
    pub(super) fn workspace(&self) -> Option<usize> {
        self.workspace
    }

    /// Checks whether a mount is shared.
    pub(super) fn has(&self, m: usize) -> bool {
        [self.workspace, self.tmp].contains(&Some(m))
    }

    pub(super) fn modes(&self) -> Arc<Modes> {
        self.files.modes.clone()
    }
}

impl Vfs {
    /// Locks the tree of the run and the overlay of its session, in this order.
    pub(super) fn tree(&self) -> LockedTree<'_> {
        let mut tree = lock(&self.tree);
        let shared = self.shared.as_ref().and_then(|shared| {
            let m = shared.workspace?;
            let mut overlay = lock(&shared.files.overlay);
            std::mem::swap(tree.overlay_mut(m), &mut *overlay);
            Some((m, overlay))
        });
        LockedTree { tree, shared }
    }

    /// Checks whether a mount is the overlay of a session whose changes are not reported here.
    pub(super) fn is_anothers(&self, m: usize) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.workspace == Some(m) && !shared.reports)
    }

    /// Returns where the changes of a mount are announced.
    pub(super) fn log_of(&self, m: usize) -> Option<&Arc<ChangeLog>> {
        let shared = self.shared.as_ref().filter(|shared| shared.workspace == Some(m))?;
        Some(&shared.files.log)
    }
}

impl Deref for LockedTree<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl DerefMut for LockedTree<'_> {
    fn deref_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }
}

impl Drop for LockedTree<'_> {
    fn drop(&mut self) {
        if let Some((m, overlay)) = &mut self.shared {
            std::mem::swap(self.tree.overlay_mut(*m), &mut **overlay);
        }
    }
}

/// Copies a file with its mode and times.
fn copy_file(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    rel: &str,
    stat: &Stat,
) -> Result<(), Errno> {
    let source = beneath::open(from, rel, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    let target = beneath::open(to, rel, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
    fs::fchmod(&target, Mode::from_raw_mode(stat.st_mode & 0o777 | 0o600))?;
    copy(&source, &target, beneath::size(stat))?;
    fs::futimens(&target, &times_of(stat))
}

#[cfg(test)]
#[path = "tests/shared.rs"]
mod tests;
