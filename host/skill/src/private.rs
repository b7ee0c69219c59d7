//! Folders that no other user of this machine can enter.
//!
//! The host creates all its own folders here: scratch space, sessions, recordings, state, cache and
//! keys. The mode is 0700 whatever the umask, and the last part of a path may not be a symlink.
//! Clippy forbids the standard functions that create folders.
//!
//! A [`TempFolder`] stays locked while its owner lives, so [`sweep`] can tell a folder in use from
//! one whose owner was killed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::files::FileIdentity;

const PRIVATE: Mode = Mode::RWXU;
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The number of names that are tried for a temporary folder.
const TRIES: usize = 16;

/// The purpose of a temporary folder. It is part of the folder's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Scratch space and overlays of one run.
    Run,
    /// The copy of a skill for one run.
    Copy,
    /// The workspace of one MCP session.
    Session,
    /// An unfinished recording.
    Recording,
    /// The folders of a replay.
    Replay,
    /// The copy of a workspace for verifying a receipt.
    Verification,
    /// The folders of a test case.
    Test,
    /// The home folder of an agent.
    Home,
    /// What was fetched, before it is used.
    Fetch,
    /// Skills that are part of the program.
    Embedded,
}

/// Returns the prefixes of the names of temporary folders.
pub fn prefixes() -> impl Iterator<Item = &'static str> {
    Purpose::ALL.into_iter().map(Purpose::prefix)
}

impl Purpose {
    const ALL: [Purpose; 10] = [
        Purpose::Run,
        Purpose::Copy,
        Purpose::Session,
        Purpose::Recording,
        Purpose::Replay,
        Purpose::Verification,
        Purpose::Test,
        Purpose::Home,
        Purpose::Fetch,
        Purpose::Embedded,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Purpose::Run => "skillhost-run-",
            Purpose::Copy => "skillhost-copy-",
            Purpose::Session => "skillhost-session-",
            Purpose::Recording => "skillhost-record-",
            Purpose::Replay => "skillhost-replay-",
            Purpose::Verification => "skillhost-verify-",
            Purpose::Test => "skillhost-test-",
            Purpose::Home => "skillhost-home-",
            Purpose::Fetch => "skillhost-fetch-",
            Purpose::Embedded => "skillhost-embedded-",
        }
    }
}

/// A private folder that is removed when this value is dropped.
#[derive(Debug)]
pub struct TempFolder {
    path: PathBuf,
    /// Holds the lock that keeps [`sweep`] away.
    folder: OwnedFd,
    /// The folder's metadata when it was created.
    created: Metadata,
    is_kept: bool,
}

/// What the creation, the removal or the renaming of an entry changes in a folder's metadata, and
/// so do changes of the metadata itself.
#[derive(Debug, PartialEq, Eq)]
struct Metadata {
    identity: FileIdentity,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: i64,
}

impl Metadata {
    #[allow(clippy::useless_conversion, reason = "the widths depend on the architecture")]
    fn of(stat: &Stat) -> Metadata {
        Metadata {
            identity: FileIdentity::of_stat(stat),
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            links: stat.st_nlink.into(),
            size: stat.st_size,
        }
    }
}

