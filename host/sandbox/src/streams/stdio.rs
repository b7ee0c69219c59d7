//! A program's standard streams: a descriptor of the caller's, bytes, a pipe, or nothing. What the
//! first program and those that inherit from it write is bounded, kept, or passed on as it comes;
//! what goes through a pipe is its reader's. What the first program's streams carry is digested as
//! it flows, for the audit log.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream};

use super::descriptor::Descriptor;
use super::deterministic_input::Steady;
use super::deterministic_output::{Inlet, Outlets};
use super::pipe::{CAPACITY, Reader, Writer};
use super::stdio_p2::{InP2, OutP2};
use super::waiters::Place;
use crate::limits::{Held, Meter};
use skillhost_policy::limits::Limit;
use skillhost_skill::runtime::{digest, hex};

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

/// A standard input. Clones share it: what one reads another does not.
pub(crate) enum Input {
    Bytes(Arc<Mutex<Unread>>),
    Descriptor(Arc<Mutex<Source>>, Place),
    /// The same, for a deterministic run.
    Steady(Arc<Mutex<Steady>>),
    Pipe(Reader),
}

pub(crate) struct Unread {
    bytes: Vec<u8>,
    at: usize,
}

pub(crate) struct Source {
    descriptor: Descriptor,
    read: StreamDigest,
}

/// The digest of what a stream has carried. A stream that carries nothing costs nothing.
#[derive(Default)]
pub(crate) struct StreamDigest(Option<Sha256>);

impl StreamDigest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.get_or_insert_default().update(bytes);
        }
    }

    /// `sha256:` and 64 hex digits of what was added so far.
    pub(crate) fn so_far(&self) -> Option<String> {
        self.0.as_ref().map(|hash| format!("sha256:{}", hex(&hash.clone().finalize())))
    }
}

impl Input {
    pub(crate) fn new(stdin: Stdin) -> Input {
        match stdin {
            Stdin::Empty => Input::bytes(Vec::new()),
            Stdin::Bytes(bytes) => Input::bytes(bytes),
            Stdin::Descriptor(fd) => {
                let descriptor = Descriptor::new(fd, Interest::READABLE);
                let place = descriptor.place();
                Input::Descriptor(
                    Arc::new(Mutex::new(Source { descriptor, read: StreamDigest::default() })),
                    place,
                )
            }
        }
    }

    /// That of a deterministic run.
    pub(crate) fn steady(stdin: Stdin, meter: &Arc<Meter>) -> Input {
        match stdin {
            Stdin::Descriptor(fd) => {
                Input::Steady(Arc::new(Mutex::new(Steady::new(fd, meter.clone()))))
            }
            stdin => Input::new(stdin),
        }
    }

    fn bytes(bytes: Vec<u8>) -> Input {
        Input::Bytes(Arc::new(Mutex::new(Unread { bytes, at: 0 })))
    }

    /// Takes at most `max` bytes; nothing at the end.
    pub(crate) fn poll_take(&mut self, cx: &Context<'_>, max: usize) -> Poll<io::Result<Vec<u8>>> {
        match self {
            Input::Bytes(unread) => {
                let mut unread = lock(unread);
                let taken = unread.bytes[unread.at..].iter().take(max).copied().collect::<Vec<_>>();
                unread.at += taken.len();
                Poll::Ready(Ok(taken))
            }
            Input::Descriptor(descriptor, place) => {
                let mut bytes = vec![0; max];
                let mut source = lock(descriptor);
                let count = ready!(source.descriptor.poll_read(cx, place, &mut bytes))?;
                bytes.truncate(count);
                source.read.add(&bytes);
                Poll::Ready(Ok(bytes))
            }
            Input::Steady(steady) => Poll::Ready(lock(steady).take(max.min(CAPACITY))),
            Input::Pipe(reader) => reader.poll_read(cx, max).map(Ok),
        }
    }

    /// The digest of what was read; not of a pipe.
    pub(crate) fn digest(&self) -> Option<String> {
        match self {
            Input::Bytes(unread) => {
                let unread = lock(unread);
                let read = &unread.bytes[..unread.at];
                (!read.is_empty()).then(|| digest(read))
            }
            Input::Descriptor(source, _) => lock(source).read.so_far(),
            Input::Steady(steady) => lock(steady).digest(),
            Input::Pipe(_) => None,
        }
    }

