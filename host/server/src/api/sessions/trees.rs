//! Trees of sessions: what a workspace starts from, snapshots, and what is restored from them.

use std::io::{self, Write as _};
use std::sync::Arc;

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::FileType;
use tokio_util::sync::CancellationToken;

use super::super::problem::Problem;
use super::super::quotas::storage_quota;
use super::super::state::now;
use super::super::tenant::Tenant;
use super::super::types::{FileSource, FileState, Tree};
use super::super::workspace::has_below;
use super::super::{Answered, ApiShared};
use super::files::{EVERYTHING, View};
use super::types::{SessionRequest, SnapshotInfo};
use super::{BASES, Base};
use skillhost_sandbox::files::{NewEntry, StagedChange, Vfs, open_root};
use skillhost_skill::private;

const CHUNK: usize = 64 << 10;
/// What a file, folder or symlink counts besides its content: a block of the disk.
const ENTRY: u64 = 4 << 10;

impl ApiShared {
    /// Writes what a workspace has at the beginning.
    pub(super) fn new_base(&self, tenant: &Tenant, request: &SessionRequest) -> Answered<Base> {
        let contents = self.contents(tenant, &request.files, request.tree.as_deref())?;
        let size = |file: &FileSource| match (&file.content, &file.digest) {
            (Some(content), _) => Ok(content.0.len() as u64),
            (None, Some(digest)) => tenant.state.blob(digest)?.metadata().map(|found| found.len()),
            (None, None) => Ok(0),
        };
        let bytes = contents.files.values().map(size).sum::<io::Result<u64>>();
        let bytes = bytes.map_err(|error| Problem::internal(&error))?;
        new_base(tenant, bytes + ENTRY * contents.entries() as u64, |dir| {
            contents.write(tenant, dir, self.options.bounds.workspace, &CancellationToken::new())
        })
    }
}

/// Stores the files of a workspace as a tree, and returns it as well.
pub(super) fn snapshot(
    tenant: &Tenant,
    view: &View,
    most: usize,
) -> Answered<(SnapshotInfo, Tree)> {
    let storage = tenant.settings().local_storage;
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error);
    let (mut tree, mut files, mut bytes) = (Tree::default(), 0, 0);
    for (path, kind) in view.walk(most)? {
        let entry = match kind {
            FileType::Directory => FileState::Folder,
            FileType::Symlink => FileState::Link { target: view.read_link(&path)? },
            _ => {
                let file = view.open_file(&path)?;
                let mut upload = tenant.state.upload().map_err(|error| internal(&error))?;
                let mut chunk = vec![0; CHUNK];
                loop {
                    let count = file
                        .read_at(&mut chunk, upload.bytes)
                        .map_err(|error| view.problem(error))?;
                    if count == 0 {
                        break;
                    }
                    upload.write(&chunk[..count]).map_err(|error| internal(&error))?;
                }
                files += 1;
                bytes += upload.bytes;
                let digest = upload.digest();
                store(upload, &digest, storage)?;
                FileState::File { digest, mode: Some(file.mode()) }
            }
        };
        tree.entries.insert(path, entry);
    }
    let text = serde_json::to_vec(&tree).map_err(|error| internal(&error))?;
    let stored = tenant.state.put_blob(&text, storage, now()).map_err(|error| internal(&error))?;
    let digest = stored.ok_or_else(|| storage_quota(storage))?;
    Ok((SnapshotInfo { tree: digest, files, bytes }, tree))
}

fn store(upload: super::super::state::Upload<'_>, digest: &str, storage: u64) -> Answered<()> {
    use super::super::state::Finished;
    match upload.finish(digest, storage, now()).map_err(|error| Problem::internal(&error))? {
        Finished::Stored => Ok(()),
        Finished::Full => Err(storage_quota(storage)),
        Finished::OtherDigest => Err(Problem::internal(&"a digest of the host is wrong")),
    }
}

/// Makes a workspace that has nothing changed equal to a tree, under the rules of the session: only
/// what differs is written.
pub(super) fn restore(tenant: &Tenant, view: &View, tree: &Tree, most: usize) -> Answered<()> {
    let found = view.walk(most)?;
    // Folders come after what is in them.
    for (path, kind) in found.iter().rev() {
        let is_same_kind = match tree.entries.get(path) {
            Some(FileState::Folder) => *kind == FileType::Directory,
            Some(FileState::File { .. }) => *kind == FileType::RegularFile,
            Some(FileState::Link { .. }) => *kind == FileType::Symlink,
            None => *kind == FileType::Directory && has_below(&tree.entries, path),
        };
        if !is_same_kind {
            view.remove(path, *kind == FileType::Directory)?;
        }
    }
    for (path, entry) in &tree.entries {
        view.create_parents(path)?;
        match entry {
            FileState::Folder => view.create_folder(path)?,
            FileState::Link { target } => {
                if view.read_link(path).ok().as_ref() != Some(target) {
                    view.link(path, target)?;
                }
            }
            FileState::File { digest, .. } => {
                if view.digest(path)?.as_deref() != Some(digest) {
                    let blob =
                        tenant.state.blob(digest).map_err(|error| Problem::internal(&error))?;
                    view.write(path, &mut blob.into_std())?;
                }
            }
        }
    }
    Ok(())
}

