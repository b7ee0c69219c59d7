//! Creates folders; removes and renames entries.

use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::handle::Handle;
use super::overlay::Tree;
use super::path::Location;
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::outcome::ChangeKind;

impl Vfs {
    /// Creates a folder.
    ///
    /// # Errors
    /// `ACCESS` or `ROFS` if the rules or the mount forbid it; `NOSPC` if the quota of files is
    /// used up; otherwise as for `mkdirat`.
    pub fn create_dir(&self, base: &Handle, path: &str) -> Result<(), Errno> {
        let mut tree = self.tree();
        self.resolve(&mut tree, base, unslashed(path), false, |tree, Location { m, rel, .. }| {
            match self.look(tree, m, rel) {
                Ok(_) => return Err(Errno::EXIST),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
            self.check_write(tree, m, rel, Attempt::Create)?;
            self.quota_of(m).charge_file()?;
            let created = self.copy_up_parents(tree, m, rel).and_then(|root| {
                beneath::parent(root, rel)
                    .and_then(|(parent, name)| {
                        fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777))
                    })
                    .map_err(|e| self.if_vanished(m, e))
            });
            created.inspect_err(|e| self.quota_of(m).undo_file_charge(*e))?;
            self.note_new(tree, m, rel, true);
            self.note_created_folder(m, rel);
            self.account(m, rel).note_created();
            Ok(())
        })
    }

    /// Removes a file or a symlink.
    ///
    /// # Errors
    /// `ISDIR` for a folder; `ACCESS` or `ROFS` if the rules or the mount forbid it; otherwise as
    /// for `unlinkat`.
    pub fn remove_file(&self, base: &Handle, path: &str) -> Result<(), Errno> {
        let mut tree = self.tree();
        self.resolve(&mut tree, base, path, false, |tree, at| {
            if at.folder { Err(Errno::NOTDIR) } else { self.remove(tree, at, false) }
        })
    }

    /// Removes an empty folder. A folder with hidden entries is not empty.
    ///
    /// # Errors
    /// `NOTDIR`, `NOTEMPTY`; `ACCESS` or `ROFS` if the rules or the mount forbid it; otherwise as
    /// for `unlinkat`.
    pub fn remove_dir(&self, base: &Handle, path: &str) -> Result<(), Errno> {
        let mut tree = self.tree();
        self.resolve(&mut tree, base, unslashed(path), false, |tree, at| {
            self.remove(tree, at, true)
        })
    }

    /// Renames a file or folder within a mount, replacing an existing file or empty folder.
    ///
    /// # Errors
    /// `XDEV` between mounts, for folders in an overlay or under rules that treat their entries
    /// differently, and for moves to a place with fewer folders above it: of folders that contain
    /// symlinks and, where guests may create symlinks, of all files and folders. Guests then copy.
    /// `PERM` for devices, FIFOs and sockets, and for symlinks that guests cannot create there.
    /// `ACCESS` or `ROFS` as for writing.
    pub fn rename(
        &self,
        base: &Handle,
        path: &str,
        new_base: &Handle,
        new_path: &str,
    ) -> Result<(), Errno> {
        let folder_only = path.ends_with('/') || new_path.ends_with('/');
        let mut tree = self.tree();
        self.resolve(&mut tree, base, unslashed(path), false, |tree, from| {
            self.look(tree, from.m, from.rel)?;
            self.resolve(tree, new_base, unslashed(new_path), false, |tree, to| {
                self.rename_to(tree, from, to, folder_only)
            })
        })
    }

    fn remove(
        &self,
        tree: &mut Tree,
        Location { m, rel, .. }: Location<'_>,
        folder: bool,
    ) -> Result<(), Errno> {
        let stat = self.look(tree, m, rel)?;
        let is_folder = beneath::kind(&stat) == FileType::Directory;
        if rel.is_empty() {
            return Err(Errno::BUSY);
        }
        self.check_write(tree, m, rel, Attempt::Change)?;
        match (folder, is_folder) {
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            _ => {}
        }
        if self.is_overlay(m) {
            self.remove_in_overlay(tree, m, rel, &stat)?;
        } else {
            let (parent, name) = beneath::parent(self.storage(tree, m, rel)?, rel)?;
            fs::unlinkat(
                &parent,
                name,
                if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() },
            )?;
            self.quota_of(m).release(&stat, true);
            if stat.st_nlink == 1 {
                self.forget(&stat);
            }
        }
        self.forget_mode_of(&stat);
        self.note_entry(tree, m, rel);
        self.account(m, rel).note_removed();
        self.note_event(m, rel, ChangeKind::Removed);
        Ok(())
    }

    fn rename_to(
        &self,
        tree: &mut Tree,
        from: Location<'_>,
        to: Location<'_>,
        folder_only: bool,
    ) -> Result<(), Errno> {
        let m = from.m;
        if m != to.m {
            return Err(Errno::XDEV);
        }
        if from.rel.is_empty() || to.rel.is_empty() {
            return Err(Errno::BUSY);
        }
        let stat = self.look(tree, m, from.rel)?;
        let kind = beneath::kind(&stat);
        // Not `look`: a hidden entry exists all the same, and the check below refuses it.
        let old = match self.lstat(tree, m, to.rel) {
            Ok(old) => Some(old),
            Err(Errno::NOENT) => None,
            Err(e) => return Err(e),
        };
        self.check_write(tree, m, from.rel, Attempt::Change)?;
        self.check_write(tree, m, to.rel, Attempt::Create)?;
        let link = self.check_kind(tree, m, (from.rel, to.rel), kind, folder_only)?;
        if old.is_some_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino)) {
            // Two names of the same file, or the same name twice: nothing happens, as in POSIX.
            return Ok(());
        }
        if self.is_overlay(m) {
            self.rename_in_overlay(tree, m, from.rel, to.rel, old.as_ref())?;
        } else if let Some(target) = link.filter(|_| self.has_links_in_place(m)) {
            if old.is_some_and(|old| beneath::kind(&old) == FileType::Directory) {
                return Err(Errno::ISDIR);
            }
            self.move_link((m, from.rel, to.rel), &target, &stat, old.is_some())?;
            if let Some(old) = old {
                self.quota_of(m).release(&old, true);
            }
        } else {
            let root = self.storage(tree, m, from.rel)?;
            let (from_parent, from_name) = beneath::parent(root, from.rel)?;
            let (to_parent, to_name) = beneath::parent(root, to.rel)?;
            fs::renameat(&from_parent, from_name, &to_parent, to_name)?;
            if kind != FileType::Symlink {
                self.refuse_moved_link(tree, m, to.rel)?;
            }
            self.forget_folders(m);
            if let Some(old) = old {
                self.quota_of(m).release(&old, true);
                if old.st_nlink == 1 {
                    self.forget(&old);
                }
            }
        }
        if let Some(old) = old {
            self.forget_mode_of(&old);
        }
        self.note_entry(tree, m, from.rel);
        self.note_entry(tree, m, to.rel);
        self.account(m, from.rel).note_removed();
        self.note_event(m, from.rel, ChangeKind::Removed);
        self.note_event(m, to.rel, ChangeKind::Added);
        let account = self.account(m, to.rel);
        if old.is_some() {
            account.note_resized()
        } else {
            account.note_created()
        }
        Ok(())
    }

    /// Checks whether an entry of this kind may be renamed. Returns the target of a symlink.
    fn check_kind(
        &self,
        tree: &Tree,
        m: usize,
        (from, to): (&str, &str),
        kind: FileType,
        folder_only: bool,
    ) -> Result<Option<String>, Errno> {
        let depth = |rel: &str| beneath::ancestors(rel).count();
        let up = depth(to) < depth(from);
        // From a place with fewer folders above it, a symlink could lead out of the mount. Another
        // run may put one into the folder, or put such a folder in the place of the file, between
        // this check and the move.
        let rises = up && self.has_links_in_place(m);
        match kind {
            FileType::Directory => {
                if self.is_overlay(m) || !self.is_uniform(m) || rises {
                    return Err(Errno::XDEV);
                }
                self.check_move(tree, m, from, to, up)?;
                self.note_renamed_folder(m);
                Ok(None)
            }
            FileType::RegularFile | FileType::Symlink if folder_only => Err(Errno::NOTDIR),
            FileType::RegularFile if rises => Err(Errno::XDEV),
            FileType::RegularFile => Ok(None),
            FileType::Symlink => self.check_link_move(tree, m, from, to).map(Some),
            _ => {
                let rule = "devices, FIFOs and sockets cannot be moved";
                self.refuse_kind(m, from, Attempt::Change, rule);
                Err(Errno::PERM)
            }
        }
    }
}

/// Removes trailing slashes, which a folder's name may have.
fn unslashed(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { path } else { trimmed }
}
