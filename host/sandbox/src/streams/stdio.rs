//! Standard streams of a program: a descriptor of the caller, bytes, a pipe, or nothing. Output of
//! the first program, and of programs that inherit its streams, is limited, and kept for the
//! outcome or written to the caller immediately. Data in a pipe belongs to its reader. A digest of
//! the first program's streams is computed for the audit log.

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
use super::deterministic_input::DeterministicInput;
use super::deterministic_output::{Inlet, Outlets};
use super::pipe::{CAPACITY, Reader, Writer};
use super::spool::Spool;
use super::stdio_p2::{InP2, OutP2};
use super::waiters::Place;
use crate::limits::{HostMemory, Meter};
use skillhost_policy::limits::Limit;
use skillhost_skill::runtime::{digest, hex};

/// The source of a run's standard input.
#[derive(Debug, Default)]
pub enum Stdin {
    /// No input.
    #[default]
    Empty,
    /// These bytes.
    Bytes(Vec<u8>),
    /// A descriptor of the caller, read when the guest reads.
    Descriptor(OwnedFd),
}

/// The destination of a run's output.
#[derive(Debug, Default)]
pub enum Sink {
    /// The outcome.
    #[default]
    Capture,
    /// A descriptor of the caller, written immediately. The outcome does not contain the output.
    Descriptor(OwnedFd),
    /// Memory or a file, written immediately. The outcome does not contain the output.
    Spool(Arc<Spool>),
}

/// A program's standard input. Clones share it: each byte is read by one of them.
pub(crate) enum Input {
    Bytes(Arc<Mutex<InputBytes>>),
    Descriptor(Arc<Mutex<InputDescriptor>>, Place),
    /// A descriptor, for a deterministic run.
    Deterministic(Arc<Mutex<DeterministicInput>>),
    Pipe(Reader),
}

pub(crate) struct InputBytes {
    bytes: Vec<u8>,
    at: usize,
}

pub(crate) struct InputDescriptor {
    descriptor: Descriptor,
    read: StreamDigest,
}

/// The digest of a stream's data. An empty stream costs nothing.
#[derive(Default)]
pub(crate) struct StreamDigest(Option<Sha256>);

