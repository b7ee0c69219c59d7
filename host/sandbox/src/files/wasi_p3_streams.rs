//! Reads, writes and lists through the streams of WASI 0.3. Each stream comes with a future that
//! reports how it ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use rustix::io::Errno;
use tokio::sync::oneshot;
use wasmtime::StoreContextMut;
use wasmtime::component::{
    Destination, Source, StreamConsumer, StreamProducer, StreamResult, VecBuffer,
};
use wasmtime_wasi::p3::bindings::filesystem::types::{DirectoryEntry, ErrorCode};

use super::wasi_p3::{kind, stream_end};
use super::{Listing, OpenFile};

/// Bytes moved at once: a guest with a large buffer must not delay the others.
const CHUNK: usize = 1 << 20;

/// Bytes moved at once if the host itself is at the other end.
const HOST_CHUNK: usize = 64 << 10;

/// Directory entries passed at once.
const ENTRIES: usize = 256;

/// Completes a stream's future. A stream that the guest drops early completes successfully.
struct Completion(Option<oneshot::Sender<Result<(), ErrorCode>>>);

impl Completion {
    fn send(&mut self, result: Result<(), Errno>) {
        if let Some(end) = self.0.take() {
            // The guest may have dropped the future.
            let _ = end.send(stream_end(result));
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.send(Ok(()));
    }
}

/// A file that is read from an offset.
pub(super) struct FileSource {
    file: Arc<OpenFile>,
    offset: u64,
    end: Completion,
}

impl FileSource {
    pub(super) fn new(
        file: Arc<OpenFile>,
        offset: u64,
        end: oneshot::Sender<Result<(), ErrorCode>>,
    ) -> FileSource {
        FileSource { file, offset, end: Completion(Some(end)) }
    }
}

impl<T> StreamProducer<T> for FileSource {
    type Item = u8;
    type Buffer = BytesMut;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'a, T>,
        destination: Destination<'a, u8, BytesMut>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut destination = destination.as_direct(store, HOST_CHUNK);
        let buffer = destination.remaining();
        if buffer.is_empty() {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let size = buffer.len().min(CHUNK);
        Poll::Ready(Ok(match self.file.read_at(&mut buffer[..size], self.offset) {
            Ok(0) => {
                self.end.send(Ok(()));
                StreamResult::Dropped
            }
            Ok(count) => {
                destination.mark_written(count);
                self.offset = self.offset.saturating_add(count as u64);
                StreamResult::Completed
            }
            Err(e) => {
                self.end.send(Err(e));
                StreamResult::Dropped
            }
        }))
    }
}

/// A file that is written from an offset, or (`None`) at its end.
pub(super) struct FileSink {
    file: Arc<OpenFile>,
    offset: Option<u64>,
    end: Completion,
}

impl FileSink {
    pub(super) fn new(
        file: Arc<OpenFile>,
        offset: Option<u64>,
        end: oneshot::Sender<Result<(), ErrorCode>>,
    ) -> FileSink {
        FileSink { file, offset, end: Completion(Some(end)) }
    }
}

impl<T> StreamConsumer<T> for FileSink {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, T>,
        source: Source<'_, u8>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        let mut source = source.as_direct(store);
        let bytes = source.remaining();
        if bytes.is_empty() {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let size = bytes.len().min(CHUNK);
        Poll::Ready(Ok(match self.file.write_at(&bytes[..size], self.offset) {
            Ok(count) => {
                source.mark_read(count);
                if let Some(offset) = &mut self.offset {
                    *offset = offset.saturating_add(count as u64);
                }
                StreamResult::Completed
            }
            Err(e) => {
                self.end.send(Err(e));
                StreamResult::Dropped
            }
        }))
    }
}

/// The entries of a folder.
pub(super) struct Entries {
    listing: Listing,
    end: Completion,
}

impl Entries {
    pub(super) fn new(listing: Listing, end: oneshot::Sender<Result<(), ErrorCode>>) -> Entries {
        Entries { listing, end: Completion(Some(end)) }
    }
}

impl<T> StreamProducer<T> for Entries {
    type Item = DirectoryEntry;
    type Buffer = VecBuffer<DirectoryEntry>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'a, T>,
        mut destination: Destination<'a, DirectoryEntry, VecBuffer<DirectoryEntry>>,
        _: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        if destination.remaining(store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        let next = self.listing.by_ref().take(ENTRIES);
        let entries: Vec<_> =
            next.map(|(name, file_type)| DirectoryEntry { type_: kind(file_type), name }).collect();
        if entries.is_empty() {
            self.end.send(Ok(()));
            return Poll::Ready(Ok(StreamResult::Dropped));
        }
        destination.set_buffer(entries.into());
        Poll::Ready(Ok(StreamResult::Completed))
    }
}
