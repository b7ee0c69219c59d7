//! The scratch folder of a run: created on first use, and removed with its last user.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_skill::private::{self, Purpose, TempFolder};

/// Where Linux has a file system in memory that every user can write to: shm_overview(7).
pub const MEMORY_FOLDER: &str = "/dev/shm";
/// The type of such a file system: statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Returns the folder of the file system in memory, if the machine has one.
pub fn memory_folder() -> Option<&'static Path> {
    let memory = Path::new(MEMORY_FOLDER);
    if rustix::fs::statfs(memory).map_or(0, |found| found.f_type) != TMPFS_MAGIC {
        return None;
    }
    // A host that was killed leaves its folder behind, which would hold memory.
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| {
        if let Err(error) = private::sweep(memory) {
            tracing::debug!(%error, "cannot sweep {MEMORY_FOLDER}");
        }
    });
    Some(memory)
}

/// A scratch folder, which may not exist yet.
#[derive(Debug)]
pub(super) struct Scratch {
    within: PathBuf,
    made: OnceLock<Result<TempFolder, Errno>>,
}

impl Scratch {
    /// A scratch folder that will be created in `within`.
    ///
    /// # Errors
    /// Nothing can be created there.
    pub(super) fn new(within: &Path) -> Result<Scratch, Denial> {
        rustix::fs::accessat(CWD, within, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| Denial {
                what: "make the scratch folder".into(),
                rule: format!("{}: {}", within.display(), io::Error::from(error)),
                fix: Some("set TMPDIR to a writable folder".into()),
                kind: DenialKind::Mount,
            })?;
        Ok(Scratch { within: within.to_owned(), made: OnceLock::new() })
    }

    /// A scratch folder in memory.
    ///
    /// # Errors
    /// The machine has no file system in memory, or nothing can be created there.
    pub(super) fn in_memory() -> Result<Scratch, Denial> {
        let memory = memory_folder().ok_or_else(|| Denial {
            what: "keep /tmp in memory".into(),
            rule: format!("{MEMORY_FOLDER} is not a file system in memory"),
            fix: Some("remove the limit `tmp`, or mount a tmpfs there".into()),
            kind: DenialKind::Mount,
        })?;
        Scratch::new(memory)
    }

    /// The folder in which it is created.
    pub(super) fn within(&self) -> &Path {
        &self.within
    }

    /// Creates a folder in it.
    pub(super) fn folder(&self, name: &str) -> Result<OwnedFd, Errno> {
        let make = || TempFolder::new_in(&self.within, Purpose::Run).map_err(|error| errno(&error));
        let folder = self.made.get_or_init(make).as_ref().map_err(|error| *error)?;
        folder.create(name).map_err(|error| errno(&error))
    }

    /// Removes it now, instead of when this value is dropped.
    ///
    /// # Errors
    /// It could not be removed completely.
    pub(super) fn close(self) -> io::Result<()> {
        match self.made.into_inner() {
            Some(Ok(made)) => made.close(),
            Some(Err(_)) | None => Ok(()),
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
