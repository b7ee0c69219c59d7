//! The guest's standard streams: bounded, kept, and passed on to a descriptor of the host as they come.
//!
//! The descriptors are the caller's. A terminal or a pipe that is not ready makes the guest wait, never the executor: each
//! transfer asks `poll(2)` first, so that deadlines fire while a reader of ours is slow or stdin says nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use rustix::event::{PollFd, PollFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use super::meter::{Held, Meter};
use crate::limits::Limit;

/// Where a guest's standard input comes from.
#[derive(Debug, Default)]
pub enum Stdin {
    /// End of file at once.
    #[default]
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// A descriptor of the caller's, read as the guest reads.
    Descriptor(OwnedFd),
}

/// Where a guest's output goes besides the outcome.
#[derive(Debug, Default)]
pub enum Sink {
    /// Kept for the outcome.
    #[default]
    Capture,
    /// Written to a descriptor of the caller's as it comes, and not kept.
    Descriptor(OwnedFd),
}

/// The most that one transfer moves. A pipe that `poll` calls writable takes at least `PIPE_BUF` (4,096) bytes without blocking.
const PIPE_CHUNK: usize = 4096;

#[derive(Clone)]
pub(super) struct Input(Arc<Mutex<Source>>);

enum Source {
    Bytes { bytes: Vec<u8>, at: usize },
    Descriptor(Ready),
}

impl Input {
    pub(super) fn new(stdin: Stdin) -> Input {
        Input(Arc::new(Mutex::new(match stdin {
            Stdin::Empty => Source::Bytes { bytes: Vec::new(), at: 0 },
            Stdin::Bytes(bytes) => Source::Bytes { bytes, at: 0 },
            Stdin::Descriptor(fd) => Source::Descriptor(Ready::new(fd, Interest::READABLE)),
        })))
    }
}

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::Bytes { .. } => false,
            Source::Descriptor(ready) => rustix::termios::isatty(&ready.fd),
        }
    }
}

