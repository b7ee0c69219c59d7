//! A descriptor of the caller's, and how to wait for it: never in the executor, and by any number of programs at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::waiters::{Place, Waiters};

/// The most that one transfer moves. A pipe that `poll` calls writable takes at least `PIPE_BUF` (4,096) bytes without blocking.
const PIPE_CHUNK: usize = 4096;

/// The reactor is asked only once a transfer would block.
pub(super) struct Descriptor {
    fd: Arc<OwnedFd>,
    interest: Interest,
    /// Anything but a regular file, whose transfers never wait.
    blocks: bool,
    reactor: Option<AsyncFd<Arc<OwnedFd>>>,
    /// The reactor knows one waker; programs that share a stream are several.
    waiters: Waiters,
}

impl Descriptor {
    pub(super) fn new(fd: OwnedFd, interest: Interest) -> Descriptor {
        let regular =
            rustix::fs::fstat(&fd).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode) == rustix::fs::FileType::RegularFile);
        Descriptor { fd: Arc::new(fd), interest, blocks: !regular, reactor: None, waiters: Waiters::default() }
    }

    /// A place to wait for it.
    pub(super) fn place(&self) -> Place {
        self.waiters.place()
    }

    pub(super) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(&self.fd)
    }

    /// Waits until a transfer would not block.
    pub(super) fn poll_ready(&mut self, cx: &Context<'_>, place: &mut Place) -> Poll<io::Result<()>> {
        let flags = if self.interest == Interest::READABLE { PollFlags::IN } else { PollFlags::OUT };
        while self.blocks {
            let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            // A hang-up or an error counts as ready: the transfer then says which.
            if rustix::event::poll(&mut fds, Some(&now))? > 0 {
                break;
            }
            let reactor = match &self.reactor {
                Some(reactor) => reactor,
                None => match register(&self.fd, self.interest) {
                    Ok(reactor) => self.reactor.insert(reactor),
                    // A device that cannot be waited for (/dev/null and its like) never blocks.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            place.wait(cx);
            let waker = self.waiters.waker();
            let mut all = Context::from_waker(&waker);
            let mut guard = if self.interest == Interest::READABLE {
                ready!(reactor.poll_read_ready(&mut all))?
            } else {
                ready!(reactor.poll_write_ready(&mut all))?
            };
            guard.clear_ready();
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_read(&mut self, cx: &Context<'_>, place: &mut Place, into: &mut [u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx, place))?;
        Poll::Ready(Ok(rustix::io::read(&self.fd, into)?))
    }

    pub(super) fn poll_write(&mut self, cx: &Context<'_>, place: &mut Place, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx, place))?;
        let chunk = if self.blocks { bytes.len().min(PIPE_CHUNK) } else { bytes.len() };
        Poll::Ready(Ok(rustix::io::write(&self.fd, &bytes[..chunk])?))
    }
}

fn register(fd: &Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    #[expect(deprecated, reason = "its successor is unsafe for types that may close their descriptor; an owned one stays open")]
    AsyncFd::with_interest(fd.clone(), interest)
}
