//! Digests everything that a guest can see in its folders, for a receipt. The guest is not charged.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::mount::Rules;
use super::overlay::Tree;
use super::{GuardedPaths, OpenMount, Vfs, beneath, changes};
use skillhost_policy::capabilities::{PathAccess, PathRules};
use skillhost_policy::limits::Limits;
use skillhost_skill::runtime::{self, stamp};

/// The most entries that a receipt covers.
pub(super) const ENTRIES_MAX: usize = 10_000;

/// The most bytes of files that a receipt covers: some seconds of digesting.
pub(super) const BYTES_MAX: u64 = 1 << 30;

/// The state of the folders at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The granted folders and `/state`: guest path to `sha256:...` for a file, `folder`, or `link`
    /// and its target.
    pub files: BTreeMap<String, String>,
    /// The folders of packages: guest path to a digest of all their contents.
    pub packages: BTreeMap<String, String>,
}

/// Why a receipt cannot cover the folders.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// They contain too much.
    #[error(
        "a receipt covers at most {ENTRIES_MAX} files and {}; the folders of this run contain more",
        skillhost_policy::limits::show_size(BYTES_MAX)
    )]
    TooMuch,
    /// One of their entries cannot be read.
    #[error("cannot read {0} for the receipt: {1}")]
    Unreadable(String, Errno),
}

/// Digests folders of packages as guests under these rules read them, by guest path. Digests are
/// cached in the host's folder `cache` until a file changes.
///
/// # Errors
/// There are too many files, or one cannot be read.
pub fn package_digests(
    folders: Vec<OpenMount>,
    rules: PathRules,
    cache: &Path,
) -> Result<BTreeMap<String, String>, SnapshotError> {
    let guarded = GuardedPaths::default();
    let files = Vfs::new(folders, rules, &Limits::default(), &guarded, None, None);
    Ok(files.snapshot(cache)?.packages)
}

impl Vfs {
    /// Digests every file that the guest may read, as the guest would read it. Digests of packages
    /// are cached in the host's folder `cache` until one of their files changes.
    ///
    /// # Errors
    /// There are too many files, or one cannot be read.
    pub fn snapshot(&self, cache: &Path) -> Result<Snapshot, SnapshotError> {
        let tree = self.tree();
        let mut snapshot = Snapshot::default();
        for (m, mount) in self.mounts.iter().enumerate() {
            let walk = |by| {
                Walk {
                    vfs: self,
                    tree: &tree,
                    m,
                    by,
                    found: BTreeMap::new(),
                    bytes: 0,
                    folder: (0, 0),
                    newest: (0, 0),
                }
                .whole()
            };
            match mount.rules {
                Rules::Granted(_) | Rules::State(_) => {
                    snapshot.files.extend(walk(Identify::Content)?.found)
                }
                Rules::Packages => {
                    let state = walk(Identify::Stamp)?;
                    let name = format!("{:x}-{:x}.packages", state.folder.0, state.folder.1);
                    let compute = || walk(Identify::Content).map(|walk| walk.digest());
                    let digest =
                        match self.storage(&tree, m, "").is_ok_and(stamp::has_reliable_ctime) {
                            true => stamp::cached_or_compute(
                                cache,
                                &name,
                                state.digest(),
                                state.newest,
                                compute,
                            )?,
                            false => compute()?,
                        };
                    snapshot.packages.insert(mount.guest.clone(), digest);
                }
                Rules::Skill(_) | Rules::Scratch | Rules::Root(_) => {}
            }
        }
        Ok(snapshot)
    }
}

/// What identifies a file.
#[derive(Clone, Copy)]
enum Identify {
    /// The digest of its content.
    Content,
    /// Its metadata, which changes with the content.
    Stamp,
}

