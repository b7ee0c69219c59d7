//! Opens and creates files; opens folders.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{self, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::guard::Reach;
use super::handle::{Handle, OpenFile, OpenFolder};
use super::mount::Rules;
use super::overlay::Tree;
use super::path::Location;
use super::quota::HandleSlot;
use super::rules::Attempt;
use super::{Vfs, beneath, changes, lock, times};
use skillhost_policy::capabilities::PathAccess;
use skillhost_policy::outcome::{Denial, DenialKind};

/// How to open an entry. With every field false: a folder, or a file that can be neither read nor
/// written.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenOptions {
    /// Follow a symlink at the end of the path.
    pub follow: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Fail unless the entry is a folder.
    pub directory: bool,
    /// With `create`: fail if the entry exists.
    pub exclusive: bool,
    /// Truncate the file.
    pub truncate: bool,
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
}

impl OpenOptions {
    fn changes(self) -> bool {
        self.write || self.truncate
    }

    // NONBLOCK and NOCTTY: if the entry is not a regular file after all, opening it must have no
    // effect.
    fn flags(self) -> OFlags {
        let mode = match (self.read, self.changes()) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY
    }
}

/// The folder for state, in `/`.
const STATE: &str = "state";

impl Vfs {
    /// Opens `path` below the folder `base`.
    ///
    /// # Errors
    /// `NOENT` for an entry that does not exist or is not visible; `ACCESS` for an entry that the
    /// rules do not let the guest write or create, and for devices, FIFOs and sockets; `ROFS` in a
    /// read-only mount; `PERM` for writing to a file with more than one name; `NOSPC` if the quota
    /// of files is used up; `MFILE` at the limit of handles; otherwise as for `openat`.
    pub fn open_at(
        &self,
        base: &Handle,
        path: &str,
        options: OpenOptions,
    ) -> Result<Handle, Errno> {
        if options.directory && (options.create || options.exclusive || options.truncate) {
            return Err(Errno::INVAL);
        }
        let mut tree = self.tree();
        let opened = self.resolve(&mut tree, base, path, options.follow, |tree, at| {
            self.open(tree, at, options)
        });
        if let (Err(Errno::NOENT), Handle::Folder(base)) = (&opened, base) {
            self.note_missing(base, path);
        }
        opened
    }

    /// Remembers a file that was not found in `/skill`, and records that `/state` is not granted.
    fn note_missing(&self, base: &OpenFolder, path: &str) {
        /// The longest path that is remembered, in bytes.
        const MOST: usize = 255;
        if path.len() > MOST || path.split('/').any(|name| name == "..") {
            return;
        }
        let missing = beneath::join(&base.rel, path);
        match self.mounts[base.mount].rules {
            Rules::Skill(_) if missing.len() <= MOST => *lock(&self.missing) = Some(missing),
            Rules::Root(_) if missing == STATE || missing.starts_with("state/") => {
                self.note_state();
            }
            _ => {}
        }
    }

    fn note_state(&self) {
        if self.mounts.iter().any(|mount| matches!(mount.rules, Rules::State(_))) {
            return;
        }
        self.decisions.record(Denial {
            what: "open /state".to_owned(),
            rule: "the limit `state` is not set, so the skill keeps nothing between runs"
                .to_owned(),
            fix: Some("in the policy, for this skill: `limits: { state: 16MiB }`".to_owned()),
            kind: DenialKind::Path,
        });
    }

    fn open(
        &self,
        tree: &mut Tree,
        at: Location<'_>,
        options: OpenOptions,
    ) -> Result<Handle, Errno> {
        let stat = match self.look(tree, at.m, at.rel) {
            Ok(_) if options.create && options.exclusive => return Err(Errno::EXIST),
            Ok(stat) => stat,
            Err(Errno::NOENT) if options.create && !at.folder => {
                return self.create(tree, at, options);
            }
            Err(e) => return Err(e),
        };
        match beneath::kind(&stat) {
            FileType::RegularFile
                if !at.folder && !options.directory && self.device(at.m, at.rel).is_some() =>
            {
                self.open_device(at, options)
            }
            FileType::Symlink => Err(Errno::LOOP),
            FileType::Directory if options.changes() || options.create => Err(Errno::ISDIR),
            FileType::Directory => self.folder(at.m, at.rel),
            FileType::RegularFile if at.folder || options.directory => Err(Errno::NOTDIR),
            FileType::RegularFile => self.open_file(tree, at, options),
            _ => {
                let attempt = if options.changes() { Attempt::Change } else { Attempt::Read };
                self.refuse_kind(
                    at.m,
                    at.rel,
                    attempt,
                    "devices, FIFOs and sockets cannot be opened",
                );
                Err(Errno::ACCESS)
            }
        }
    }

    fn open_file(
        &self,
        tree: &mut Tree,
        Location { m, rel, .. }: Location<'_>,
        options: OpenOptions,
    ) -> Result<Handle, Errno> {
        let slot = self.quota.acquire_slot()?;
        if options.changes() {
            self.check_write(tree, m, rel, Attempt::Change)?;
            self.copy_up(tree, m, rel, options.truncate)?;
        }
        let fd = beneath::open(self.storage(tree, m, rel)?, rel, options.flags())
            .map_err(|e| self.refuse_crossing(m, rel, e))
            .inspect_err(|e| self.quota.note_failure(*e))?;
        let stat = fs::fstat(&fd)?;
        if beneath::kind(&stat) != FileType::RegularFile {
            return Err(Errno::ACCESS);
        }
        if options.changes() && stat.st_nlink > 1 {
            // Another name may lie outside the mount.
            self.refuse_kind(
                m,
                rel,
                Attempt::Change,
                "the file has more than one name (hard links)",
            );
            return Err(Errno::PERM);
        }
        if options.truncate {
            self.forget(&stat);
        } else if options.read || options.write {
            self.touch(tree, m, rel, &stat)?;
        }
        let file = self.file(tree, m, rel, options, fd, &stat, slot);
        if options.truncate
            && let Some(inode) = &file.inode
        {
            // Not through an open flag, which would truncate the file before the checks.
            let mut state = lock(&inode.state);
            fs::ftruncate(&file.fd, 0)?;
            self.quota_of(m).refund(state.size);
            state.size = 0;
            file.account.note_resized();
            file.note_change();
        }
        Ok(Handle::File(Arc::new(file)))
    }