impl StreamDigest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.get_or_insert_default().update(bytes);
        }
    }

    /// Returns `sha256:` and 64 hex digits for the data so far; `None` if there is none.
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
                    Arc::new(Mutex::new(InputDescriptor {
                        descriptor,
                        read: StreamDigest::default(),
                    })),
                    place,
                )
            }
        }
    }

    /// The stream of a deterministic run.
    pub(crate) fn deterministic(stdin: Stdin, meter: &Arc<Meter>) -> Input {
        match stdin {
            Stdin::Descriptor(fd) => Input::Deterministic(Arc::new(Mutex::new(
                DeterministicInput::new(fd, meter.clone()),
            ))),
            stdin => Input::new(stdin),
        }
    }

    fn bytes(bytes: Vec<u8>) -> Input {
        Input::Bytes(Arc::new(Mutex::new(InputBytes { bytes, at: 0 })))
    }

    /// Reads at most `max` bytes; nothing at the end of the stream.
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
            Input::Deterministic(input) => Poll::Ready(lock(input).take(max.min(CAPACITY))),
            Input::Pipe(reader) => reader.poll_read(cx, max).map(Ok),
        }
    }

    /// Returns the digest of what was read; `None` for a pipe.
    pub(crate) fn digest(&self) -> Option<String> {
        match self {
            Input::Bytes(unread) => {
                let unread = lock(unread);
                let read = &unread.bytes[..unread.at];
                (!read.is_empty()).then(|| digest(read))
            }
            Input::Descriptor(source, _) => lock(source).read.so_far(),
            Input::Deterministic(input) => lock(input).digest(),
            Input::Pipe(_) => None,
        }
    }

    /// Waits for data or the end of the stream.
    pub(crate) fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<()> {
        match self {
            Input::Bytes(_) | Input::Deterministic(_) => Poll::Ready(()),
            // A read reports the error.
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
            Input::Deterministic(input) => Input::Deterministic(input.clone()),
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

    // The stock adapter reads ahead: programs that share the stream would lose that data.
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

/// A program's standard output or error. Clones write to the same destination.
#[derive(Clone)]
pub(crate) struct Out {
    pub(crate) meter: Arc<Meter>,
    to: Destination,
    /// Output of a 0.2 guest that was not written yet when the guest ended.
    left: Arc<Mutex<Vec<Bytes>>>,
}

enum Destination {
    Limited(Arc<Limited>, Option<Place>),
    Pipe(Writer),
    Discard,
}

/// The limited output of a run, or of a program whose caller waits for all of it.
struct Limited {
    limit: Limit,
    sink: Mutex<LimitedSink>,
}

#[derive(Default)]
struct LimitedSink {
    kept: Vec<u8>,
    /// Memory for the kept output of a started program: it counts as memory of the run.
    held: Option<HostMemory>,
    seen: u64,
    /// The first error of the caller's descriptor, other than a closed pipe, or of the spool.
    failure: Option<io::Error>,
    /// The digest of the first program's output; `None` for started programs.
    digest: Option<StreamDigest>,
    to: Option<Descriptor>,
    /// The destination in a deterministic run, instead of `to`.
    relay: Option<Inlet>,
    /// The destination that never lets the guest wait, instead of `to` and `relay`.
    spool: Option<Arc<Spool>>,
}

impl Out {
    pub(crate) fn new(sink: Sink, limit: Limit, meter: Arc<Meter>) -> Out {
        let (to, spool) = match sink {
            Sink::Capture => (None, None),
            Sink::Descriptor(fd) => (Some(Descriptor::new(fd, Interest::WRITABLE)), None),
            Sink::Spool(spool) => (None, Some(spool)),
        };
        let digest = Some(StreamDigest::default());
        Out::limited(meter, limit, LimitedSink { to, spool, digest, ..LimitedSink::default() })
    }

    /// The stream of a deterministic run.
    pub(crate) fn deterministic(
        sink: Sink,
        limit: Limit,
        meter: Arc<Meter>,
        outlets: &mut Outlets,
    ) -> Out {
        match sink {
            Sink::Capture | Sink::Spool(_) => Out::new(sink, limit, meter),
            Sink::Descriptor(fd) => Out::limited(meter, limit, {
                let digest = Some(StreamDigest::default());
                LimitedSink { relay: Some(outlets.add(fd)), digest, ..LimitedSink::default() }
            }),
        }
    }

    /// Makes the output of a started program, which is kept for its caller.
    pub(crate) fn of_child(limit: Limit, meter: Arc<Meter>) -> Out {
        let held = Some(HostMemory::new(meter.clone()));
        Out::limited(meter, limit, LimitedSink { held, ..LimitedSink::default() })
    }

    /// Makes an output that writes to a pipe.
    pub(crate) fn pipe(writer: Writer, meter: Arc<Meter>) -> Out {
        Out { meter, to: Destination::Pipe(writer), left: Arc::default() }
    }

    /// Makes an output that is discarded.
    pub(crate) fn discard(meter: Arc<Meter>) -> Out {
        Out { meter, to: Destination::Discard, left: Arc::default() }
    }

    fn limited(meter: Arc<Meter>, limit: Limit, sink: LimitedSink) -> Out {
        let place = sink.to.as_ref().map(Descriptor::place);
        Out {
            meter,
            to: Destination::Limited(Arc::new(Limited { limit, sink: Mutex::new(sink) }), place),
            left: Arc::default(),
        }
    }

    /// Returns the number of bytes written so far; 0 if the output is not limited.
    pub(crate) fn seen(&self) -> u64 {
        if let Destination::Limited(limited, _) = &self.to { lock(&limited.sink).seen } else { 0 }
    }

    /// Returns the digest of what was written so far; `None` except for the first program's
    /// streams.
    pub(crate) fn digest(&self) -> Option<String> {
        let Destination::Limited(limited, _) = &self.to else { return None };
        lock(&limited.sink).digest.as_ref().and_then(StreamDigest::so_far)
    }

    /// Takes the reason why the caller's descriptor did not take all output; `None` if it did, or is a closed
    /// pipe.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let Destination::Limited(limited, _) = &self.to else { return None };
        let mut sink = lock(&limited.sink);
        sink.failure.take().or_else(|| sink.relay.as_ref()?.failure())
    }

    /// Takes the output that was kept.
    pub(crate) fn take(&self) -> Vec<u8> {
        let Destination::Limited(limited, _) = &self.to else { return Vec::new() };
        let mut sink = lock(&limited.sink);
        sink.held = None;
        std::mem::take(&mut sink.kept)
    }

    pub(crate) fn poll_put(&mut self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.to {
            Destination::Limited(limited, place) => {
                limited.poll_put(cx, place.as_mut(), &self.meter, bytes)
            }
            Destination::Pipe(writer) => writer.poll_write(cx, bytes),
            Destination::Discard => Poll::Ready(Ok(bytes.len())),
        }
    }

    /// Adds output that its guest could not write before it ended.
    pub(crate) fn leave(&self, bytes: Bytes) {
        lock(&self.left).push(bytes);
    }

    /// Writes the rest of the output after the guest has ended.
    pub(crate) async fn finish(&mut self) {
        let left = std::mem::take(&mut *lock(&self.left));
        for mut bytes in left {
            while !bytes.is_empty() {
                match std::future::poll_fn(|cx| self.poll_put(cx, &bytes)).await {
                    Ok(count) => bytes = bytes.slice(count..),
                    // There is no caller left to report an error to.
                    Err(_) => break,
                }
            }
        }
        if let Destination::Limited(limited, Some(place)) = &mut self.to {
            // Output that a terminal has not accepted yet.
            let to = |cx: &mut Context<'_>| {
                lock(&limited.sink)
                    .to
                    .as_mut()
                    .map_or(Poll::Ready(Ok(())), |to| to.poll_finish(cx, place))
            };
            std::future::poll_fn(to).await.ok();
        }
    }
}