struct Walk<'a> {
    vfs: &'a Vfs,
    tree: &'a Tree,
    m: usize,
    by: Identify,
    found: BTreeMap<String, String>,
    bytes: u64,
    /// Device and inode of the folder.
    folder: (u64, u64),
    /// The most recent change of any file, in seconds and nanoseconds; only with
    /// [`Identify::Stamp`].
    newest: (i64, i64),
}

impl Walk<'_> {
    fn whole(mut self) -> Result<Self, SnapshotError> {
        let stat = self
            .vfs
            .storage(self.tree, self.m, "")
            .and_then(|root| beneath::stat(root, ""))
            .map_err(|error| self.unreadable("", error))?;
        self.folder = (stat.st_dev, stat.st_ino);
        self.folder("")?;
        Ok(self)
    }

    fn digest(&self) -> String {
        let lines: String =
            self.found.iter().map(|(path, entry)| format!("{path}\0{entry}\0")).collect();
        runtime::digest(lines.as_bytes())
    }

    fn folder(&mut self, rel: &str) -> Result<(), SnapshotError> {
        if self.vfs.access(self.m, rel) == PathAccess::None {
            return Ok(());
        }
        let listed = match self.vfs.list(self.tree, self.m, rel) {
            // Another file system, which guests cannot enter either.
            Err(Errno::XDEV) => return Ok(()),
            listed => listed.map_err(|error| self.unreadable(rel, error))?,
        };
        for (name, kind) in listed {
            // Guests do not see names that are not valid UTF-8.
            let Ok(name) = name.into_string() else { continue };
            let rel = beneath::join(rel, &name);
            let access = self.vfs.access(self.m, &rel);
            let entry = match kind {
                FileType::Directory if access > PathAccess::None => {
                    self.folder(&rel)?;
                    "folder".to_owned()
                }
                _ if access < PathAccess::Read => continue,
                FileType::RegularFile => self
                    .file(&rel)
                    .map_err(|error| error.unwrap_or_else(|error| self.unreadable(&rel, error)))?,
                FileType::Symlink => {
                    self.link(&rel).map_err(|error| self.unreadable(&rel, error))?
                }
                _ => "other".to_owned(),
            };
            if self.found.len() >= ENTRIES_MAX {
                return Err(SnapshotError::TooMuch);
            }
            self.found.insert(self.vfs.mounts[self.m].guest_path(&rel), entry);
        }
        Ok(())
    }

    fn file(&mut self, rel: &str) -> Result<String, Result<SnapshotError, Errno>> {
        let root = self.vfs.storage(self.tree, self.m, rel).map_err(Err)?;
        if let Identify::Stamp = self.by {
            let stat = beneath::stat(root, rel).map_err(Err)?;
            let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
            self.newest = self.newest.max(changed);
            return Ok(format!("{} {} {} {changed:?}", stat.st_dev, stat.st_ino, stat.st_size));
        }
        let file = changes::file(root, rel).map_err(Err)?;
        let io = |error: std::io::Error| Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let found = file.metadata().map_err(io)?;
        self.bytes += found.len();
        if self.bytes > BYTES_MAX {
            return Err(Ok(SnapshotError::TooMuch));
        }
        if let Some(digest) = self
            .vfs
            .contents
            .as_ref()
            .and_then(|contents| contents.recorded_digest((found.dev(), found.ino())))
        {
            return Ok(digest);
        }
        Ok(format!("sha256:{}", stamp::file_digest(&file).map_err(io)?))
    }

    /// Omits a target outside the folder, which may name something of the host.
    fn link(&self, rel: &str) -> Result<String, Errno> {
        match self.vfs.link_target(self.tree, self.m, rel) {
            Ok(target) if target.is_visible(rel) => Ok(format!("link {}", target.text)),
            Ok(_) | Err(Errno::ILSEQ) => Ok("link".to_owned()),
            Err(error) => Err(error),
        }
    }

    fn unreadable(&self, rel: &str, error: Errno) -> SnapshotError {
        SnapshotError::Unreadable(self.vfs.mounts[self.m].guest_path(rel), error)
    }
}