    /// Records the content of a file before it is read or partly changed. In a replay, fails if the
    /// recording lacks it.
    pub(super) fn touch(&self, tree: &Tree, m: usize, rel: &str, stat: &Stat) -> Result<(), Errno> {
        let (Some(contents), Rules::Granted(_) | Rules::State(_)) =
            (&self.contents, &self.mounts[m].rules)
        else {
            return Ok(());
        };
        let file = changes::file(self.storage(tree, m, rel)?, rel);
        let touched = file
            .and_then(|file| contents.touch(file.as_fd(), times::key(stat)).map_err(|_| Errno::IO));
        touched.inspect_err(|error| self.quota.note_failure(*error))
    }

    /// Notes that a file was truncated or removed, so that its path and inode now mean another
    /// file.
    pub(super) fn forget(&self, stat: &Stat) {
        if let Some(contents) = &self.contents {
            contents.forget(times::key(stat));
        }
    }

    fn open_device(
        &self,
        Location { m, rel, .. }: Location<'_>,
        options: OpenOptions,
    ) -> Result<Handle, Errno> {
        let slot = self.quota.acquire_slot()?;
        // The empty file behind the device provides its metadata.
        let fd = beneath::open(self.lower(m)?, rel, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let (rel, device) = (rel.to_owned(), self.device(m, rel));
        let (account, quota) = (Arc::default(), self.quota.clone());
        let (read, write) = (options.read, options.write);
        Ok(Handle::File(Arc::new(OpenFile {
            mount: m,
            rel,
            read,
            write,
            device,
            inode: None,
            fd,
            durable: false,
            account,
            quota,
            log: None,
            times: None,
            _slot: slot,
        })))
    }

    fn create(
        &self,
        tree: &mut Tree,
        Location { m, rel, .. }: Location<'_>,
        options: OpenOptions,
    ) -> Result<Handle, Errno> {
        if let (Rules::Root(_), Some((folder, _))) = (&self.mounts[m].rules, rel.rsplit_once('/')) {
            self.look(tree, m, folder)?;
        }
        self.check_write(tree, m, rel, Attempt::Create)?;
        let slot = self.quota.acquire_slot()?;
        self.quota_of(m).charge_file()?;
        let created = self.copy_up_parents(tree, m, rel).and_then(|root| {
            let fd = beneath::open(root, rel, options.flags() | OFlags::CREATE | OFlags::EXCL)
                .map_err(|e| self.if_vanished(m, e))?;
            let stat = fs::fstat(&fd)?;
            Ok((fd, stat))
        });
        let (fd, stat) = created.inspect_err(|e| self.quota_of(m).undo_file_charge(*e))?;
        self.note_new(tree, m, rel, false);
        let file = self.file(tree, m, rel, options, fd, &stat, slot);
        file.account.note_created();
        Ok(Handle::File(Arc::new(file)))
    }

    #[expect(clippy::too_many_arguments, reason = "the one place that assembles an open file")]
    fn file(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
        options: OpenOptions,
        fd: std::os::fd::OwnedFd,
        stat: &Stat,
        slot: HandleSlot,
    ) -> OpenFile {
        OpenFile {
            mount: m,
            rel: rel.to_owned(),
            read: options.read,
            write: options.write,
            device: None,
            // Readers too: a removed file occupies space until its last handle is closed.
            inode: self.is_writable_storage(tree, m, rel).then(|| self.quota_of(m).inode(stat)),
            fd,
            durable: self.is_durable(m),
            account: self.account(m, rel),
            quota: self.quota_of(m).clone(),
            log: self.log_of(m).cloned(),
            times: self.times.as_ref().map(|times| (times.clone(), times::key(stat))),
            _slot: slot,
        }
    }

    pub(super) fn folder(&self, m: usize, rel: &str) -> Result<Handle, Errno> {
        let slot = self.quota.acquire_slot()?;
        Ok(Handle::Folder(Arc::new(OpenFolder { mount: m, rel: rel.to_owned(), _slot: slot })))
    }

    /// Returns the entry at a path if the rules let the guest see it.
    pub(super) fn look(&self, tree: &Tree, m: usize, rel: &str) -> Result<Stat, Errno> {
        let stat = self.lstat(tree, m, rel);
        let reach = self.reach(m, rel, stat.as_ref().ok());
        if reach == Reach::Hidden && stat.is_ok() {
            self.refuse_reach(m, rel, Attempt::Read, reach);
            return Err(Errno::NOENT);
        }
        let hidden = match (self.access(m, rel), &stat) {
            (PathAccess::None, _) => true,
            (PathAccess::Traverse, Ok(stat)) => beneath::kind(stat) != FileType::Directory,
            _ => false,
        };
        if !hidden {
            return stat
                .inspect(|stat| self.note_lookup(m, rel, stat))
                .map_err(|error| self.refuse_crossing(m, rel, error));
        }
        // Looking up a path that does not exist is not a violation.
        if stat.is_ok() {
            self.refuse(m, rel, Attempt::Read);
        }
        Err(Errno::NOENT)
    }
}
