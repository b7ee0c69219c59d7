//! The shell's own standard streams.

use std::cell::RefCell;
use std::io;

use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::bindings::wasi::cli::types::ErrorCode;
use crate::bindings::wasi::cli::{stderr, stdin, stdout};
use crate::bindings::wit_stream;

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// Standard output or standard error, opened at the first byte.
pub(crate) struct Output {
    fd: u8,
    open: RefCell<Option<Open>>,
}

struct Open {
    writer: StreamWriter<u8>,
    done: std::pin::Pin<Box<dyn Future<Output = Result<(), ErrorCode>>>>,
}

impl Output {
    /// Creates standard output for `fd` 1, otherwise standard error.
    pub(crate) fn new(fd: u8) -> Output {
        Output { fd, open: RefCell::new(None) }
    }

    /// Writes all of `bytes`; returns when the host has taken them.
    ///
    /// # Errors
    /// Returns `BrokenPipe` if the reader is gone.
    pub(crate) async fn write_all(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut open = self.open.borrow_mut().take().unwrap_or_else(|| open(self.fd));
        let left = open.writer.write_all(bytes).await;
        if left.is_empty() {
            *self.open.borrow_mut() = Some(open);
            return Ok(());
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }

    /// Closes the stream and waits until everything written has arrived.
    pub(crate) async fn finish(&self) {
        let open = self.open.borrow_mut().take();
        if let Some(Open { writer, done }) = open {
            drop(writer);
            // Errors are ignored: nothing is left to report them to.
            done.await.ok();
        }
    }
}

fn open(fd: u8) -> Open {
    let (writer, reader) = wit_stream::new::<u8>();
    if fd == 1 {
        let done = stdout::write_via_stream(reader);
        Open { writer, done: Box::pin(async move { done.await }) }
    } else {
        let done = stderr::write_via_stream(reader);
        Open { writer, done: Box::pin(async move { done.await }) }
    }
}

/// Writes to stderr on a separate stream, even while another write is in progress. Used for the
/// last message of the program.
pub(crate) async fn write_separately(bytes: Vec<u8>) {
    let output = Output::new(2);
    // If stderr is closed, the message is lost.
    output.write_all(bytes).await.ok();
    output.finish().await;
}

/// Standard input, opened at the first read.
#[derive(Default)]
pub(crate) struct Input {
    reader: Option<StreamReader<u8>>,
    ended: bool,
}

impl Input {
    /// Reads the next bytes. Empty at the end.
    pub(crate) async fn read(&mut self) -> Vec<u8> {
        while !self.ended {
            let mut reader = self.reader.take().unwrap_or_else(|| stdin::read_via_stream().0);
            let (status, bytes) = reader.read(Vec::with_capacity(CHUNK)).await;
            self.ended = status == StreamResult::Dropped;
            self.reader = Some(reader);
            if !bytes.is_empty() {
                return bytes;
            }
        }
        Vec::new()
    }
}
