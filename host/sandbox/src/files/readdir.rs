//! Lists folders: sorted, without hidden entries, with an overlay merged in.

use std::ffi::CString;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::handle::{Handle, OpenFolder};
use super::overlay::{Side, Tree};
use super::quota::HandleSlot;
use super::{Vfs, beneath};
use skillhost_policy::capabilities::PathAccess;

/// The entries of a folder at the time it was read, sorted by name, byte by byte. Counts as a
/// handle while it exists.
#[derive(Debug)]
pub struct Listing {
    folder: Arc<OpenFolder>,
    entries: std::vec::IntoIter<(String, FileType)>,
    _slot: HandleSlot,
}

impl Iterator for Listing {
    type Item = (String, FileType);

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next()
    }
}

impl Vfs {
    /// Lists an open folder, without `.`, `..` and names that are not valid UTF-8.
    ///
    /// # Errors
    /// `NOTDIR` for a file; `NOENT` for a folder that no longer exists; `MFILE` at the limit of
    /// handles; `NOMEM` if guests hold too many listed entries; otherwise the host's error.
    pub fn read_dir(&self, handle: &Handle) -> Result<Listing, Errno> {
        let Handle::Folder(folder) = handle else { return Err(Errno::NOTDIR) };
        let (m, rel) = (folder.mount, folder.rel.as_str());
        let mut slot = self.quota.acquire_slot()?;
        let tree = self.tree();
        self.look(&tree, m, rel)?;
        let listed =
            self.list(&tree, m, rel).map_err(|error| self.refuse_crossing(m, rel, error))?;
        let named = listed.into_iter().filter_map(|(name, kind)| {
            let name = name.into_string().ok()?;
            let kind = self.guest_kind(m, &beneath::join(rel, &name), kind);
            Some((name, kind))
        });
        let mut entries: Vec<_> = named
            .filter(|(name, kind)| self.is_listed(m, &beneath::join(rel, name), *kind))
            .collect();
        drop(tree);
        slot.hold_entries(entries.iter().map(|(name, _)| name.as_str()))?;
        self.note_listed(m, rel, &entries);
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(Listing { folder: folder.clone(), entries: entries.into_iter(), _slot: slot })
    }

    /// Returns the next entry of a listing, and remembers it: the guest is about to ask for its
    /// metadata hash.
    pub fn next_entry(&self, listing: &mut Listing) -> Option<(String, FileType)> {
        let (name, kind) = listing.next()?;
        let OpenFolder { mount, rel, .. } = &*listing.folder;
        self.remember_lookup(
            *mount,
            rel,
            &name,
            false,
            self.mounts[*mount].guest_path(&beneath::join(rel, &name)),
            None,
        );
        Some((name, kind))
    }

    /// Returns all entries of a folder, whatever the rules say, unsorted.
    pub(super) fn list(
        &self,
        tree: &Tree,
        m: usize,
        rel: &str,
    ) -> Result<Vec<(CString, FileType)>, Errno> {
        let Some(upper) = self.upper(m) else { return beneath::list(self.lower(m)?, rel) };
        let overlay = tree.overlay(m);
        let in_upper = rel.is_empty() || overlay.side(rel)? == Side::Upper;
        let mut entries = Vec::new();
        if !overlay.hides(rel) {
            let visible = |name: &CString| {
                name.to_str().map_or(true, |name| !overlay.overrides(&beneath::join(rel, name)))
            };
            match beneath::list(self.lower(m)?, rel) {
                Ok(lower) => entries.extend(lower.into_iter().filter(|(name, _)| visible(name))),
                // The folder exists only in the overlay.
                Err(_) if in_upper && !rel.is_empty() => {}
                Err(e) => return Err(e),
            }
        }
        if in_upper {
            entries.extend(beneath::list(upper.folder()?, rel)?);
        }
        Ok(entries)
    }

    fn is_listed(&self, m: usize, rel: &str, kind: FileType) -> bool {
        match self.access(m, rel) {
            PathAccess::None => false,
            PathAccess::Traverse => kind == FileType::Directory,
            PathAccess::Read | PathAccess::Write => true,
        }
    }
}