    /// Waits until something can be taken, or the end.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Input::Bytes(_) | Input::Steady(_) => Poll::Ready(()),
            // An error shows when it is read.
            Input::Descriptor(source, place) => {
                lock(source).descriptor.poll_ready(cx, place).map(drop)
            }
            Input::Pipe(reader) => reader.poll_ready(cx),
        }
    }
}

impl Clone for Input {
    fn clone(&self) -> Input {
        match self {
            Input::Bytes(unread) => Input::Bytes(unread.clone()),
            Input::Descriptor(source, _) => {
                Input::Descriptor(source.clone(), lock(source).descriptor.place())
            }
            Input::Steady(steady) => Input::Steady(steady.clone()),
            Input::Pipe(reader) => Input::Pipe(reader.clone()),
        }
    }
}

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        matches!(self, Input::Descriptor(source, _) if lock(source).descriptor.is_terminal())
    }
}

impl StdinStream for Input {
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(self.clone())
    }

    // The stock adapter reads ahead: what it holds is lost to whoever shares the stream.
    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(InP2(self.clone()))
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(self.poll_take(cx, buf.remaining()))?;
        buf.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

/// A standard output or error. Clones write to the same place.
#[derive(Clone)]
pub(crate) struct Out {
    pub(crate) meter: Arc<Meter>,
    to: To,
    /// What a 0.2 guest has written and its host not yet, when the guest ended.
    left: Arc<Mutex<Vec<Bytes>>>,
}

enum To {
    Counted(Arc<Counted>, Option<Place>),
    Pipe(Writer),
    Nowhere,
}

/// The output of a whole run, or of a program whose caller waits for all of it.
struct Counted {
    limit: Limit,
    drain: Mutex<Drain>,
}

#[derive(Default)]
struct Drain {
    kept: Vec<u8>,
    /// What is kept of a started program, which its caller's memory has to have room for.
    held: Option<Held>,
    seen: u64,
    /// Of the first program's output; `None` for that of a started program.
    digest: Option<StreamDigest>,
    to: Option<Descriptor>,
    /// Where a deterministic run writes instead.
    relay: Option<Inlet>,
}

impl Out {
    pub(crate) fn new(sink: Sink, limit: Limit, meter: Arc<Meter>) -> Out {
        let to = match sink {
            Sink::Capture => None,
            Sink::Descriptor(fd) => Some(Descriptor::new(fd, Interest::WRITABLE)),
        };
        Out::counted(
            meter,
            limit,
            Drain { to, digest: Some(StreamDigest::default()), ..Drain::default() },
        )
    }

    /// That of a deterministic run.
    pub(crate) fn relayed(
        sink: Sink,
        limit: Limit,
        meter: Arc<Meter>,
        outlets: &mut Outlets,
    ) -> Out {
        match sink {
            Sink::Capture => Out::new(sink, limit, meter),
            Sink::Descriptor(fd) => Out::counted(meter, limit, {
                let digest = Some(StreamDigest::default());
                Drain { relay: Some(outlets.add(fd)), digest, ..Drain::default() }
            }),
        }
    }

    /// The output of a started program, kept for its caller.
    pub(crate) fn of_child(limit: Limit, meter: Arc<Meter>) -> Out {
        let held = Some(Held::nothing(meter.clone()));
        Out::counted(meter, limit, Drain { held, ..Drain::default() })
    }

    /// Into a pipe.
    pub(crate) fn pipe(writer: Writer, meter: Arc<Meter>) -> Out {
        Out { meter, to: To::Pipe(writer), left: Arc::default() }
    }

    /// Written and forgotten.
    pub(crate) fn nowhere(meter: Arc<Meter>) -> Out {
        Out { meter, to: To::Nowhere, left: Arc::default() }
    }

    fn counted(meter: Arc<Meter>, limit: Limit, drain: Drain) -> Out {
        let place = drain.to.as_ref().map(Descriptor::place);
        Out {
            meter,
            to: To::Counted(Arc::new(Counted { limit, drain: Mutex::new(drain) }), place),
            left: Arc::default(),
        }
    }

