//! Standard streams for WASI 0.2. Nothing is read ahead, and no task runs besides the guest.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::pipe::CAPACITY;
use super::stdio::{Input, Out};
use crate::limits::HostMemory;
use skillhost_policy::limits::Limit;

/// A standard input.
pub(crate) struct InP2(pub(crate) Input);

#[async_trait::async_trait]
impl Pollable for InP2 {
    async fn ready(&mut self) {
        poll_fn(|cx| self.0.poll_ready(cx)).await;
    }
}

#[async_trait::async_trait]
impl InputStream for InP2 {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        match self.0.poll_take(&Context::from_waker(Waker::noop()), size.min(CAPACITY)) {
            Poll::Ready(taken) => taken_p2(taken),
            Poll::Pending => Ok(Bytes::new()),
        }
    }

    // The default waits until the stream is ready and then reads. If another program reads the
    // bytes in between, it gives up after a few attempts.
    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            self.ready().await;
            return Ok(Bytes::new());
        }
        taken_p2(poll_fn(|cx| self.0.poll_take(cx, size.min(CAPACITY))).await)
    }
}

fn taken_p2(taken: io::Result<Vec<u8>>) -> StreamResult<Bytes> {
    match taken {
        Ok(bytes) if bytes.is_empty() => Err(StreamError::Closed),
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(StreamError::LastOperationFailed(error.into())),
    }
}

/// The most bytes that a 0.2 guest may write before it must check again.
const PERMIT: usize = 64 << 10;

/// A standard output. It buffers one piece that could not be written yet.
pub(crate) struct OutP2 {
    out: Out,
    piece: Bytes,
    /// The piece counts as memory of the run: a guest may open many streams.
    held: HostMemory,
    failed: Option<io::Error>,
}

impl OutP2 {
    pub(crate) fn new(out: Out) -> OutP2 {
        let held = HostMemory::new(out.meter.clone());
        OutP2 { out, piece: Bytes::new(), held, failed: None }
    }

    /// Writes the buffered piece; pending while it cannot be written.
    fn poll_drain(&mut self, cx: &Context<'_>) -> Poll<()> {
        while !self.piece.is_empty() && self.failed.is_none() {
            match ready!(self.out.poll_put(cx, &self.piece)) {
                Ok(written) => self.piece = self.piece.slice(written..),
                Err(error) => self.failed = Some(error),
            }
        }
        self.held.release();
        Poll::Ready(())
    }

    fn drain_now(&mut self) -> StreamResult<bool> {
        let drained = self.poll_drain(&Context::from_waker(Waker::noop())).is_ready();
        match self.failed.take() {
            Some(error) => {
                self.piece = Bytes::new();
                Err(stream_error(error))
            }
            None => Ok(drained),
        }
    }
}

fn stream_error(error: io::Error) -> StreamError {
    match error.kind() {
        io::ErrorKind::BrokenPipe => StreamError::Closed,
        _ => StreamError::LastOperationFailed(error.into()),
    }
}

#[async_trait::async_trait]
impl Pollable for OutP2 {
    async fn ready(&mut self) {
        poll_fn(|cx| self.poll_drain(cx)).await;
    }
}

impl OutputStream for OutP2 {
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(if self.drain_now()? { PERMIT } else { 0 })
    }

    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.piece = bytes;
        if !self.drain_now()? && !self.held.grow(self.piece.len() as u64) {
            return Err(StreamError::Trap(self.out.meter.stop(Limit::Memory).into()));
        }
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.drain_now().map(drop)
    }
}

impl Drop for OutP2 {
    fn drop(&mut self) {
        if !self.piece.is_empty() {
            self.out.leave(std::mem::take(&mut self.piece));
        }
    }
}
