//! A descriptor of the host's caller. Any number of programs can wait for it, and none blocks the
//! executor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::FileType;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::terminal::Filter;
use super::waiters::{Place, Waiters};

/// The most bytes per transfer. A pipe that is writable by `poll` accepts at least `PIPE_BUF`
/// (4,096) bytes without blocking.
const PIPE_CHUNK: usize = 4096;

/// A descriptor. The reactor is used only when a transfer would block.
pub(crate) struct Descriptor {
    fd: Arc<OwnedFd>,
    interest: Interest,
    /// Whether transfers can block: false for regular files only.
    blocks: bool,
    reactor: Option<AsyncFd<Arc<OwnedFd>>>,
    /// The programs that wait: the reactor supports a single waker.
    waiters: Waiters,
    /// Set if this is a terminal that is written to.
    terminal: Option<Terminal>,
}

/// Filters what a guest writes to a terminal.
#[derive(Default)]
struct Terminal {
    filter: Filter,
    /// Filtered output that is not written yet.
    unwritten: Vec<u8>,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, interest: Interest) -> Descriptor {
        let kind = rustix::fs::fstat(&fd).map(|found| FileType::from_raw_mode(found.st_mode));
        let is_terminal = interest == Interest::WRITABLE
            && kind == Ok(FileType::CharacterDevice)
            && rustix::termios::isatty(&fd);
        Descriptor {
            fd: Arc::new(fd),
            interest,
            blocks: kind != Ok(FileType::RegularFile),
            reactor: None,
            waiters: Waiters::default(),
            terminal: is_terminal.then(Terminal::default),
        }
    }

    /// Returns a place to wait for it.
    pub(crate) fn place(&self) -> Place {
        self.waiters.place()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(&self.fd)
    }

    /// Waits until a transfer would not block.
    pub(crate) fn poll_ready(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
    ) -> Poll<io::Result<()>> {
        let flags =
            if self.interest == Interest::READABLE { PollFlags::IN } else { PollFlags::OUT };
        while self.blocks {
            let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            // A hang-up or an error counts as ready: the transfer then reports it.
            if rustix::event::poll(&mut fds, Some(&now))? > 0 {
                break;
            }
            let reactor = match &self.reactor {
                Some(reactor) => reactor,
                None => match register(&self.fd, self.interest) {
                    Ok(reactor) => self.reactor.insert(reactor),
                    // A device that `epoll` does not support, such as /dev/null, never blocks.
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

    pub(crate) fn poll_read(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx, place))?;
        Poll::Ready(Ok(rustix::io::read(&self.fd, into)?))
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.terminal.is_some() {
            return self.poll_show(cx, place, bytes);
        }
        self.poll_put(cx, place, bytes)
    }

    /// Writes a guest's output to a terminal: only text, colours and styles.
    fn poll_show(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_finish(cx, place))?;
        let taken = &bytes[..bytes.len().min(PIPE_CHUNK)];
        if let Some(Terminal { filter, unwritten }) = &mut self.terminal {
            filter.pass(taken, unwritten);
        }
        // What the terminal does not accept now is written before later output.
        match self.poll_finish(cx, place) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken.len())),
        }
    }

    /// Writes output that was accepted and is not written yet.
    pub(crate) fn poll_finish(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
    ) -> Poll<io::Result<()>> {
        while let Some(Terminal { unwritten, .. }) =
            self.terminal.as_mut().filter(|terminal| !terminal.unwritten.is_empty())
        {
            let bytes = std::mem::take(unwritten);
            let put = self.poll_put(cx, place, &bytes);
            let written = if let Poll::Ready(Ok(count)) = &put { *count } else { 0 };
            if let (Some(terminal), false) =
                (&mut self.terminal, matches!(put, Poll::Ready(Err(_))))
            {
                terminal.unwritten = bytes[written..].to_vec();
            }
            ready!(put)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_put(
        &mut self,
        cx: &Context<'_>,
        place: &mut Place,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(cx, place))?;
        let chunk = if self.blocks { bytes.len().min(PIPE_CHUNK) } else { bytes.len() };
        Poll::Ready(Ok(rustix::io::write(&self.fd, &bytes[..chunk])?))
    }
}

fn register(fd: &Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may close their descriptor; an `OwnedFd` stays open"
    )]
    AsyncFd::with_interest(fd.clone(), interest)
}