impl TempFolder {
    /// Creates a folder in `within`.
    ///
    /// # Errors
    /// `within` does not exist or is not writable.
    pub fn new_in(within: &Path, purpose: Purpose) -> io::Result<TempFolder> {
        let within = std::path::absolute(within)?;
        for _ in 0..TRIES {
            let path = within.join(format!("{}{:016x}", purpose.prefix(), rand::random::<u64>()));
            match create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                // A sweep may remove the folder before it is locked. Then create another one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && within.is_dir() => {
                    continue;
                }
                made => made?,
            }
            let folder = match open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                folder => folder?,
            };
            match fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => continue,
                locked => locked?,
            }
            let (own, named) =
                (fs::fstat(&folder)?, fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW));
            if named.is_ok_and(|named| (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)) {
                let created = Metadata::of(&own);
                return Ok(TempFolder { path, folder, created, is_kept: false });
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("no free name in {}", within.display()),
        ))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether the folder is as it was created: at its path, empty, and with the same
    /// metadata. Does not notice an entry that was created and removed within the tick of the
    /// kernel's clock in which the folder was created, which leaves no trace either.
    pub fn is_pristine(&self) -> bool {
        let is_same = |stat: Stat| Metadata::of(&stat) == self.created;
        fs::statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_same)
            && entries(self.folder.as_fd()).is_ok_and(|entries| entries.is_empty())
            && fs::fstat(&self.folder).is_ok_and(is_same)
    }

    /// Creates and opens a folder inside this one.
    ///
    /// # Errors
    /// The name exists, or the file system fails.
    pub fn create(&self, name: &str) -> io::Result<OwnedFd> {
        fs::mkdirat(&self.folder, name, PRIVATE)?;
        Ok(fs::openat(&self.folder, name, FOLDER, Mode::empty())?)
    }

    /// Unlocks the folder and does not remove it, for example because it was moved.
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    /// Removes the folder now, and reports errors.
    ///
    /// # Errors
    /// Something in it could not be removed.
    pub fn close(mut self) -> io::Result<()> {
        self.is_kept = true;
        self.remove()
    }

    fn remove(&self) -> io::Result<()> {
        empty(self.folder.as_fd())?;
        std::fs::remove_dir(&self.path)
    }
}

impl AsFd for TempFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = self.remove()
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove a temporary folder; a later sweep will");
        }
    }
}

/// Creates a private folder.
///
/// # Errors
/// The name exists, or the file system fails.
pub fn create_new(path: &Path) -> io::Result<()> {
    fs::mkdirat(CWD, path, PRIVATE)?;
    let own = fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if Mode::from_raw_mode(own.st_mode).contains(PRIVATE) {
        return Ok(());
    }
    // The umask removed permissions of the owner. The path is the new folder and not a symlink.
    Ok(fs::chmodat(CWD, path, PRIVATE, AtFlags::empty())?)
}

/// Creates a private folder and any missing parents. Does not change existing folders, because the
/// operator chose them.
///
/// # Errors
/// A part of the path is not a folder, or the file system fails.
pub fn create_missing(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_missing(path.parent().ok_or(error)?)?;
            create_new(path)
        }
        made => made,
    }
    .or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })
}

/// Opens a folder of the host, and creates it if it is missing. Removes the permissions of other
/// users if they can only read it.
///
/// # Errors
/// The path is a symlink or not a folder, another user owns the folder, or others can write to it.
pub fn open_or_create(path: &Path) -> io::Result<OwnedFd> {
    let folder = match open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_missing(path)?;
            open(path)?
        }
        folder => folder?,
    };
    let found = fs::fstat(&folder)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    if found.st_uid != rustix::process::geteuid().as_raw()
        || mode.intersects(Mode::WGRP | Mode::WOTH)
    {
        let message = format!(
            "other users own the folder {0} or can write to it: `chown` it, and `chmod 700 {0}`",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        fs::fchmod(&folder, PRIVATE)?;
    }
    Ok(folder)
}

