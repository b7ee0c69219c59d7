//! The scratch folder of an invocation: made when it is first needed, gone with the last that holds
//! it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use skillhost_policy::outcome::{Denial, DenialKind};
use skillhost_skill::private::{Purpose, TempFolder};

/// A scratch folder, perhaps still to be made.
#[derive(Debug)]
pub(super) struct Scratch {
    within: PathBuf,
    made: OnceLock<Result<TempFolder, Errno>>,
}

impl Scratch {
    /// One that will be made in `within`.
    ///
    /// # Errors
    /// Nothing can be made there.
    pub(super) fn new(within: &Path) -> Result<Scratch, Denial> {
        rustix::fs::accessat(CWD, within, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| Denial {
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
        let make = || TempFolder::new_in(&self.within, Purpose::Run).map_err(|error| errno(&error));
        let folder = self.made.get_or_init(make).as_ref().map_err(|error| *error)?;
        folder.create(name).map_err(|error| errno(&error))
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
