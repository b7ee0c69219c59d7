//! Symlinks that guests create. The kernel stores them and never follows one: `path` resolves them.
//!
//! In `/tmp` and in overlays a guest creates any symlink. Its target is a guest path: an absolute one
//! starts at the guest's `/`, and a relative one may leave the mount. Wherever it leads, the rules for
//! that place apply.
//!
//! In a folder of the host, programs outside the sandbox follow symlinks, too. So a symlink is written
//! there only if the policy allows it, and only if its target is relative and stays inside the folder,
//! whatever other symlinks lead to: `..` comes only at the start of the target, where it leaves folders
//! that are real. Symlinks that the host's folders already contain cannot be followed out of them.

use std::fmt;

use rustix::fs::{self, AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::changes::Difference;
use super::guard::Reach;
use super::handle::Handle;
use super::mount::{Layer, Rules};
use super::overlay::Tree;
use super::path::{HIDDEN, Location, PATH_MAX, climbs_out};
use super::rules::Attempt;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;
use skillhost_policy::outcome::{Denial, DenialKind};

/// The target of a symlink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkTarget {
    pub(super) text: String,
    /// Whether it is a guest path. Otherwise the symlink belongs to a folder of the host.
    pub(super) is_guest_path: bool,
}

/// Which symlinks a guest may create in a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkRule {
    /// All: they disappear with the run, or are checked when the overlay is applied.
    Any,
    /// Those that stay inside the mount.
    Inside,
    None,
}

/// Why a symlink may not be written to a folder of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The policy does not allow symlinks there.
    NotAllowed,
    /// Its target is absolute, or may lead out of the folder.
    Outside,
    /// It would take the place of a folder in which there are protected files.
    Protected,
    /// Its target is hidden from the guest.
    Hidden,
}

impl fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkRefusal::NotAllowed => "the policy does not allow symlinks in this folder",
            LinkRefusal::Outside => {
                "its target is not a relative path inside the folder with `..` only at its start"
            }
            LinkRefusal::Protected => {
                "programs on the host read their configuration from a folder of its name"
            }
            LinkRefusal::Hidden => "its target is hidden from the skill",
        })
    }
}

impl LinkRefusal {
    /// Returns what would allow it.
    pub fn fix(self) -> Option<&'static str> {
        match self {
            LinkRefusal::NotAllowed => Some("`symlinks: true` in the policy"),
            LinkRefusal::Outside | LinkRefusal::Protected | LinkRefusal::Hidden => None,
        }
    }
}

