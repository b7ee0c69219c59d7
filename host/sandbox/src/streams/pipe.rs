//! A bounded pipe between programs: what one writes another reads, in order; a full one makes its
//! writers wait, an empty one its readers.
//!
//! Nothing is read ahead: bytes leave the pipe when a guest takes them, so a program that shares
//! its standard input with one that it starts does not swallow the other's.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use super::waiters::{Place, Waiters};
use crate::limits::{Held, Meter};

/// What a pipe holds, as on Linux (`pipe(7)`).
pub(crate) const CAPACITY: usize = 64 << 10;

/// A write of no more than this is not broken up: `PIPE_BUF` of Linux. A pipe with less room counts
/// as full.
const WHOLE: usize = 4 << 10;

/// Makes a pipe; `None` where memory has no room for it. All of its capacity counts as memory until
/// both ends are gone.
pub(crate) fn pipe(meter: &Arc<Meter>) -> Option<(Reader, Writer)> {
    let mut held = Held::nothing(meter.clone());
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
    /// Readers that wait for data or the end.
    data: Waiters,
    /// Writers that wait for room or for the last reader to go.
    room: Waiters,
    _held: Held,
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
    /// Whether a read would return at once.
    fn is_readable(&self) -> bool {
        !self.bytes.is_empty() || self.writers == 0
    }

    fn room(&self) -> usize {
        CAPACITY - self.bytes.len()
    }
}

/// The read end. Clones share what there is to read; each waits for itself.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings export it again")]
pub struct Reader {
    pipe: Arc<Pipe>,
    place: Place,
}

impl Reader {
    /// Takes what there is, at most `max` bytes; nothing at the end.
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
        let has_room = ends.room() >= WHOLE;
        drop(ends);
        if has_room {
            self.pipe.room.wake_all();
        }
        Poll::Ready(taken)
    }

    /// Waits for data or the end.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.pipe.ends().is_readable() {
            return Poll::Ready(());
        }
        self.place.wait(cx);
        // What came between the look and the wait has woken nobody.
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

/// The write end. Clones write to the same pipe; each waits for itself.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings export it again")]
pub struct Writer {
    pipe: Arc<Pipe>,
    place: Place,
}

impl Writer {
    /// Puts in what fits, but a short write whole or not at all; returns how much.
    ///
    /// # Errors
    /// `BrokenPipe`: nobody reads any more.
    pub(crate) fn poll_write(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut ends = self.pipe.ends();
        if ends.readers == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if ends.room() < bytes.len().min(WHOLE) {
            self.place.wait(cx);
            return Poll::Pending;
        }
        let count = bytes.len().min(ends.room());
        ends.bytes.extend(&bytes[..count]);
        drop(ends);
        self.pipe.data.wake_all();
        Poll::Ready(Ok(count))
    }

    /// What can be written at once.
    ///
    /// # Errors
    /// `BrokenPipe`, as in `poll_write`.
    pub(crate) fn room(&self) -> io::Result<usize> {
        let ends = self.pipe.ends();
        match ends.room() {
            _ if ends.readers == 0 => Err(io::ErrorKind::BrokenPipe.into()),
            room if room < WHOLE => Ok(0),
            room => Ok(room),
        }
    }

    /// Waits for room, or until nobody reads any more.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !matches!(self.room(), Ok(0)) {
            return Poll::Ready(());
        }
        self.place.wait(cx);
        // What came between the look and the wait has woken nobody.
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