fn copy_of(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

impl Limited {
    fn poll_put(
        &self,
        cx: &Context<'_>,
        place: Option<&mut Place>,
        meter: &Meter,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut sink = lock(&self.sink);
        let sink = &mut *sink;
        let room = meter.limits.get(self.limit).unwrap_or(0).saturating_sub(sink.seen);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if fits == 0 && !bytes.is_empty() {
            meter.stop(self.limit);
            return Poll::Ready(Err(io::ErrorKind::StorageFull.into()));
        }
        let written = match (&mut sink.to, place, &sink.relay, &sink.spool) {
            (Some(descriptor), Some(place), ..) => {
                let written = ready!(descriptor.poll_write(cx, place, &bytes[..fits]));
                if let Err(error) = &written
                    && error.kind() != io::ErrorKind::BrokenPipe
                {
                    sink.failure.get_or_insert_with(|| copy_of(error));
                }
                written?
            }
            (_, _, Some(relay), _) => {
                relay.put(&bytes[..fits]);
                fits
            }
            (.., Some(spool)) => {
                if let Err(error) = spool.write(&bytes[..fits]) {
                    sink.failure.get_or_insert_with(|| copy_of(&error));
                    return Poll::Ready(Err(error));
                }
                fits
            }
            _ => {
                if sink.held.as_mut().is_some_and(|held| !held.grow(fits as u64)) {
                    meter.stop(Limit::Memory);
                    return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
                }
                sink.kept.extend_from_slice(&bytes[..fits]);
                fits
            }
        };
        sink.seen += written as u64;
        if let Some(digest) = &mut sink.digest {
            digest.add(&bytes[..written]);
        }
        Poll::Ready(Ok(written))
    }
}

impl Clone for Destination {
    fn clone(&self) -> Destination {
        match self {
            Destination::Limited(limited, _) => Destination::Limited(
                limited.clone(),
                lock(&limited.sink).to.as_ref().map(Descriptor::place),
            ),
            Destination::Pipe(writer) => Destination::Pipe(writer.clone()),
            Destination::Discard => Destination::Discard,
        }
    }
}

impl IsTerminal for Out {
    fn is_terminal(&self) -> bool {
        match &self.to {
            Destination::Limited(limited, _) => {
                lock(&limited.sink).to.as_ref().is_some_and(Descriptor::is_terminal)
            }
            Destination::Pipe(_) | Destination::Discard => false,
        }
    }
}

impl StdoutStream for Out {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    // The stock adapter writes from a separate task: output that it buffers when the guest exits
    // would be lost.
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
