//! The host folder behind a mount: opened before, or made when a guest first looks for something in
//! it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use rustix::io::Errno;

/// A host folder.
pub struct HostDir(Kind);

enum Kind {
    Shared(Arc<dyn AsFd + Send + Sync>),
    Later(LazyLock<Result<OwnedFd, Errno>, Make>),
}

type Make = Box<dyn FnOnce() -> Result<OwnedFd, Errno> + Send>;

impl HostDir {
    /// A folder that others hold too.
    pub fn shared(folder: Arc<impl AsFd + Send + Sync + 'static>) -> HostDir {
        HostDir(Kind::Shared(folder))
    }

    /// A folder that `make` makes or opens, once, when it is first needed. Its error is what the
    /// guest is told of all that is in it.
    ///
    /// Most invocations never look into some of theirs, and making one costs more than starting a
    /// small guest.
    pub fn later(make: impl FnOnce() -> Result<OwnedFd, Errno> + Send + 'static) -> HostDir {
        HostDir(Kind::Later(LazyLock::new(Box::new(make))))
    }

    pub(super) fn folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &self.0 {
            Kind::Shared(folder) => Ok(folder.as_fd()),
            Kind::Later(folder) => folder.as_ref().map(AsFd::as_fd).map_err(|error| *error),
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