/// Copies the first files of a workspace, with changes applied to them.
pub(super) fn rebase(tenant: &Tenant, base: &Base, staged: &[StagedChange]) -> Answered<Base> {
    let more = staged.iter().map(|change| match &change.after {
        Some(NewEntry::File { bytes, .. }) => ENTRY + bytes.len() as u64,
        Some(NewEntry::Folder | NewEntry::Link(_)) => ENTRY,
        None => 0,
    });
    new_base(tenant, base.reserved.bytes + more.sum::<u64>(), |dir| {
        let (from, to) = (
            Dir::from_std_file(open_root(&base.path)?.into()),
            Dir::from_std_file(dir.try_clone()?),
        );
        copy_folder(&from, &to)?;
        for StagedChange { path, before, after, .. } in staged.iter().rev() {
            // What it would find now is behind a symlink that is about to be replaced.
            if before.is_none() {
                continue;
            }
            let old = to.symlink_metadata(path);
            let keeps = match (after, &old) {
                (Some(NewEntry::Folder), Ok(old)) => old.is_dir(),
                _ => false,
            };
            match old {
                Ok(old) if !keeps && old.is_dir() => to.remove_dir(path)?,
                Ok(_) if !keeps => to.remove_file(path)?,
                _ => {}
            }
        }
        for StagedChange { path, after, .. } in staged {
            match after {
                None => {}
                Some(NewEntry::Folder) => to.create_dir_all(path)?,
                Some(NewEntry::Link(target)) => to.symlink_contents(target, path)?,
                Some(NewEntry::File { bytes, mode }) => {
                    let options = &mut OpenOptions::new();
                    options.write(true).create_new(true).mode(mode & 0o777 | 0o600);
                    to.open_with(path, options)?.write_all(bytes)?;
                }
            }
        }
        Ok(())
    })
}

fn copy_folder(from: &Dir, to: &Dir) -> io::Result<()> {
    let mut folders = vec![std::path::PathBuf::from(".")];
    while let Some(folder) = folders.pop() {
        for entry in from.read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                to.create_dir(&path)?;
                folders.push(path);
            } else if kind.is_symlink() {
                to.symlink_contents(from.read_link_contents(&path)?, &path)?;
            } else {
                let mode = entry.metadata()?.mode() & 0o777;
                let options = &mut OpenOptions::new();
                options.write(true).create_new(true).mode(mode);
                io::copy(&mut from.open(&path)?, &mut to.open_with(&path, options)?)?;
            }
        }
    }
    Ok(())
}

/// Creates a folder of first files, which need at most so many bytes, and counts them.
fn new_base(
    tenant: &Tenant,
    most: u64,
    fill: impl FnOnce(&std::fs::File) -> io::Result<()>,
) -> Answered<Base> {
    let sessions = &tenant.sessions;
    let quota = tenant.settings().quotas.session_disk.0;
    let path = sessions.folder.join(BASES).join(format!("{:032x}", rand::random::<u128>()));
    let wrong = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists
        | io::ErrorKind::InvalidFilename
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => {
            Problem::invalid("one path of the files is a folder in another path, or too long")
        }
        _ => Problem::internal(&error),
    };
    let make = || -> io::Result<u64> {
        private::create_new(&path)?;
        let dir: std::fs::File = private::open_or_create(&path)?.into();
        fill(&dir)?;
        size_of(&Dir::from_std_file(dir))
    };
    // Removed again if something fails.
    let mut base = Base { path: path.clone(), reserved: sessions.reserve(most, quota)? };
    base.reserved.lower(make().map_err(wrong)?);
    Ok(base)
}

fn size_of(dir: &Dir) -> io::Result<u64> {
    let (mut bytes, mut folders) = (0, vec![std::path::PathBuf::from(".")]);
    while let Some(folder) = folders.pop() {
        for entry in dir.read_dir(&folder)? {
            let entry = entry?;
            bytes += ENTRY;
            if entry.file_type()?.is_dir() {
                folders.push(folder.join(entry.file_name()));
            } else {
                bytes += entry.metadata()?.len();
            }
        }
    }
    Ok(bytes)
}

/// The file layer of a whole session, whatever the rules of its skill say.
pub(super) fn whole(files: &Arc<skillhost_sandbox::files::SharedFiles>) -> Arc<Vfs> {
    files.open(EVERYTHING.clone())
}