    /// Bytes written so far; only of a counted one.
    pub(crate) fn seen(&self) -> u64 {
        if let To::Counted(counted, _) = &self.to { lock(&counted.drain).seen } else { 0 }
    }

    /// The digest of what was written so far; only of the first program's.
    pub(crate) fn digest(&self) -> Option<String> {
        let To::Counted(counted, _) = &self.to else { return None };
        lock(&counted.drain).digest.as_ref().and_then(StreamDigest::so_far)
    }

    /// What was kept; leaves nothing.
    pub(crate) fn take(&self) -> Vec<u8> {
        let To::Counted(counted, _) = &self.to else { return Vec::new() };
        let mut drain = lock(&counted.drain);
        drain.held = None;
        std::mem::take(&mut drain.kept)
    }

    pub(crate) fn poll_put(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.to {
            To::Counted(counted, place) => counted.poll_put(cx, place.as_mut(), &self.meter, bytes),
            To::Pipe(writer) => writer.poll_write(cx, bytes),
            To::Nowhere => Poll::Ready(Ok(bytes.len())),
        }
    }

    /// Leaves what its guest had no time to see written.
    pub(crate) fn leave(&self, bytes: Bytes) {
        lock(&self.left).push(bytes);
    }

    /// Writes what the guest left, once it has ended.
    pub(crate) async fn finish(&mut self) {
        let left = std::mem::take(&mut *lock(&self.left));
        for mut bytes in left {
            while !bytes.is_empty() {
                match std::future::poll_fn(|cx| self.poll_put(cx, &bytes)).await {
                    Ok(count) => bytes = bytes.slice(count..),
                    // Nobody is left to be told.
                    Err(_) => break,
                }
            }
        }
        if let To::Counted(counted, Some(place)) = &mut self.to {
            // What a terminal has not taken yet.
            let to = |cx: &mut Context<'_>| {
                lock(&counted.drain)
                    .to
                    .as_mut()
                    .map_or(Poll::Ready(Ok(())), |to| to.poll_finish(cx, place))
            };
            std::future::poll_fn(to).await.ok();
        }
    }
}

impl Counted {
    fn poll_put(
        &self,
        cx: &Context<'_>,
        place: Option<&mut Place>,
        meter: &Meter,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut drain = lock(&self.drain);
        let drain = &mut *drain;
        let room = meter.limits.get(self.limit).unwrap_or(0).saturating_sub(drain.seen);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if fits == 0 && !bytes.is_empty() {
            meter.stop(self.limit);
            return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
        }
        let written = match (&mut drain.to, place, &drain.relay) {
            (Some(descriptor), Some(place), _) => {
                ready!(descriptor.poll_write(cx, place, &bytes[..fits]))?
            }
            (_, _, Some(relay)) => {
                relay.put(&bytes[..fits]);
                fits
            }
            _ => {
                if drain.held.as_mut().is_some_and(|held| !held.grow(fits as u64)) {
                    meter.stop(Limit::Memory);
                    return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
                }
                drain.kept.extend_from_slice(&bytes[..fits]);
                fits
            }
        };
        drain.seen += written as u64;
        if let Some(digest) = &mut drain.digest {
            digest.add(&bytes[..written]);
        }
        Poll::Ready(Ok(written))
    }
}

impl Clone for To {
    fn clone(&self) -> To {
        match self {
            To::Counted(counted, _) => To::Counted(
                counted.clone(),
                lock(&counted.drain).to.as_ref().map(Descriptor::place),
            ),
            To::Pipe(writer) => To::Pipe(writer.clone()),
            To::Nowhere => To::Nowhere,
        }
    }
}

impl IsTerminal for Out {
    fn is_terminal(&self) -> bool {
        match &self.to {
            To::Counted(counted, _) => {
                lock(&counted.drain).to.as_ref().is_some_and(Descriptor::is_terminal)
            }
            To::Pipe(_) | To::Nowhere => false,
        }
    }
}

impl StdoutStream for Out {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    // The stock adapter writes from a task of its own: what it holds when the guest exits would be
    // lost.
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(OutP2::new(self.clone()))
    }
}

impl AsyncWrite for Out {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_put(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
