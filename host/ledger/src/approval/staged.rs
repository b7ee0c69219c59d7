//! Applies staged writes, after approval, to folders that may have changed since the run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use skillhost_policy::protected::{REPOSITORY_CONFIG, leads_to_protected, normalize_name};
use skillhost_sandbox::files::{
    NewEntry, OldEntry, StagedChange, open_parent, open_root, read_file, stays_inside,
};
use skillhost_skill::runtime;

/// A staged write, and the host folder that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange {
    /// The host folder.
    pub folder: PathBuf,
    /// The write.
    pub staged: StagedChange,
}

/// Applies all writes or, if a path has changed since the run, none.
///
/// The run's rules were applied to these very paths. So no link is followed, since a link may lead
/// elsewhere by now.
///
/// # Errors
/// A path has changed, or cannot be written.
pub fn apply(changes: &[PendingChange]) -> io::Result<()> {
    let mut folders: BTreeMap<&Path, OwnedFd> = BTreeMap::new();
    for PendingChange { folder, .. } in changes {
        if !folders.contains_key(folder.as_path()) {
            folders.insert(folder, open_root(folder)?);
        }
    }
    for PendingChange { folder, staged } in changes {
        if found(&folders[folder.as_path()], &staged.path)? != staged.before {
            let path = folder.join(&staged.path);
            return Err(io::Error::other(format!(
                "{} has changed since the run, so nothing was written",
                path.display()
            )));
        }
    }
    for (folder, root) in &folders {
        refuse_repository(
            root,
            changes.iter().filter(|change| change.folder == **folder).map(|change| &change.staged),
        )?;
    }
    // Removals make room for new entries, the deepest first. New folders come before their
    // contents.
    let goes = |staged: &StagedChange| {
        staged.after.is_none()
            || is_folder(&staged.before) != matches!(staged.after, Some(NewEntry::Folder))
    };
    changes.iter().try_for_each(refuse_link)?;
    for PendingChange { folder, staged } in
        changes.iter().rev().filter(|change| goes(&change.staged))
    {
        let root = &folders[folder.as_path()];
        match &staged.before {
            Some(OldEntry::Folder) => remove(root, &staged.path, AtFlags::REMOVEDIR)?,
            Some(OldEntry::File(_) | OldEntry::Link(_)) => {
                remove(root, &staged.path, AtFlags::empty())?
            }
            None => {}
        }
    }
    for PendingChange { folder, staged } in changes {
        let root = &folders[folder.as_path()];
        match &staged.after {
            Some(NewEntry::Folder) if found(root, &staged.path)? != Some(OldEntry::Folder) => {
                make_folder(root, &staged.path)?
            }
            Some(NewEntry::File { bytes, mode }) => put(root, &staged.path, bytes, *mode)?,
            Some(NewEntry::Link(target)) => {
                let replaces = staged.before.is_some() && !is_folder(&staged.before);
                put_link(root, &staged.path, target, replaces)?
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses symlinks that programs on the host would follow out of the folder, or to a configuration
/// that the run wrote.
fn refuse_link(PendingChange { folder, staged }: &PendingChange) -> io::Result<()> {
    let Some(NewEntry::Link(target)) = &staged.after else { return Ok(()) };
    let fault = if !stays_inside(&staged.path, target) {
        "leads out of the folder"
    } else if leads_to_protected(&staged.path) {
        "has the name of a folder from which programs on the host read their configuration"
    } else {
        return Ok(());
    };
    let path = folder.join(&staged.path);
    let path = path.display();
    Err(io::Error::other(format!("the symlink {path} {fault}, so nothing was written")))
}

/// Refuses writes that turn a folder into a git repository with commands for git to run. The rules
/// were applied to what the folder contained during the run; together with what it has gained
/// since, the writes may complete a repository.
fn refuse_repository<'a>(
    root: &OwnedFd,
    changes: impl Iterator<Item = &'a StagedChange>,
) -> io::Result<()> {
    // The new entries of a repository, by folder. Other names do no harm.
    let mut folders: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for change in changes.filter(|change| change.after.is_some()) {
        let (folder, name) = change.path.rsplit_once('/').unwrap_or(("", &change.path));
        let name = normalize_name(name).into_owned();
        if matches!(&*name, "head" | "objects") || REPOSITORY_CONFIG.contains(&&*name) {
            folders.entry(folder).or_default().insert(name);
        }
    }
    for (folder, comes) in folders {
        let path = |name: &str| {
            if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
        };
        let is_there = |name: &str| {
            open_parent(root.as_fd(), &path(name))
                .and_then(|(folder, name)| fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW))
                .is_ok()
        };
        let comes = |name: &str| comes.contains(&*normalize_name(name));
        let runs = |has: &dyn Fn(&str) -> bool| match has("HEAD")
            && (has("objects") || has("commondir"))
        {
            true => REPOSITORY_CONFIG.into_iter().find(|name| has(name)),
            false => None,
        };
        let together = runs(&|name| is_there(name) || comes(name));
        if let Some(name) = together.filter(|_| runs(&is_there).is_none() && runs(&comes).is_none())
        {
            return Err(io::Error::other(format!(
                "git would run commands from `{}`, so nothing was written",
                path(name)
            )));
        }
    }
    Ok(())
}

fn is_folder(before: &Option<OldEntry>) -> bool {
    *before == Some(OldEntry::Folder)
}

/// Returns what is at a path now.
fn found(root: &OwnedFd, path: &str) -> io::Result<Option<OldEntry>> {
    let stat = open_parent(root.as_fd(), path)
        .and_then(|(folder, name)| fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW));
    let kind = match stat {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(match kind {
        FileType::Directory => OldEntry::Folder,
        FileType::RegularFile => {
            let mut bytes = Vec::new();
            read_file(root.as_fd(), path)?.read_to_end(&mut bytes)?;
            OldEntry::File(runtime::digest(&bytes))
        }
        FileType::Symlink => {
            let (folder, name) = open_parent(root.as_fd(), path)?;
            match fs::readlinkat(&folder, name, Vec::new())?.into_string() {
                Ok(target) => OldEntry::Link(target),
                Err(_) => OldEntry::File(String::new()),
            }
        }
        // The run could not have seen a digest of it.
        _ => OldEntry::File(String::new()),
    }))
}

fn remove(root: &OwnedFd, path: &str, flags: AtFlags) -> io::Result<()> {
    let (folder, name) = open_parent(root.as_fd(), path)?;
    Ok(fs::unlinkat(&folder, name, flags)?)
}

fn make_folder(root: &OwnedFd, path: &str) -> io::Result<()> {
    let (folder, name) = open_parent(root.as_fd(), path)?;
    Ok(fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777))?)
}

