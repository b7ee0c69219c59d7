//! The host folder behind a mount: opened before, or made when a guest first looks for something in it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use rustix::io::Errno;

/// A host folder. Most invocations never look into some of theirs, and making one costs more than starting a small guest.
pub struct Ground(LazyLock<Result<OwnedFd, Errno>, Make>);

type Make = Box<dyn FnOnce() -> Result<OwnedFd, Errno> + Send>;

impl Ground {
    /// A folder that `make` makes or opens, once, when it is first needed. Its error is what the guest is told of all that is in it.
    pub fn later(make: impl FnOnce() -> Result<OwnedFd, Errno> + Send + 'static) -> Ground {
        Ground(LazyLock::new(Box::new(make)))
    }

    pub(super) fn folder(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.0.as_ref().map(AsFd::as_fd).map_err(|error| *error)
    }
}

impl From<OwnedFd> for Ground {
    fn from(folder: OwnedFd) -> Ground {
        Ground::later(move || Ok(folder))
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ground")
    }
}
