//! Opening and creating files, and opening folders.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{self, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::access::Attempt;
use super::guard::Reach;
use super::handle::{Handle, OpenFile, OpenFolder};
use super::mount::Rules;
use super::overlay::Tree;
use super::path::At;
use super::quota::Ticket;
use super::{Vfs, beneath, changes, lock, times};
use skillhost_policy::capabilities::PathAccess;

/// How to open something. All false: a file that can be neither read nor written, or a folder.
#[derive(Debug, Clone, Copy, Default)]
pub struct Want {
    /// Follow a symlink at the end of the path.
    pub follow: bool,
    /// Create the file where there is none.
    pub create: bool,
    /// Fail where it is no folder.
    pub directory: bool,
    /// With `create`: fail where there is something.
    pub exclusive: bool,
    /// Cut the file to nothing.
    pub truncate: bool,
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
}

impl Want {
    fn changes(self) -> bool {
        self.write || self.truncate
    }

    // NONBLOCK, NOCTTY: should something else than a file be here after all, opening it must do
    // nothing.
    fn flags(self) -> OFlags {
        let mode = match (self.read, self.changes()) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY
    }
}

impl Vfs {
    /// Opens `path` below the folder `base`.
    ///
    /// # Errors
    /// `NOENT` for what is not there or not visible; `ACCESS` for what the rules do not let the
    /// guest write or create, and for devices, FIFOs and sockets; `ROFS` in a read-only mount;
    /// `PERM` for writing to a file with several names; `NOSPC` over the quota of files; `MFILE`
    /// over the limit of handles; else as `openat`.
    pub fn open_at(&self, base: &Handle, path: &str, want: Want) -> Result<Handle, Errno> {
        if want.directory && (want.create || want.exclusive || want.truncate) {
            return Err(Errno::INVAL);
        }
        let mut tree = lock(&self.tree);
        self.resolve(&mut tree, base, path, want.follow, |tree, at| self.open(tree, at, want))
    }

    fn open(&self, tree: &mut Tree, at: At<'_>, want: Want) -> Result<Handle, Errno> {
        let stat = match self.look(tree, at.m, at.rel) {
            Ok(_) if want.create && want.exclusive => return Err(Errno::EXIST),
            Ok(stat) => stat,
            Err(Errno::NOENT) if want.create && !at.folder => return self.create(tree, at, want),
            Err(e) => return Err(e),
        };
        match beneath::kind(&stat) {
            FileType::RegularFile
                if !at.folder && !want.directory && self.device(at.m, at.rel).is_some() =>
            {
                self.open_device(at, want)
            }
            FileType::Symlink => Err(Errno::LOOP),
            FileType::Directory if want.changes() || want.create => Err(Errno::ISDIR),
            FileType::Directory => self.folder(at.m, at.rel),
            FileType::RegularFile if at.folder || want.directory => Err(Errno::NOTDIR),
            FileType::RegularFile => self.open_file(tree, at, want),
            _ => {
                let attempt = if want.changes() { Attempt::Change } else { Attempt::Read };
                self.refuse_kind(at.m, at.rel, attempt, "it is a device, a FIFO or a socket");
                Err(Errno::ACCESS)
            }
        }
    }

    fn open_file(
        &self,
        tree: &mut Tree,
        At { m, rel, .. }: At<'_>,
        want: Want,
    ) -> Result<Handle, Errno> {
        let ticket = self.ledger.ticket()?;
        if want.changes() {
            self.check_write(tree, m, rel, Attempt::Change)?;
            self.raise(tree, m, rel, want.truncate)?;
        }
        let fd = beneath::open(self.storage(tree, m, rel)?, rel, want.flags())
            .map_err(|e| self.refuse_crossing(m, rel, e))
            .inspect_err(|e| self.ledger.note_failure(*e))?;
        let stat = fs::fstat(&fd)?;
        if beneath::kind(&stat) != FileType::RegularFile {
            return Err(Errno::ACCESS);
        }
        if want.changes() && stat.st_nlink > 1 {
            // The other name may lie outside the mount.
            self.refuse_kind(m, rel, Attempt::Change, "the file has several names (hard links)");
            return Err(Errno::PERM);
        }
        if want.truncate {
            self.forget(&stat);
        } else if want.read || want.write {
            self.touch(tree, m, rel, &stat)?;
        }
        let file = self.file(tree, m, rel, want, fd, &stat, ticket);
        if want.truncate
            && let Some(body) = &file.body
        {
            // Not by the open flag: that would cut the file before it was checked.
            let mut state = lock(&body.state);
            fs::ftruncate(&file.fd, 0)?;
            self.ledger_of(m).refund(state.size);
            state.size = 0;
            file.account.note_resized();
            file.note_change();
        }
        Ok(Handle::File(Arc::new(file)))
    }

