//! Checks the folders above the cache. A user who can write to one of them could replace the cache,
//! and with it the compiled code.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, FileType, Mode, Stat};
use rustix::process::{getegid, geteuid};

/// The most symlinks on a path, as in the kernel.
const LINKS: usize = 40;

/// Checks once per process that only this user and root can replace a part of a path. One of them
/// must own each folder on the way, also behind symlinks, and others must not be able to write to
/// it. Others can write to a folder with the sticky bit, such as /tmp, because they cannot rename
/// files of this user there.
///
/// # Errors
/// A folder that others can write to, with the fix.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    static CHECKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let path = std::path::absolute(path)?;
    let checked = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    if !checked().contains(&path) {
        walk(&path)?;
        checked().insert(path);
    }
    Ok(())
}

fn walk(path: &Path) -> io::Result<()> {
    let mut at = PathBuf::from("/");
    let mut rest = Vec::new();
    push(&mut rest, path);
    let (user, group, mut links) = (geteuid().as_raw(), getegid().as_raw(), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let stat = rustix::fs::statat(CWD, &next, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            // The last part is the cache itself. Its opener is stricter.
            judge(&next, &stat, (user, group), !rest.is_empty())?;
            at = next;
            continue;
        }
        judge(&next, &stat, (user, group), false)?;
        links += 1;
        if links > LINKS {
            return Err(io::Error::from(rustix::io::Errno::LOOP));
        }
        let target = std::fs::read_link(&next)?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        push(&mut rest, &target);
    }
    Ok(())
}

/// Pushes the parts of a path, the first on top.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    rest.extend(path.components().rev().filter_map(part));
}

fn judge(path: &Path, stat: &Stat, (user, group): (u32, u32), is_folder: bool) -> io::Result<()> {
    let refuse = |what: String| {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("the folder {} above the cache {what}", path.display()),
        ))
    };
    if stat.st_uid != 0 && stat.st_uid != user && !is_unmapped(stat.st_uid) {
        return refuse(format!(
            "is owned by user {}: choose another with XDG_CACHE_HOME",
            stat.st_uid
        ));
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !is_folder || mode.contains(Mode::SVTX) {
        return Ok(());
    }
    // A group with the same number as the user contains only that user. A volume of Kubernetes belongs
    // to root and such a group.
    let is_own_group =
        (stat.st_uid == user || stat.st_uid == 0) && group == user && stat.st_gid == user;
    if mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && !is_own_group) {
        return refuse(format!("is writable by others: `chmod go-w {}`", path.display()));
    }
    Ok(())
}

/// Checks whether a user has no number in this user namespace. Such a user is outside the namespace,
/// and may be root.
fn is_unmapped(user: u32) -> bool {
    const OVERFLOW: u32 = 65_534;
    let map = || {
        let mut map = String::new();
        #[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
        std::fs::File::open("/proc/self/uid_map").ok()?.take(4096).read_to_string(&mut map).ok()?;
        Some(map)
    };
    user == OVERFLOW
        && map().is_some_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make their own folders")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn folder(path: &Path, mode: u32) {
        std::fs::create_dir_all(path).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn parent_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (above, cache) = (dir.path().join("above"), dir.path().join("above/own/cache"));
        folder(&cache, 0o700);
        for (mode, accepted) in
            [(0o755, true), (0o700, true), (0o1777, true), (0o777, false), (0o757, false)]
        {
            folder(&above, mode);
            assert_eq!(walk(&cache).is_ok(), accepted, "{mode:o}");
        }
        folder(&above, 0o777);
        let why = walk(&cache).unwrap_err().to_string();
        assert!(why.contains("above") && why.contains("chmod go-w"), "{why}");
    }

    #[test]
    fn parent_of_another_user_is_refused() {
        // Only root can give a folder away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (above, cache) = (dir.path().join("above"), dir.path().join("above/own/cache"));
        folder(&cache, 0o700);
        assert!(walk(&cache).is_ok());
        std::os::unix::fs::chown(&above, Some(4_242), None).unwrap();
        let why = walk(&cache).unwrap_err().to_string();
        assert!(why.contains("owned by user 4242"), "{why}");
    }

    /// Folders of the user 1000 and of root, and one of a user outside of the namespace.
    #[test]
    fn a_group_may_write_only_if_it_has_the_number_of_the_user() {
        let dir = tempfile::tempdir().unwrap();
        let found = rustix::fs::stat(dir.path()).unwrap();
        let accepts = |owner: u32, group: u32, own_group: u32, mode: u32| {
            let mut stat = found;
            (stat.st_uid, stat.st_gid) = (owner, group);
            stat.st_mode = stat.st_mode & !0o7777 | mode;
            judge(dir.path(), &stat, (1000, own_group), true).is_ok()
        };
        assert!(accepts(1000, 1000, 1000, 0o770), "the user's own folder");
        assert!(accepts(0, 1000, 1000, 0o2775), "a volume of Kubernetes");
        assert!(!accepts(0, 1000, 1000, 0o2777), "others can write, too");
        assert!(!accepts(0, 100, 1000, 0o2775), "another group");
        assert!(!accepts(1000, 1000, 100, 0o770), "the user is in another group");
        assert!(!accepts(0, 0, 1000, 0o775), "the group of root");
        assert!(!accepts(65_534, 1000, 1000, 0o770), "an unknown owner");
    }

    #[test]
    fn parents_behind_symlinks_are_checked() {
        let dir = tempfile::tempdir().unwrap();
        for part in ["open/cache", "closed"] {
            folder(&dir.path().join(part), 0o700);
        }
        symlink("../open/cache", dir.path().join("closed/cache")).unwrap();
        symlink(dir.path().join("closed"), dir.path().join("open/back")).unwrap();
        symlink("loop", dir.path().join("closed/loop")).unwrap();
        for path in ["closed/cache", "open/back/cache"] {
            assert!(walk(&dir.path().join(path)).is_ok(), "{path}");
        }
        folder(&dir.path().join("open"), 0o777);
        for path in ["closed/cache", "open/back/cache", "open/back"] {
            assert!(walk(&dir.path().join(path)).is_err(), "{path}");
        }
        assert!(walk(&dir.path().join("closed/loop/x")).is_err());
    }
}