impl Vfs {
    /// Creates a symlink.
    ///
    /// # Errors
    /// `PERM` in a folder of the host, unless the policy allows symlinks and the target stays inside
    /// the folder; `EXIST` if the entry exists; `ACCESS` or `ROFS` if the rules or the mount forbid
    /// it; `NOSPC` if the quota is used up: a symlink counts as a file, and its target's bytes count.
    pub fn create_symlink(&self, base: &Handle, path: &str, target: &str) -> Result<(), Errno> {
        match target {
            "" => return Err(Errno::NOENT),
            _ if target.len() > PATH_MAX => return Err(Errno::NAMETOOLONG),
            _ if target.contains('\0') => return Err(Errno::INVAL),
            _ => {}
        }
        let mut tree = self.tree();
        self.resolve(&mut tree, base, path, false, |tree, Location { m, rel, folder }| {
            match self.look(tree, m, rel) {
                Ok(_) => return Err(Errno::EXIST),
                Err(Errno::NOENT) if folder => return Err(Errno::NOENT),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
            self.check_write(tree, m, rel, Attempt::Create)?;
            if self.link_rule(m) != LinkRule::Any
                && let Some(refusal) = self.link_refusal(tree, m, rel, target)
            {
                self.record_refusal(m, rel, refusal);
                return Err(Errno::PERM);
            }
            let (quota, bytes) = (self.quota_of(m), target.len() as u64);
            quota.charge_all(bytes)?;
            quota.charge_file().inspect_err(|_| quota.refund(bytes))?;
            let created = self.copy_up_parents(tree, m, rel).and_then(|root| {
                beneath::parent(root, rel)
                    .and_then(|(parent, name)| fs::symlinkat(target, &parent, name))
                    .map_err(|e| self.if_vanished(m, e))
            });
            created.inspect_err(|e| {
                quota.undo_file_charge(*e);
                quota.refund(bytes);
            })?;
            self.note_new(tree, m, rel, false);
            self.account(m, rel).note_created();
            Ok(())
        })
    }

    /// Returns the target of the symlink `path`.
    ///
    /// # Errors
    /// `INVAL` if it is not a symlink; `PERM` if it belongs to a folder of the host and its target is
    /// outside, and therefore a host path; `NOENT` as usual.
    pub fn read_link(&self, base: &Handle, path: &str) -> Result<String, Errno> {
        let mut tree = self.tree();
        self.resolve(&mut tree, base, path, false, |tree, at| {
            self.look(tree, at.m, at.rel)?;
            let target = self.link_target(tree, at.m, at.rel)?;
            if target.is_visible(at.rel) { Ok(target.text) } else { Err(Errno::PERM) }
        })
    }

    /// Returns the target of the symlink at a canonical path, whatever the rules say.
    pub(super) fn link_target(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
    ) -> Result<LinkTarget, Errno> {
        let is_guest_path = match (&self.mounts[m].rules, &self.mounts[m].layer) {
            (Rules::Scratch, _) => true,
            _ if self.has_guest_links(m) => true,
            (_, Layer::Overlay(_)) => tree.overlay(m).upper.contains_key(rel),
            _ => false,
        };
        let text = beneath::read_link(self.storage(tree, m, rel)?, rel)?;
        Ok(LinkTarget { text, is_guest_path })
    }

    /// Returns why a symlink at a canonical path may not be written to the mount's folder.
    pub(super) fn link_refusal(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
        target: &str,
    ) -> Option<LinkRefusal> {
        match &self.mounts[m].rules {
            // The program that applies the change to another folder checks the symlink.
            _ if self.has_guest_links(m) => return None,
            Rules::Granted(granted) if granted.symlinks => {}
            _ => return Some(LinkRefusal::NotAllowed),
        }
        if !stays_inside(rel, target) {
            return Some(LinkRefusal::Outside);
        }
        if self.leads_to_protected(m, rel) {
            return Some(LinkRefusal::Protected);
        }
        let (folder, _) = beneath::split(rel);
        match self.walk(tree, m, folder, target, true) {
            Ok((to, _)) if to != m => Some(LinkRefusal::Outside),
            Ok((_, found)) => self.is_hidden(tree, m, &found).then_some(LinkRefusal::Hidden),
            Err(HIDDEN) => Some(LinkRefusal::Hidden),
            // It leads nowhere, or to itself.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
            Err(_) => Some(LinkRefusal::Outside),
        }
    }

    /// Checks whether the entry at a canonical path is hidden from guests, or would be if it existed.
    fn is_hidden(&self, tree: &Tree, m: usize, rel: &str) -> bool {
        let stat = self.lstat(tree, m, rel).ok();
        match self.access(m, rel) {
            PathAccess::None => true,
            PathAccess::Traverse if !Difference::is_folder(stat.as_ref()) => true,
            _ => self.reach(m, rel, stat.as_ref()) == Reach::Hidden,
        }
    }

    /// Checks whether the symlink at `from` may be moved to `to`, and returns its target.
    pub(super) fn check_link_move(
        &self,
        tree: &Tree,
        m: usize,
        from: &str,
        to: &str,
    ) -> Result<String, Errno> {
        let target = self.link_target(tree, m, from)?;
        let refusal = match self.link_rule(m) {
            LinkRule::Any if target.is_visible(from) => None,
            LinkRule::Any => Some(LinkRefusal::Outside),
            _ => self.link_refusal(tree, m, to, &target.text),
        };
        match refusal {
            None => Ok(target.text),
            Some(refusal) => {
                self.record_refusal(m, to, refusal);
                Err(Errno::PERM)
            }
        }
    }

    /// Moves a symlink in a folder of the host. Creates it anew: another process may have replaced the
    /// one whose target was checked. Fails with `EXIST` if the new name is taken, unless it `replaces`
    /// a file or a symlink.
    pub(super) fn move_link(
        &self,
        (m, from, to): (usize, &str, &str),
        target: &str,
        stat: &Stat,
        replaces: bool,
    ) -> Result<(), Errno> {
        let root = self.lower(m)?;
        let (from_parent, from_name) = beneath::parent(root, from)?;
        let (to_parent, to_name) = beneath::parent(root, to)?;
        if replaces {
            replace_by_link(&to_parent, to_name, target, stat.st_ino, |_| Ok(()))?;
        } else {
            fs::symlinkat(target, &to_parent, to_name)?;
        }
        fs::unlinkat(&from_parent, from_name, AtFlags::empty())
    }

    /// Removes a symlink that took the place of a file while the file was moved, by another run in
    /// the same folder: at the new place it may lead elsewhere.
    pub(super) fn refuse_moved_link(&self, tree: &Tree, m: usize, rel: &str) -> Result<(), Errno> {
        let is_link = |stat: &Stat| beneath::kind(stat) == FileType::Symlink;
        if !self.is_durable(m) || !self.lstat(tree, m, rel).as_ref().is_ok_and(is_link) {
            return Ok(());
        }
        let (parent, name) = beneath::parent(self.lower(m)?, rel)?;
        fs::unlinkat(&parent, name, AtFlags::empty())?;
        Err(Errno::BUSY)
    }

    /// Checks whether the targets of symlinks in the mount's folder are paths of the guest.
    pub(super) fn has_guest_links(&self, m: usize) -> bool {
        self.is_overlay(m)
            && matches!(&self.mounts[m].rules, Rules::Granted(granted) if granted.guest_links)
    }

    /// Checks whether a guest may set the times of symlinks in a mount.
    pub(super) fn may_change_links(&self, m: usize) -> bool {
        self.link_rule(m) != LinkRule::None
    }

    /// Checks whether symlinks may be created in the mount's folder while the guest runs.
    pub(super) fn has_links_in_place(&self, m: usize) -> bool {
        self.link_rule(m) == LinkRule::Inside
    }

    fn link_rule(&self, m: usize) -> LinkRule {
        match (&self.mounts[m].rules, &self.mounts[m].layer) {
            (Rules::Scratch, _) | (Rules::Granted(_), Layer::Overlay(_)) => LinkRule::Any,
            (Rules::Granted(granted), Layer::InPlace) if granted.symlinks => LinkRule::Inside,
            _ => LinkRule::None,
        }
    }

    pub(super) fn record_refusal(&self, m: usize, rel: &str, refusal: LinkRefusal) {
        let fix = match &self.mounts[m].rules {
            Rules::Granted(_) => refusal.fix().map(str::to_owned),
            _ => None,
        };
        self.decisions.record(Denial {
            what: format!("create the symlink {}", self.mounts[m].guest_path(rel)),
            rule: refusal.to_string(),
            fix,
            kind: DenialKind::Path,
        });
    }
}

impl LinkTarget {
    /// Checks whether guests may see the target of the symlink at `rel`. A path outside the mount in a
    /// folder of the host names something of the host.
    pub(super) fn is_visible(&self, rel: &str) -> bool {
        self.is_guest_path || !self.text.starts_with('/') && !climbs_out(rel, &self.text)
    }
}

/// Checks whether a symlink at `rel` leads to a place in the same mount for every program that follows
/// it. The folders above `rel` are real, so `..` at the start of the target leaves nothing but them.
/// Later, it could follow another symlink.
pub fn stays_inside(rel: &str, target: &str) -> bool {
    let mut parts = target.split('/').filter(|part| !matches!(*part, "" | ".")).peekable();
    let mut depth = beneath::ancestors(rel).count();
    while parts.next_if_eq(&"..").is_some() {
        match depth.checked_sub(1) {
            Some(above) => depth = above,
            None => return false,
        }
    }
    !target.starts_with('/') && parts.all(|part| part != "..")
}

/// Creates a symlink in place of whatever has its name. `check` is called before it takes that place.
pub(super) fn replace_by_link(
    parent: &beneath::Parent<'_>,
    name: &str,
    target: &str,
    number: u64,
    check: impl FnOnce(&beneath::Parent<'_>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let temporary = format!(".skillhost-{}-{number:x}", std::process::id());
    fs::symlinkat(target, parent, &temporary)?;
    let placed = check(parent).and_then(|()| fs::renameat(parent, &temporary, parent, name));
    placed.inspect_err(|_| {
        // Best effort: the first error is the one to report.
        let _ = fs::unlinkat(parent, &temporary, AtFlags::empty());
    })
}
