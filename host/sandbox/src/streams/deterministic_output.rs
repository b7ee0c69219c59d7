//! Output of a deterministic run. It is accepted from guests immediately and in order, and written
//! to the caller concurrently: whether anybody reads it, and how fast, makes no difference to the
//! run. Nor does a failed write, which is reported when the run has ended.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::io::Interest;
use tokio::sync::Notify;

use super::descriptor::Descriptor;

/// The standard output and error of a run. The limits of both bound its size.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    pieces: Mutex<VecDeque<(usize, Bytes)>>,
    /// The streams whose descriptors did not take all output, other than closed pipes, and why.
    failures: Mutex<Vec<(usize, io::Error)>>,
    more: Notify,
}

/// A stream into a relay.
#[derive(Debug, Clone)]
pub(crate) struct Inlet {
    relay: Arc<Relay>,
    stream: usize,
}

/// The descriptors to which a relay's streams are written.
pub(crate) struct Outlets {
    relay: Arc<Relay>,
    /// `None` after a write failed.
    descriptors: Vec<Option<Descriptor>>,
}

impl Outlets {
    pub(crate) fn new() -> Outlets {
        Outlets { relay: Arc::default(), descriptors: Vec::new() }
    }

    /// Adds a stream that is written to a descriptor.
    pub(crate) fn add(&mut self, fd: OwnedFd) -> Inlet {
        self.descriptors.push(Some(Descriptor::new(fd, Interest::WRITABLE)));
        Inlet { relay: self.relay.clone(), stream: self.descriptors.len() - 1 }
    }

    /// Writes all output as it arrives, forever.
    pub(crate) async fn pump(&mut self) -> std::convert::Infallible {
        loop {
            let more = self.relay.clone();
            let more = more.more.notified();
            self.drain().await;
            more.await;
        }
    }

    /// Writes all output that has arrived.
    pub(crate) async fn drain(&mut self) {
        // A piece stays in the queue until it is written: this future may be dropped at any time
        // and called again.
        while let Some((stream, piece)) = self.relay.first() {
            let written = match &mut self.descriptors[stream] {
                Some(descriptor) => {
                    let mut place = descriptor.place();
                    poll_fn(|cx| descriptor.poll_write(cx, &mut place, &piece))
                        .await
                        .map_err(|error| self.relay.fail(stream, error))
                        .ok()
                }
                None => None,
            };
            if written.is_none() {
                self.descriptors[stream] = None;
            }
            self.relay.advance(written.unwrap_or(piece.len()));
        }
        for (stream, descriptor) in self.descriptors.iter_mut().enumerate() {
            let Some(descriptor) = descriptor else { continue };
            let mut place = descriptor.place();
            if let Err(error) = poll_fn(|cx| descriptor.poll_finish(cx, &mut place)).await {
                self.relay.fail(stream, error);
            }
        }
    }
}

impl Inlet {
    /// Adds output.
    pub(crate) fn put(&self, bytes: &[u8]) {
        self.relay.pieces().push_back((self.stream, Bytes::copy_from_slice(bytes)));
        self.relay.more.notify_one();
    }

    /// Takes the reason why the stream's descriptor did not take all output; `None` if it did, or
    /// is a closed pipe.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let mut failures = lock(&self.relay.failures);
        let at = failures.iter().position(|(stream, _)| *stream == self.stream)?;
        Some(failures.remove(at).1)
    }
}

impl Relay {
    fn first(&self) -> Option<(usize, Bytes)> {
        self.pieces().front().cloned()
    }

    fn advance(&self, written: usize) {
        let mut pieces = self.pieces();
        if let Some((_, piece)) = pieces.front_mut() {
            let _ = piece.split_to(written);
            if piece.is_empty() {
                pieces.pop_front();
            }
        }
    }

    fn fail(&self, stream: usize, error: io::Error) {
        // A reader that has closed the pipe has all that it wanted.
        if error.kind() != io::ErrorKind::BrokenPipe {
            lock(&self.failures).push((stream, error));
        }
    }

    fn pieces(&self) -> MutexGuard<'_, VecDeque<(usize, Bytes)>> {
        lock(&self.pieces)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
