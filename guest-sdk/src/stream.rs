//! The parts that all byte streams share: a reading end, a writing end, and a lock for streams of
//! which a component has only one.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

/// Bytes per read and per write: large enough to make calls rare, small enough to hold many in
/// memory.
pub(crate) const CHUNK: usize = 64 * 1024;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// The result of a stream. Resolves when its other end is closed.
pub(crate) type Done = BoxFuture<io::Result<()>>;

/// The reading end.
pub(crate) struct Source {
    reader: StreamReader<u8>,
    done: Option<Done>,
    /// Bytes that were read but not returned yet, from `start` on.
    rest: Vec<u8>,
    start: usize,
}

impl Source {
    pub(crate) fn new(reader: StreamReader<u8>, done: Done) -> Self {
        Self { reader, done: Some(done), rest: Vec::new(), start: 0 }
    }

    /// Reads the next bytes. `None` at the end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.start < self.rest.len() {
            let mut rest = std::mem::take(&mut self.rest);
            rest.drain(..std::mem::take(&mut self.start));
            return Ok(Some(rest));
        }
        while self.done.is_some() {
            let (status, bytes) = self.reader.read(Vec::with_capacity(CHUNK)).await;
            if status == StreamResult::Dropped
                && let Some(done) = self.done.take()
            {
                done.await?;
            }
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    pub(crate) async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut all = self.chunk().await?.unwrap_or_default();
        while self.done.is_some() {
            // Doubling the capacity copies a large input a few times only.
            if all.capacity() - all.len() < CHUNK {
                all.reserve(CHUNK.max(all.len()));
            }
            let (status, bytes) = self.reader.read(all).await;
            all = bytes;
            if status == StreamResult::Dropped
                && let Some(done) = self.done.take()
            {
                done.await?;
            }
        }
        Ok(all)
    }

    /// Reads up to one chunk into `into`. Returns 0 at the end.
    pub(crate) async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.rest.len() {
            self.rest = self.chunk().await?.unwrap_or_default();
            self.start = 0;
        }
        let count = into.len().min(self.rest.len() - self.start);
        into[..count].copy_from_slice(&self.rest[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }

    /// Reads the next line with its line end. `None` at the end.
    pub(crate) async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            let unread = &self.rest[self.start..];
            if let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                line.extend_from_slice(&unread[..=end]);
                self.start += end + 1;
                return Ok(Some(line));
            }
            line.extend_from_slice(unread);
            self.start = self.rest.len();
            match self.chunk().await? {
                Some(chunk) => (self.rest, self.start) = (chunk, 0),
                None => return Ok((!line.is_empty()).then_some(line)),
            }
        }
    }
}

/// The writing end.
pub(crate) struct Sink {
    writer: StreamWriter<u8>,
    done: Option<Done>,
}

impl Sink {
    pub(crate) fn new(writer: StreamWriter<u8>, done: Done) -> Self {
        Self { writer, done: Some(done) }
    }

    /// Writes all of `bytes`; returns when the other end has taken them.
    pub(crate) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            let left = self.writer.write_all(chunk.to_vec()).await;
            if !left.is_empty() {
                // The result of the stream has the reason. Without one, the reader closed its end.
                if let Some(done) = self.done.take() {
                    done.await?;
                }
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(())
    }

    /// Closes the stream and waits until everything written has arrived.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.writer);
        match self.done {
            Some(done) => done.await,
            None => Ok(()),
        }
    }
}

/// An asynchronous lock for futures of one task; a component has one thread.
pub(crate) struct Slot<T> {
    value: RefCell<Option<T>>,
    waiting: RefCell<Vec<Waker>>,
}

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Rc<Self> {
        Rc::new(Self { value: RefCell::new(Some(value)), waiting: RefCell::default() })
    }

    pub(crate) fn try_lock(self: &Rc<Self>) -> Option<Guard<T>> {
        let value = self.value.borrow_mut().take()?;
        Some(Guard { slot: Rc::clone(self), value: Some(value) })
    }

    pub(crate) async fn lock(self: &Rc<Self>) -> Guard<T> {
        poll_fn(|context| match self.try_lock() {
            Some(guard) => Poll::Ready(guard),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

pub(crate) struct Guard<T> {
    slot: Rc<Slot<T>>,
    value: Option<T>,
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("held until dropped")
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held until dropped")
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        *self.slot.value.borrow_mut() = self.value.take();
        for waker in self.slot.waiting.take() {
            waker.wake();
        }
    }
}

/// Runs a future to its end without polling other futures of this task. Used by the synchronous
/// traits of std.
pub(crate) fn block_on<T: 'static>(future: impl Future<Output = T>) -> T {
    wit_bindgen::block_on(future)
}

/// Awaits `main` and polls `side` meanwhile. If `side` is not done by then, it stays in place.
pub(crate) async fn poll_with<T>(
    side: &mut Option<BoxFuture<()>>,
    main: impl Future<Output = T>,
) -> T {
    let mut main = pin!(main);
    poll_fn(|context| {
        if let Some(future) = side
            && future.as_mut().poll(context).is_ready()
        {
            *side = None;
        }
        main.as_mut().poll(context)
    })
    .await
}

/// Makes the future that flushes and closes one stream.
type Finish = fn() -> BoxFuture<io::Result<()>>;

thread_local! {
    static FINISH: RefCell<Vec<Finish>> = const { RefCell::new(Vec::new()) };
}

/// Registers a stream to flush at the end of the program. Streams register at first use, because a
/// call by name would make every component import stdout and stderr.
pub(crate) fn at_end(finish: Finish) {
    FINISH.with_borrow_mut(|list| list.push(finish));
}

/// Flushes and closes all registered streams, and returns the first error.
pub(crate) async fn finish_all() -> io::Result<()> {
    let mut result = Ok(());
    for finish in FINISH.take() {
        result = result.and(finish().await);
    }
    result
}

/// Converts WASI's time to std's. Times before 1970, which std's type cannot represent on this
/// target, become 1970.
pub(crate) fn system_time(seconds: i64, nanoseconds: u32) -> SystemTime {
    UNIX_EPOCH + Duration::new(seconds.try_into().unwrap_or(0), nanoseconds)
}