/// Creates a symlink. If it `replaces` an entry, creates it with a temporary name in the same folder,
/// and renames it.
fn put_link(root: &OwnedFd, path: &str, target: &str, replaces: bool) -> io::Result<()> {
    let (folder, name) = open_parent(root.as_fd(), path)?;
    if !replaces {
        return Ok(fs::symlinkat(target, &folder, name)?);
    }
    let temporary = format!(".skillhost-{}", std::process::id());
    fs::symlinkat(target, &folder, &temporary)?;
    let renamed = fs::renameat(&folder, &temporary, &folder, name).map_err(io::Error::from);
    renamed.inspect_err(|_| {
        // The first error says more than a second one would.
        let _ = fs::unlinkat(&folder, &temporary, AtFlags::empty());
    })
}

/// Writes a temporary file in the same folder, and renames it.
fn put(root: &OwnedFd, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (folder, name) = open_parent(root.as_fd(), path)?;
    let temporary = format!(".skillhost-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let written = fs::openat(&folder, &temporary, flags, Mode::from_raw_mode(0o600))
        .map_err(io::Error::from)
        .and_then(|file| {
            let mut file = std::fs::File::from(file);
            file.write_all(bytes)?;
            fs::fchmod(&file, Mode::from_raw_mode(mode))?;
            Ok(fs::renameat(&folder, &temporary, &folder, name)?)
        });
    written.inspect_err(|_| {
        // The first error says more than a second one would.
        let _ = fs::unlinkat(&folder, &temporary, AtFlags::empty());
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up and read real folders")]
mod tests {
    use super::*;

    fn change(folder: &Path, path: &str, before: Option<OldEntry>) -> PendingChange {
        let after = Some(NewEntry::File { bytes: b"new".to_vec(), mode: 0o644 });
        PendingChange {
            folder: folder.to_owned(),
            staged: StagedChange { guest: "/workspace".into(), path: path.into(), before, after },
        }
    }

    #[test]
    fn two_approvals_cannot_complete_a_git_repository() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        std::fs::create_dir(work.join("objects")).unwrap();
        apply(&[change(&work, "HEAD", None)]).unwrap();
        for name in ["config", "hooks"] {
            assert!(
                apply(&[change(&work, "beside", None), change(&work, name, None)]).is_err(),
                "{name}"
            );
        }
        assert!(!work.join("beside").exists(), "nothing was written");
        apply(&[change(&work, "readme", None)]).unwrap();
    }

    #[test]
    fn staged_symlinks_do_not_lead_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        let link = |path: &str, before: Option<&str>, target: &str| PendingChange {
            folder: work.clone(),
            staged: StagedChange {
                guest: "/workspace".into(),
                path: path.into(),
                before: before.map(|target| OldEntry::Link(target.to_owned())),
                after: Some(NewEntry::Link(target.to_owned())),
            },
        };
        let target = |path: &str| std::fs::read_link(work.join(path)).ok();
        for outside in ["/etc/passwd", "..", "../x", "a/../../x", "a/../x"] {
            let changes = [change(&work, "beside", None), link("link", None, outside)];
            assert!(apply(&changes).is_err(), "{outside}");
            assert!(target("link").is_none() && !work.join("beside").exists(), "{outside}");
        }
        apply(&[link("link", None, "a/b")]).unwrap();
        apply(&[link("link", Some("a/b"), "c")]).unwrap();
        assert_eq!(target("link").unwrap(), Path::new("c"));
        assert!(apply(&[link("link", Some("a/b"), "d")]).is_err(), "it has changed since the run");
        let removal = StagedChange { after: None, ..link("link", Some("c"), "").staged };
        apply(&[PendingChange { folder: work.clone(), staged: removal }]).unwrap();
        assert!(target("link").is_none());
    }

    #[test]
    fn staged_symlinks_do_not_take_the_place_of_folders_of_protected_files() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        std::fs::create_dir(work.join("a")).unwrap();
        for path in [".github", ".GITHUB", "a/.config", "a/.local"] {
            let mut link = change(&work, path, None);
            link.staged.after = Some(NewEntry::Link("d".into()));
            let changes = [change(&work, "copilot-instructions.md", None), link];
            let error = apply(&changes).unwrap_err().to_string();
            assert!(error.contains("read their configuration"), "{path}: {error}");
        }
        assert!(!work.join("copilot-instructions.md").exists(), "nothing was written");
    }

    #[test]
    fn staged_removal_of_a_symlink_whose_target_is_not_text_is_applied() {
        use std::os::unix::ffi::OsStrExt as _;

        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().canonicalize().unwrap();
        let target = std::ffi::OsStr::from_bytes(b"not-\xff-text");
        std::os::unix::fs::symlink(target, work.join("link")).unwrap();
        let mut removal = change(&work, "link", Some(OldEntry::File(String::new())));
        removal.staged.after = None;
        apply(&[removal]).unwrap();
        assert!(work.join("link").symlink_metadata().is_err());
    }

    #[test]
    fn staged_writes_follow_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("work/.git")).unwrap();
        std::fs::create_dir_all(root.join("work/out")).unwrap();
        std::fs::write(root.join("work/.git/config"), "old").unwrap();
        let (work, old) = (root.join("work"), Some(OldEntry::File(runtime::digest(b"old"))));
        apply(&[change(&work, "out/config", None)]).unwrap();
        assert_eq!(std::fs::read(work.join("out/config")).unwrap(), b"new");
        // A link has replaced the folder since the run.
        std::fs::remove_dir_all(work.join("out")).unwrap();
        std::os::unix::fs::symlink(".git", work.join("out")).unwrap();
        for before in [None, old.clone()] {
            assert!(
                apply(&[
                    change(&work, "out/config", before.clone()),
                    change(&work, "out/hook", None)
                ])
                .is_err(),
                "{before:?}"
            );
        }
        // A link has replaced a folder on the way.
        std::os::unix::fs::symlink("work", root.join("link")).unwrap();
        assert!(apply(&[change(&root.join("link"), "file", None)]).is_err());
        // A link is in the file's place; the run saw no file there.
        std::os::unix::fs::symlink(".git/config", work.join("settings")).unwrap();
        assert!(apply(&[change(&work, "settings", old)]).is_err());
        assert_eq!(std::fs::read(work.join(".git/config")).unwrap(), b"old");
        assert!(!work.join(".git/hook").exists() && !work.join("file").exists());
    }
}
