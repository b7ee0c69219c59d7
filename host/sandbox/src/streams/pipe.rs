//! A bounded pipe between programs. Writers wait while it is full, readers while it is empty.
//!
//! Nothing is read ahead: bytes leave the pipe when a guest reads them. So a program that shares
//! its standard input with a child does not consume the child's input.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::waiters::{Place, Waiters};
use crate::limits::{HostMemory, Meter};

/// The capacity of a pipe in bytes, as on Linux (`pipe(7)`).
pub(crate) const CAPACITY: usize = 64 << 10;

/// Writes of up to this size are atomic: `PIPE_BUF` of Linux. A pipe with less room counts as full.
const ATOMIC: usize = 4 << 10;

/// Makes a pipe; `None` if the limit of memory has no room for it. Its whole capacity counts as
/// memory until both ends are closed.
pub(crate) fn pipe(meter: &Arc<Meter>) -> Option<(Reader, Writer)> {
    let mut held = HostMemory::new(meter.clone());
    if !held.grow(CAPACITY as u64) {
        return None;
    }
    let pipe = Arc::new(Pipe {
        ends: Mutex::new(Ends { bytes: VecDeque::new(), readers: 1, writers: 1 }),
        data: Waiters::default(),
        room: Waiters::default(),
        _held: held,
    });
    Some((
        Reader { place: pipe.data.place(), pipe: pipe.clone() },
        Writer { place: pipe.room.place(), pipe },
    ))
}

#[derive(Debug)]
struct Pipe {
    ends: Mutex<Ends>,
    /// Readers that wait for data or the end of the stream.
    data: Waiters,
    /// Writers that wait for room, or for the last reader to close.
    room: Waiters,
    _held: HostMemory,
}

#[derive(Debug)]
struct Ends {
    bytes: VecDeque<u8>,
    readers: usize,
    writers: usize,
}

impl Pipe {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    /// Checks whether a read would return immediately.
    fn is_readable(&self) -> bool {
        !self.bytes.is_empty() || self.writers == 0
    }

    fn room(&self) -> usize {
        CAPACITY - self.bytes.len()
    }
}

/// The read end. Clones read from the same pipe and wait independently.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Reader {
    pipe: Arc<Pipe>,
    place: Place,
}

impl Reader {
    /// Reads what is available, at most `max` bytes; nothing at the end of the stream.
    pub(crate) fn poll_read(&mut self, cx: &Context<'_>, max: usize) -> Poll<Vec<u8>> {
        let mut ends = self.pipe.ends();
        if !ends.is_readable() {
            self.place.wait(cx);
            return Poll::Pending;
        }
        let count = max.min(ends.bytes.len());
        let mut taken = Vec::with_capacity(count);
        let (front, back) = ends.bytes.as_slices();
        taken.extend_from_slice(&front[..count.min(front.len())]);
        taken.extend_from_slice(&back[..count - taken.len()]);
        ends.bytes.drain(..count);
        let has_room = ends.room() >= ATOMIC;
        drop(ends);
        if has_room {
            self.pipe.room.wake_all();
        }
        Poll::Ready(taken)
    }

    /// Waits for data or the end of the stream.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.pipe.ends().is_readable() {
            return Poll::Ready(());
        }
        self.place.wait(cx);
        // Data that arrived between the check and the wait did not wake the task.
        if self.pipe.ends().is_readable() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Clone for Reader {
    fn clone(&self) -> Reader {
        self.pipe.ends().readers += 1;
        Reader { pipe: self.pipe.clone(), place: self.pipe.data.place() }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut ends = self.pipe.ends();
        ends.readers -= 1;
        if ends.readers == 0 {
            ends.bytes = VecDeque::new();
            drop(ends);
            self.pipe.room.wake_all();
        }
    }
}

/// The write end. Clones write to the same pipe and wait independently.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Writer {
    pipe: Arc<Pipe>,
    place: Place,
}

impl Writer {
    /// Writes what fits, and a short write completely or not at all. Returns the number of bytes
    /// written.
    ///
    /// # Errors
    /// `BrokenPipe`: no reader is left.
    pub(crate) fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.pipe.ends();
        if ends.readers == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if ends.room() < bytes.len().min(ATOMIC) {
            self.place.wait(cx);
            return Poll::Pending;
        }
        let count = bytes.len().min(ends.room());
        ends.bytes.extend(&bytes[..count]);
        drop(ends);
        self.pipe.data.wake_all();
        Poll::Ready(Ok(count))
    }

    /// Returns how much can be written immediately.
    ///
    /// # Errors
    /// `BrokenPipe`, as in `poll_write`.
    pub(crate) fn room(&self) -> io::Result<usize> {
        let ends = self.pipe.ends();
        match ends.room() {
            _ if ends.readers == 0 => Err(io::ErrorKind::BrokenPipe.into()),
            room if room < ATOMIC => Ok(0),
            room => Ok(room),
        }
    }

    /// Waits for room, or until no reader is left.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !matches!(self.room(), Ok(0)) {
            return Poll::Ready(());
        }
        self.place.wait(cx);
        // Data that arrived between the check and the wait did not wake the task.
        if matches!(self.room(), Ok(0)) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Clone for Writer {
    fn clone(&self) -> Writer {
        self.pipe.ends().writers += 1;
        Writer { pipe: self.pipe.clone(), place: self.pipe.room.place() }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut ends = self.pipe.ends();
        ends.writers -= 1;
        if ends.writers == 0 {
            drop(ends);
            self.pipe.data.wake_all();
        }
    }
}

#[cfg(test)]
#[path = "pipe/tests.rs"]
mod tests;
