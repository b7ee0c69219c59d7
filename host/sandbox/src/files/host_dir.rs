//! The host folder behind a mount: already open, or created on first use.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use rustix::io::Errno;

/// A host folder.
pub struct HostDir(Kind);

enum Kind {
    Shared(Arc<dyn AsFd + Send + Sync>),
    Lazy(LazyLock<Result<OwnedFd, Errno>, Make>),
}

type Make = Box<dyn FnOnce() -> Result<OwnedFd, Errno> + Send>;

impl HostDir {
    /// Shares an open folder.
    pub fn shared(folder: Arc<impl AsFd + Send + Sync + 'static>) -> HostDir {
        HostDir(Kind::Shared(folder))
    }

    /// Creates or opens the folder with `make` on first use, once. Its error becomes the error of
    /// every operation in the folder.
    ///
    /// Most invocations never use some of their folders, and creating one takes longer than
    /// starting a small guest.
    pub fn lazy(make: impl FnOnce() -> Result<OwnedFd, Errno> + Send + 'static) -> HostDir {
        HostDir(Kind::Lazy(LazyLock::new(Box::new(make))))
    }

    pub(super) fn folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &self.0 {
            Kind::Shared(folder) => Ok(folder.as_fd()),
            Kind::Lazy(folder) => folder.as_ref().map(AsFd::as_fd).map_err(|error| *error),
        }
    }
}

impl From<OwnedFd> for HostDir {
    fn from(folder: OwnedFd) -> HostDir {
        HostDir::shared(Arc::new(folder))
    }
}

impl fmt::Debug for HostDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostDir")
    }
}
