//! The only way into a host folder: a canonical relative path below an open folder, without
//! symlinks.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

use super::guard;
use super::mount::open_without_symlinks;

/// Flags for a folder that is opened only as a starting point.
pub(super) const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Resolution does not cross mounts: a file system mounted below a granted folder, such as `/proc`
/// or a second name of the host's own state, was not granted.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// How often to retry an `openat2` that may yet succeed.
const TRIES: usize = 64;

/// Opens a host folder for [`open_parent`] and [`read_file`]. No component of its path may be a
/// symlink.
///
/// # Errors
/// `LOOP` if one is a symlink; otherwise as for `openat`.
pub fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    open_without_symlinks(path)
}

/// Opens the folder that contains an entry, and returns it with the entry's name. No component of
/// `rel` before the name may be a symlink or lead to another mount.
///
/// # Errors
/// `LOOP`, `NOTDIR` or `XDEV` if one does; otherwise as for `openat`.
pub fn open_parent<'p>(root: BorrowedFd<'_>, rel: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
    let (folder, name) = split(rel);
    Ok((open(root, folder, FOLDER)?, check_component(name)?))
}

/// Opens a file for reading, without following symlinks.
///
/// # Errors
/// As for [`open_parent`].
pub fn read_file(root: BorrowedFd<'_>, rel: &str) -> Result<std::fs::File, Errno> {
    Ok(open(root, rel, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)?.into())
}

/// Opens `rel`, a canonical path below `root`; the empty path is `root` itself. A new file gets
/// mode 0666 minus the umask.
pub(super) fn open(root: BorrowedFd<'_>, rel: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if rel.is_empty() { "." } else { rel };
    let flags = flags | OFlags::CLOEXEC;
    let mut tries = 0;
    loop {
        match fs::openat2(root, path, flags, mode(flags), BENEATH) {
            // AGAIN: a rename elsewhere raced with the lookup, or another process holds a lease on
            // the file.
            Err(Errno::INTR | Errno::AGAIN) if tries < TRIES => tries += 1,
            // NOSYS: the kernel lacks `openat2`. PERM: a container forbids unknown system calls.
            // The fallback is equally strict.
            Err(Errno::NOSYS | Errno::PERM) => return open_by_component(root, rel, flags),
            done => return done,
        }
    }
}

/// Checks whether the kernel has `openat2`, and this process may call it.
pub(crate) fn has_openat2() -> bool {
    let opened = fs::openat2(fs::CWD, ".", FOLDER, Mode::empty(), BENEATH);
    !matches!(opened, Err(Errno::NOSYS | Errno::PERM))
}

/// The fallback for kernels without `openat2`: opens one folder after the other and follows no
/// symlink.
fn open_by_component(root: BorrowedFd<'_>, rel: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let (folders, name) = split(rel);
    let mount = guard::mount_id(root)?;
    let within = |opened: OwnedFd| {
        if guard::mount_id(&opened)? == mount { Ok(opened) } else { Err(Errno::XDEV) }
    };
    let mut folder: Option<OwnedFd> = None;
    for component in folders.split('/').filter(|c| !c.is_empty()) {
        let at = folder.as_ref().map_or(root, AsFd::as_fd);
        folder = Some(within(fs::openat(
            at,
            check_component(component)?,
            FOLDER | OFlags::NOFOLLOW,
            Mode::empty(),
        )?)?);
    }
    let at = folder.as_ref().map_or(root, AsFd::as_fd);
    let name = if name.is_empty() { "." } else { check_component(name)? };
    within(fs::openat(at, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode(flags))?)
}

/// Refuses `.` and `..`: a path that is not canonical would be a hole.
fn check_component(component: &str) -> Result<&str, Errno> {
    if matches!(component, "." | "..") { Err(Errno::INVAL) } else { Ok(component) }
}

fn mode(flags: OFlags) -> Mode {
    if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o666) } else { Mode::empty() }
}

/// The folder that contains an entry: `root` itself, or one below it.
pub(super) enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Root(fd) => *fd,
            Parent::Below(fd) => fd.as_fd(),
        }
    }
}

/// Opens the folder that contains `rel`, and returns it with the entry's name.
pub(super) fn parent<'a, 'p>(
    root: BorrowedFd<'a>,
    rel: &'p str,
) -> Result<(Parent<'a>, &'p str), Errno> {
    let (folder, name) = split(rel);
    let parent = if folder.is_empty() {
        Parent::Root(root)
    } else {
        Parent::Below(open(root, folder, FOLDER)?)
    };
    Ok((parent, check_component(name)?))
}