/// Removes temporary folders in `within` whose owners are gone. Returns their number.
///
/// Removes only real folders of this user that have the mode and the name of a [`TempFolder`], and
/// whose lock is free.
///
/// # Errors
/// `within` cannot be read.
pub fn sweep(within: &Path) -> io::Result<usize> {
    // The folder for temporary files may be a symlink, because the operator chose it.
    let within = fs::open(within, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
    let mut swept = 0;
    for (name, kind) in entries(within.as_fd())? {
        if kind != Kind::Folder || !is_ours(&name) {
            continue;
        }
        match sweep_one(within.as_fd(), &name) {
            Ok(true) => swept += 1,
            Ok(false) => {}
            Err(error) => tracing::debug!(?name, %error, "cannot remove a stale folder"),
        }
    }
    Ok(swept)
}

/// Removes a folder and everything in it, also what is read-only, without following symlinks. The
/// caller has created it with this module or below such a folder.
///
/// # Errors
/// The folder does not exist, or something in it cannot be removed.
pub fn remove(within: impl AsFd, name: &str) -> io::Result<()> {
    let folder = fs::openat(&within, name, FOLDER, Mode::empty())?;
    if !Mode::from_raw_mode(fs::fstat(&folder)?.st_mode).contains(PRIVATE) {
        fs::fchmod(&folder, PRIVATE)?;
    }
    empty(folder.as_fd())?;
    Ok(fs::unlinkat(&within, name, AtFlags::REMOVEDIR)?)
}

/// Checks whether a name is that of a [`TempFolder`].
fn is_ours(name: &CStr) -> bool {
    let is_random = |rest: &[u8]| {
        rest.len() == 16 && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    Purpose::ALL.iter().any(|purpose| {
        name.to_bytes().strip_prefix(purpose.prefix().as_bytes()).is_some_and(is_random)
    })
}

fn sweep_one(within: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    let folder = fs::openat(within, name, FOLDER, Mode::empty())?;
    let found = fs::fstat(&folder)?;
    let own = found.st_uid == rustix::process::geteuid().as_raw();
    if !own || Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
        return Ok(false);
    }
    match fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(false),
        locked => locked?,
    }
    empty(folder.as_fd())?;
    fs::unlinkat(within, name, AtFlags::REMOVEDIR)?;
    Ok(true)
}

/// Removes everything in a folder without following symlinks.
///
/// Moves nested folders to the top before emptying them. A guest may leave a deep tree, which
/// therefore needs neither stack nor file descriptors.
fn empty(top: BorrowedFd<'_>) -> io::Result<()> {
    let (unique, mut moved) = (rand::random::<u64>(), 0_u64);
    loop {
        let folders = unlink_files(top)?;
        if folders.is_empty() {
            return Ok(());
        }
        for name in folders {
            let folder = open_writable(top, &name)?;
            for inner in unlink_files(folder.as_fd())? {
                // Moving a folder changes its `..` entry, so the folder itself must be writable.
                open_writable(folder.as_fd(), &inner)?;
                moved += 1;
                fs::renameat(&folder, &inner, top, format!("{unique:016x}.{moved}"))?;
            }
            fs::unlinkat(top, &name, AtFlags::REMOVEDIR)?;
        }
    }
}