impl StdinStream for Input {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncRead for Input {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::Bytes { bytes, at } => {
                let n = buf.remaining().min(bytes.len() - *at);
                buf.put_slice(&bytes[*at..*at + n]);
                *at += n;
                Poll::Ready(Ok(()))
            }
            Source::Descriptor(ready) => {
                ready!(ready.poll(cx))?;
                let n = rustix::io::read(&ready.fd, buf.initialize_unfilled())?;
                buf.advance(n);
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// One output stream of a guest and of the programs it starts with inherited output.
#[derive(Clone)]
pub(super) struct Out {
    limit: Limit,
    meter: Arc<Meter>,
    to: Arc<Mutex<Drain>>,
}

struct Drain {
    kept: Vec<u8>,
    /// What is kept of a started program, which its caller's memory has to have room for.
    held: Option<Held>,
    seen: u64,
    to: Option<Ready>,
}

impl Out {
    pub(super) fn new(sink: Sink, limit: Limit, meter: Arc<Meter>) -> Out {
        let to = match sink {
            Sink::Capture => None,
            Sink::Descriptor(fd) => Some(Ready::new(fd, Interest::WRITABLE)),
        };
        Out { limit, meter, to: Arc::new(Mutex::new(Drain { kept: Vec::new(), held: None, seen: 0, to })) }
    }

    /// The output of a started program, kept for its caller.
    pub(super) fn of_child(limit: Limit, meter: Arc<Meter>) -> Out {
        let held = Some(Held::nothing(meter.clone()));
        Out { limit, meter, to: Arc::new(Mutex::new(Drain { kept: Vec::new(), held, seen: 0, to: None })) }
    }

    /// Bytes written so far.
    pub(super) fn seen(&self) -> u64 {
        self.to.lock().unwrap_or_else(PoisonError::into_inner).seen
    }

    /// What was kept; leaves nothing.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut drain = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        drain.held = None;
        std::mem::take(&mut drain.kept)
    }
}

impl IsTerminal for Out {
    fn is_terminal(&self) -> bool {
        let drain = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        drain.to.as_ref().is_some_and(|ready| rustix::termios::isatty(&ready.fd))
    }
}

impl StdoutStream for Out {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    // The stock adapter writes from a task of its own: what it holds when the guest exits would be lost.
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(OutP2 { out: self.clone(), held: bytes::Bytes::new(), failed: None })
    }
}

impl AsyncWrite for Out {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut drain = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        let drain = &mut *drain;
        let room = self.meter.limits.get(self.limit).unwrap_or(0).saturating_sub(drain.seen);
        let fits = buf.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if fits == 0 && !buf.is_empty() {
            self.meter.stop(self.limit);
            return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
        }
        let written = match &mut drain.to {
            None => {
                if drain.held.as_mut().is_some_and(|held| !held.grow(fits as u64)) {
                    self.meter.stop(Limit::Memory);
                    return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
                }
                drain.kept.extend_from_slice(&buf[..fits]);
                fits
            }
            Some(ready) => {
                ready!(ready.poll(cx))?;
                let chunk = if ready.blocks { fits.min(PIPE_CHUNK) } else { fits };
                rustix::io::write(&ready.fd, &buf[..chunk])?
            }
        };
        drain.seen += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A descriptor and how to wait for it. The reactor is asked only once a transfer would block.
struct Ready {
    fd: Arc<OwnedFd>,
    interest: Interest,
    /// Anything but a regular file, whose transfers never wait.
    blocks: bool,
    waiting: Option<AsyncFd<Arc<OwnedFd>>>,
}

impl Ready {
    fn new(fd: OwnedFd, interest: Interest) -> Ready {
        let regular =
            rustix::fs::fstat(&fd).is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode) == rustix::fs::FileType::RegularFile);
        Ready { fd: Arc::new(fd), interest, blocks: !regular, waiting: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flags = if self.interest == Interest::READABLE { PollFlags::IN } else { PollFlags::OUT };
        while self.blocks {
            let mut fds = [PollFd::from_borrowed_fd(self.fd.as_fd(), flags)];
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            // A hang-up or an error counts as ready: the transfer then says which.
            if rustix::event::poll(&mut fds, Some(&now))? > 0 {
                break;
            }
            let waiting = match &self.waiting {
                Some(waiting) => waiting,
                None => match register(&self.fd, self.interest) {
                    Ok(waiting) => self.waiting.insert(waiting),
                    // A device that cannot be waited for (/dev/null and its like) never blocks.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            let mut guard = if self.interest == Interest::READABLE {
                ready!(waiting.poll_read_ready(cx))?
            } else {
                ready!(waiting.poll_write_ready(cx))?
            };
            guard.clear_ready();
        }
        Poll::Ready(Ok(()))
    }
}

fn register(fd: &Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    #[expect(deprecated, reason = "its successor is unsafe for types that may close their descriptor; an owned one stays open")]
    AsyncFd::with_interest(fd.clone(), interest)
}

/// The 0.2 form of an output: one piece is held while the descriptor is not ready, and nothing runs beside the guest.
struct OutP2 {
    out: Out,
    held: bytes::Bytes,
    failed: Option<io::Error>,
}

/// The most that a 0.2 guest may write without asking again.
const PERMIT: usize = 64 << 10;

impl OutP2 {
    /// Writes what is held; pending while the descriptor is not ready.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.held.is_empty() && self.failed.is_none() {
            match ready!(Pin::new(&mut self.out).poll_write(cx, &self.held)) {
                Ok(written) => self.held = self.held.slice(written..),
                Err(error) => self.failed = Some(error),
            }
        }
        Poll::Ready(())
    }

    fn drain_now(&mut self) -> StreamResult<bool> {
        let drained = self.poll_drain(&mut Context::from_waker(Waker::noop())).is_ready();
        match self.failed.take() {
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StreamError::Closed),
            Some(error) => Err(StreamError::LastOperationFailed(error.into())),
            None => Ok(drained),
        }
    }
}

#[async_trait::async_trait]
impl Pollable for OutP2 {
    async fn ready(&mut self) {
        std::future::poll_fn(|cx| self.poll_drain(cx)).await;
    }
}

impl OutputStream for OutP2 {
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(if self.drain_now()? { PERMIT } else { 0 })
    }

    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.held = bytes;
        self.drain_now().map(drop)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.drain_now().map(drop)
    }
}