/// Returns the metadata of `rel`, without following a symlink at its end.
pub(super) fn stat(root: BorrowedFd<'_>, rel: &str) -> Result<Stat, Errno> {
    if rel.is_empty() {
        return fs::fstat(root);
    }
    let (parent, name) = parent(root, rel)?;
    fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns the target of the symlink `rel`.
pub(super) fn read_link(root: BorrowedFd<'_>, rel: &str) -> Result<String, Errno> {
    let (parent, name) = parent(root, rel)?;
    fs::readlinkat(&parent, name, Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)
}

/// Lists a folder, unsorted, without `.` and `..`.
pub(super) fn list(root: BorrowedFd<'_>, rel: &str) -> Result<Vec<(CString, FileType)>, Errno> {
    let folder = open(root, rel, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = vec![MaybeUninit::<u8>::uninit(); 32 << 10];
    let mut entries = RawDir::new(&folder, &mut buffer);
    let mut found = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind(&fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?),
            known => known,
        };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

/// Returns the file type of a `Stat`.
pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the size of a file, which is never negative.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Splits a path into its folder and its last name; the folder of a top-level name is the empty
/// path.
pub(super) fn split(rel: &str) -> (&str, &str) {
    rel.rsplit_once('/').unwrap_or(("", rel))
}

/// Joins a folder and a name; the empty path is the top.
pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Returns the folders above a path, the nearest last: `a/b/c` yields `a`, `a/b`.
pub(super) fn ancestors(rel: &str) -> impl DoubleEndedIterator<Item = &str> {
    rel.match_indices('/').map(|(at, _)| &rel[..at])
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set up real folders")]
mod tests {
    use super::*;

    #[test]
    fn paths_do_not_cross_mounts() {
        let root = fs::open("/", FOLDER, Mode::empty()).unwrap();
        assert_ne!(
            guard::mount_id(&root),
            guard::mount_id(fs::open("/proc", FOLDER, Mode::empty()).unwrap()),
            "/proc is a mount"
        );
        for open in [open, open_by_component] {
            for (rel, flags) in [
                ("proc", FOLDER),
                ("proc/self/mem", OFlags::RDWR),
                ("proc/version", OFlags::RDONLY),
                ("dev/../proc", FOLDER),
            ] {
                let error = open(root.as_fd(), rel, flags).unwrap_err();
                assert!(
                    matches!(error, Errno::XDEV | Errno::INVAL | Errno::LOOP),
                    "{rel}: {error}"
                );
            }
        }
    }

    #[test]
    fn parent_folders_are_opened_without_following_symlinks() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::fs::create_dir_all(at.join("root/a/b")).unwrap();
        std::fs::create_dir_all(at.join("outside/b")).unwrap();
        std::os::unix::fs::symlink("../outside", at.join("root/link")).unwrap();
        let root = fs::open(at.join("root"), FOLDER, Mode::empty()).unwrap();
        assert_eq!(open_parent(root.as_fd(), "a/b/file").unwrap().1, "file");
        for rel in ["link/file", "link/b/file"] {
            assert!(
                matches!(
                    open_parent(root.as_fd(), rel),
                    Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV)
                ),
                "{rel}"
            );
        }
    }

    #[test]
    fn fallback_without_openat2_is_equally_strict() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::fs::create_dir_all(at.join("root/a/b")).unwrap();
        std::fs::write(at.join("root/a/b/file"), "x").unwrap();
        std::fs::write(at.join("outside"), "secret").unwrap();
        std::os::unix::fs::symlink("../outside", at.join("root/out")).unwrap();
        std::os::unix::fs::symlink("a", at.join("root/in")).unwrap();
        let root = fs::open(at.join("root"), FOLDER, Mode::empty()).unwrap();
        for open in [open, open_by_component] {
            let try_open = |rel: &str, flags| open(root.as_fd(), rel, flags);
            assert!(try_open("a/b/file", OFlags::RDONLY).is_ok());
            assert!(try_open("", OFlags::RDONLY | OFlags::DIRECTORY).is_ok());
            for (rel, flags) in [
                ("out", OFlags::RDONLY),
                ("in/b/file", OFlags::RDONLY),
                ("in", OFlags::RDONLY | OFlags::DIRECTORY),
                ("../outside", OFlags::RDONLY),
                ("a/../../outside", OFlags::RDONLY),
                ("out", OFlags::WRONLY | OFlags::CREATE),
            ] {
                let error = try_open(rel, flags).unwrap_err();
                assert!(
                    matches!(error, Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::INVAL),
                    "{rel}: {error}"
                );
            }
            assert_eq!(try_open("a/none", OFlags::RDONLY).unwrap_err(), Errno::NOENT);
        }
    }
}