/// Removes everything except folders, and returns the folders.
fn unlink_files(folder: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let (folders, files): (Vec<_>, Vec<_>) =
        entries(folder)?.into_iter().partition(|(_, kind)| *kind == Kind::Folder);
    for (name, _) in files {
        match fs::unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(folders.into_iter().map(|(name, _)| name).collect())
}

fn open_writable(within: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let folder = fs::openat(within, name, FOLDER, Mode::empty())?;
    if !Mode::from_raw_mode(fs::fstat(&folder)?.st_mode).contains(PRIVATE) {
        fs::fchmod(&folder, PRIVATE)?;
    }
    Ok(folder)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Other,
}

/// Returns all entries except `.` and `..`.
fn entries(folder: BorrowedFd<'_>) -> io::Result<Vec<(CString, Kind)>> {
    let mut found = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let file_type = match entry.file_type() {
            FileType::Unknown => match fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => FileType::from_raw_mode(found?.st_mode),
            },
            known => known,
        };
        let kind = if file_type == FileType::Directory { Kind::Folder } else { Kind::Other };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::open(path, FOLDER, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]

    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.symlink_metadata().unwrap().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Creates the folder that a killed host leaves: its lock is free.
    fn stale(within: &Path, purpose: Purpose) -> PathBuf {
        let folder = TempFolder::new_in(within, purpose).unwrap();
        let path = folder.path().to_owned();
        std::fs::create_dir_all(path.join("tmp/deep")).unwrap();
        std::fs::write(path.join("tmp/deep/secret"), "text").unwrap();
        folder.keep();
        path
    }

    #[test]
    fn temporary_folders_are_private_and_removed() {
        let within = tempfile::tempdir().unwrap();
        for purpose in Purpose::ALL {
            let folder = TempFolder::new_in(within.path(), purpose).unwrap();
            folder.create("inner").unwrap();
            assert_eq!(
                (mode(folder.path()), mode(&folder.path().join("inner"))),
                (0o700, 0o700),
                "{purpose:?}"
            );
            let path = folder.path().to_owned();
            drop(folder);
            assert!(!path.exists(), "{purpose:?}");
        }
    }

    #[test]
    fn folders_in_use_survive_sweeps_at_any_moment() {
        let within = tempfile::tempdir().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    sweep(within.path()).unwrap();
                }
            });
            let make = || -> io::Result<()> {
                let folder = TempFolder::new_in(within.path(), Purpose::Run)?;
                fs::mkdirat(folder.create("inner")?, "nested", PRIVATE)?;
                fs::statat(CWD, folder.path().join("inner/nested"), AtFlags::empty())?;
                Ok(())
            };
            let made = (0..1_000).try_for_each(|_| make());
            done.store(true, Ordering::Relaxed);
            made.unwrap();
        });
    }

    #[test]
    fn changed_temporary_folder_is_not_pristine() {
        let within = tempfile::tempdir().unwrap();
        let new = || TempFolder::new_in(within.path(), Purpose::Session).unwrap();
        assert!(new().is_pristine());
        type Change = fn(&Path);
        let changes: [(&str, Change); 5] = [
            ("a file", |path| std::fs::write(path.join("x"), "").unwrap()),
            ("a file that is gone", |path| {
                std::fs::write(path.join("x"), "").unwrap();
                std::fs::remove_file(path.join("x")).unwrap();
            }),
            ("a mode", |path| set_mode(path, 0o500)),
            ("a time", |path| {
                let time = fs::Timespec { tv_sec: 1, tv_nsec: 0 };
                let times = fs::Timestamps { last_access: time, last_modification: time };
                fs::utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
            }),
            ("another name", |path| std::fs::rename(path, path.with_extension("x")).unwrap()),
        ];
        for (what, change) in changes {
            let folder = new();
            // Longer than a tick of the kernel's clock.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(folder.is_pristine(), "{what}");
            change(folder.path());
            assert!(!folder.is_pristine(), "{what}");
            if !folder.path().exists() {
                std::fs::rename(folder.path().with_extension("x"), folder.path()).unwrap();
            }
        }
    }

    #[test]
    fn new_parents_are_private_and_existing_ones_unchanged() {
        let within = tempfile::tempdir().unwrap();
        set_mode(within.path(), 0o755);
        create_missing(&within.path().join("a/b")).unwrap();
        create_missing(&within.path().join("a/b")).unwrap();
        assert_eq!(
            (mode(within.path()), mode(&within.path().join("a")), mode(&within.path().join("a/b"))),
            (0o755, 0o700, 0o700)
        );
        assert!(create_new(&within.path().join("a")).is_err());
        std::fs::write(within.path().join("file"), "").unwrap();
        assert!(
            create_missing(&within.path().join("file")).is_err()
                && create_missing(&within.path().join("file/x")).is_err()
        );
    }

    #[test]
    fn readable_folder_is_closed_to_others() {
        let within = tempfile::tempdir().unwrap();
        let path = within.path().join("own");
        for before in [0o755, 0o750, 0o711, 0o700] {
            let _ = std::fs::create_dir(&path);
            set_mode(&path, before);
            open_or_create(&path).unwrap();
            assert_eq!(mode(&path), 0o700, "{before:o}");
        }
    }

    #[test]
    fn folder_that_others_can_write_is_refused() {
        let within = tempfile::tempdir().unwrap();
        let path = within.path().join("own");
        std::fs::create_dir(&path).unwrap();
        for unsafe_mode in [0o777, 0o770, 0o702] {
            set_mode(&path, unsafe_mode);
            let error = open_or_create(&path).unwrap_err();
            assert_eq!(
                (error.kind(), mode(&path)),
                (io::ErrorKind::PermissionDenied, unsafe_mode),
                "{error}"
            );
        }
    }

    #[test]
    fn symlink_in_place_of_a_folder_is_refused() {
        let within = tempfile::tempdir().unwrap();
        let target = within.path().join("target");
        std::fs::create_dir(&target).unwrap();
        set_mode(&target, 0o755);
        let path = within.path().join("own");
        symlink(&target, &path).unwrap();
        assert!(open_or_create(&path).is_err() && create_new(&path).is_err());
        assert_eq!(mode(&target), 0o755);
    }

    #[test]
    fn sweep_removes_stale_folders_of_every_purpose() {
        let within = tempfile::tempdir().unwrap();
        let paths = Purpose::ALL.map(|purpose| stale(within.path(), purpose));
        assert_eq!(sweep(within.path()).unwrap(), paths.len());
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }

    #[test]
    fn sweep_leaves_locked_folders() {
        let within = tempfile::tempdir().unwrap();
        let held = TempFolder::new_in(within.path(), Purpose::Session).unwrap();
        std::fs::write(held.path().join("file"), "text").unwrap();
        assert_eq!(sweep(within.path()).unwrap(), 0);
        assert!(held.path().join("file").exists());
        held.close().unwrap();
    }

    #[test]
    fn sweep_follows_no_symlinks() {
        let (within, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // As private as the host's own folders, so the mode does not protect it.
        set_mode(elsewhere.path(), 0o700);
        std::fs::write(elsewhere.path().join("precious"), "text").unwrap();
        let planted = within.path().join("skillhost-run-0123456789abcdef");
        symlink(elsewhere.path(), &planted).unwrap();
        let inside = stale(within.path(), Purpose::Run);
        symlink(elsewhere.path(), inside.join("link")).unwrap();
        symlink(elsewhere.path(), inside.join("tmp/link")).unwrap();
        assert_eq!(sweep(within.path()).unwrap(), 1);
        assert!(planted.is_symlink() && !inside.exists());
        assert!(elsewhere.path().join("precious").exists());
    }

    #[test]
    fn sweep_leaves_folders_that_the_host_did_not_create() {
        let within = tempfile::tempdir().unwrap();
        let names = [
            "skillhost-build",
            "skillhost-run-",
            "skillhost-run-0123456789ABCDEF",
            "skillhost-other-0123456789abcdef",
            "x",
        ];
        for name in names {
            std::fs::create_dir(within.path().join(name)).unwrap();
            set_mode(&within.path().join(name), 0o700);
        }
        // The name of a private folder, but not the mode.
        let open = within.path().join("skillhost-run-0123456789abcdef");
        std::fs::create_dir(&open).unwrap();
        set_mode(&open, 0o755);
        std::fs::write(within.path().join("skillhost-run-fedcba9876543210"), "a file").unwrap();
        assert_eq!(sweep(within.path()).unwrap(), 0);
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), names.len() + 2);
    }

    #[test]
    fn sweep_leaves_folders_of_another_user() {
        // Only root can give a folder away.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let within = tempfile::tempdir().unwrap();
        let theirs = stale(within.path(), Purpose::Run);
        std::os::unix::fs::chown(&theirs, Some(65_534), None).unwrap();
        assert_eq!(sweep(within.path()).unwrap(), 0);
        assert!(theirs.join("tmp/deep/secret").exists());
        assert_eq!(open_or_create(&theirs).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn deep_and_read_only_folders_are_removed() {
        let within = tempfile::tempdir().unwrap();
        let folder = TempFolder::new_in(within.path(), Purpose::Replay).unwrap();
        let mut at = folder.create("deep").unwrap();
        for _ in 0..1_200 {
            fs::mkdirat(&at, "d", PRIVATE).unwrap();
            fs::openat(&at, "f", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
            at = fs::openat(&at, "d", FOLDER, Mode::empty()).unwrap();
        }
        std::fs::create_dir_all(folder.path().join("closed/inner")).unwrap();
        set_mode(&folder.path().join("closed/inner"), 0o500);
        set_mode(&folder.path().join("closed"), 0o500);
        folder.close().unwrap();
        assert_eq!(std::fs::read_dir(within.path()).unwrap().count(), 0);
    }
}
