//! The scratch folder of an invocation: made when it is first needed, gone with the last that holds it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cap_std::fs::Dir;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::outcome::{Denial, DenialKind};

/// A scratch folder, perhaps still to be made.
#[derive(Debug)]
pub(super) struct Scratch {
    within: PathBuf,
    made: OnceLock<Result<TempDir, Errno>>,
}

impl Scratch {
    /// One that will be made in `within`.
    ///
    /// # Errors
    /// Nothing can be made there.
    pub(super) fn new(within: &Path) -> Result<Scratch, Denial> {
        rustix::fs::accessat(CWD, within, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).map_err(|error| Denial {
            what: "make the scratch folder".into(),
            rule: format!("{}: {}", within.display(), io::Error::from(error)),
            fix: Some("set TMPDIR to a folder that can be written".into()),
            kind: DenialKind::Mount,
        })?;
        Ok(Scratch { within: within.to_owned(), made: OnceLock::new() })
    }

    /// Where it is made.
    pub(super) fn within(&self) -> &Path {
        &self.within
    }

    /// Makes a folder in it.
    pub(super) fn folder(&self, name: &str) -> Result<OwnedFd, Errno> {
        let make = || tempfile::Builder::new().prefix("skillhost-").tempdir_in(&self.within).map_err(|error| errno(&error));
        let path = self.made.get_or_init(make).as_ref().map_err(|error| *error)?.path().join(name);
        let open = || {
            std::fs::create_dir(&path)?;
            #[expect(clippy::disallowed_methods, reason = "a scratch folder that was just made, by this process, for this invocation")]
            Dir::open_ambient_dir(&path, cap_std::ambient_authority())
        };
        Ok(open().map_err(|error| errno(&error))?.into_std_file().into())
    }

    /// Removes it now, rather than when this value is dropped.
    ///
    /// # Errors
    /// It could not be removed whole.
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
