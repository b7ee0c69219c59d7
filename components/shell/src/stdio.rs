//! The shell's own standard streams.

use std::cell::RefCell;
use std::io;

use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::bindings::wasi::cli::types::ErrorCode;
use crate::bindings::wasi::cli::{stderr, stdin, stdout};
use crate::bindings::wit_stream;

/// Bytes per read.
const CHUNK: usize = 64 * 1024;

/// One of the two outputs, opened at its first byte.
pub(crate) struct Output {
    fd: u8,
    open: RefCell<Option<Open>>,
}

struct Open {
    writer: StreamWriter<u8>,
    done: std::pin::Pin<Box<dyn Future<Output = Result<(), ErrorCode>>>>,
}

impl Output {
    /// 1 for standard output, else standard error.
    pub(crate) fn new(fd: u8) -> Output {
        Output { fd, open: RefCell::new(None) }
    }

    /// Writes all of it; returns when the host has taken it.
    ///
    /// # Errors
    /// `BrokenPipe` where nobody reads any more.
    pub(crate) async fn write_all(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut open = self.open.borrow_mut().take().unwrap_or_else(|| open(self.fd));
        let left = open.writer.write_all(bytes).await;
        if left.is_empty() {
            *self.open.borrow_mut() = Some(open);
            return Ok(());
        }
        Err(io::ErrorKind::BrokenPipe.into())
    }

    /// Closes it and waits until what was written has arrived.
    pub(crate) async fn finish(&self) {
        let open = self.open.borrow_mut().take();
        if let Some(Open { writer, done }) = open {
            drop(writer);
            // There is nobody left to tell an error to.
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

/// Writes to stderr on a stream of its own, whatever else is under way there: for last words.
pub(crate) async fn write_apart(bytes: Vec<u8>) {
    let output = Output::new(2);
    // Whoever closed stderr does not want them.
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
    /// The next bytes; none at the end.
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