    /// What is about to be read, or changed in a part, goes into a recording; or was not in it.
    pub(super) fn touch(&self, tree: &Tree, m: usize, rel: &str, stat: &Stat) -> Result<(), Errno> {
        let (Some(contents), Rules::Granted(_) | Rules::State(_)) =
            (&self.contents, &self.mounts[m].rules)
        else {
            return Ok(());
        };
        let file = changes::file(self.storage(tree, m, rel)?, rel);
        let touched = file
            .and_then(|file| contents.touch(file.as_fd(), times::key(stat)).map_err(|_| Errno::IO));
        touched.inspect_err(|error| self.ledger.note_failure(*error))
    }

    /// A file is cut or gone: what has its place, or its inode, is another.
    pub(super) fn forget(&self, stat: &Stat) {
        if let Some(contents) = &self.contents {
            contents.forget(times::key(stat));
        }
    }

    fn open_device(&self, At { m, rel, .. }: At<'_>, want: Want) -> Result<Handle, Errno> {
        let ticket = self.ledger.ticket()?;
        // The empty file behind it, for its metadata.
        let fd = beneath::open(self.lower(m)?, rel, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let (rel, device) = (rel.to_owned(), self.device(m, rel));
        let (account, ledger) = (Arc::default(), self.ledger.clone());
        let (read, write) = (want.read, want.write);
        Ok(Handle::File(Arc::new(OpenFile {
            mount: m,
            rel,
            read,
            write,
            device,
            body: None,
            fd,
            durable: false,
            account,
            ledger,
            times: None,
            _ticket: ticket,
        })))
    }

    fn create(
        &self,
        tree: &mut Tree,
        At { m, rel, .. }: At<'_>,
        want: Want,
    ) -> Result<Handle, Errno> {
        if let (Rules::Root(_), Some((folder, _))) = (&self.mounts[m].rules, rel.rsplit_once('/')) {
            self.look(tree, m, folder)?;
        }
        self.check_write(tree, m, rel, Attempt::Create)?;
        let ticket = self.ledger.ticket()?;
        self.ledger_of(m).charge_file()?;
        let made = self.raise_parents(tree, m, rel).and_then(|root| {
            let fd = beneath::open(root, rel, want.flags() | OFlags::CREATE | OFlags::EXCL)?;
            let stat = fs::fstat(&fd)?;
            Ok((fd, stat))
        });
        let (fd, stat) = made.inspect_err(|e| self.ledger_of(m).not_made(*e))?;
        self.note_new(tree, m, rel, false);
        let file = self.file(tree, m, rel, want, fd, &stat, ticket);
        file.account.note_created();
        Ok(Handle::File(Arc::new(file)))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one file, put together in one place"
    )]
    fn file(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
        want: Want,
        fd: std::os::fd::OwnedFd,
        stat: &Stat,
        ticket: Ticket,
    ) -> OpenFile {
        OpenFile {
            mount: m,
            rel: rel.to_owned(),
            read: want.read,
            write: want.write,
            device: None,
            // Readers too: a removed file takes its space until the last handle closes.
            body: self.is_writable_storage(tree, m, rel).then(|| self.ledger_of(m).body(stat)),
            fd,
            durable: self.is_durable(m),
            account: self.account(m, rel),
            ledger: self.ledger_of(m).clone(),
            times: self.times.as_ref().map(|times| (times.clone(), times::key(stat))),
            _ticket: ticket,
        }
    }

    pub(super) fn folder(&self, m: usize, rel: &str) -> Result<Handle, Errno> {
        let ticket = self.ledger.ticket()?;
        Ok(Handle::Folder(Arc::new(OpenFolder { mount: m, rel: rel.to_owned(), _ticket: ticket })))
    }

    /// What is at a path, as far as the rules let the guest see it.
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
            let crossed = |error| self.refuse_crossing(m, rel, error);
            return stat.inspect(|stat| self.note_seen(m, rel, stat)).map_err(crossed);
        }
        // Looking for what does not exist is no attempt on anything.
        if stat.is_ok() {
            self.refuse(m, rel, Attempt::Read);
        }
        Err(Errno::NOENT)
    }
}
