//! Standard output and standard error.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Write;
use std::rc::Rc;

use super::{Error, ErrorKind, Result, error};
use crate::bindings::{stderr as bound_stderr, stdout as bound_stdout};
use crate::stream::{BoxFuture, CHUNK, Sink, Slot, at_end, block_on};

thread_local! {
    static STDOUT: Rc<Output> = Output::new(open_stdout, finish_stdout);
    static STDERR: Rc<Output> = Output::new(open_stderr, finish_stderr);
}

/// Returns a handle to standard output.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::io::stdout().write_all("done\n").await?;
/// # Ok(())
/// # }
/// ```
pub fn stdout() -> Stdout {
    Stdout { output: STDOUT.with(Rc::clone) }
}

/// Returns a handle to standard error.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// skillhost_guest::io::stderr().write_all("half way\n").await?;
/// # Ok(())
/// # }
/// ```
pub fn stderr() -> Stderr {
    Stderr { output: STDERR.with(Rc::clone) }
}

/// A handle to standard output, from [`stdout`]. Its implementation of [`std::io::Write`] is
/// buffered.
///
/// ```no_run
/// # fn example() -> serde_json::Result<()> {
/// serde_json::to_writer(skillhost_guest::io::stdout(), &["a", "b"])?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stdout {
    output: Rc<Output>,
}

impl Stdout {
    /// Writes all of `bytes`, after everything printed before. Returns when the host has taken them,
    /// so that output of any size needs little memory.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// let out = skillhost_guest::io::stdout();
    /// out.write_all(b"bytes").await?;
    /// out.write_all("text").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.output.write_all(bytes.as_ref()).await
    }

    /// Writes the buffer out.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// skillhost_guest::print!("Name: ");
    /// skillhost_guest::io::stdout().flush().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn flush(&self) -> Result<()> {
        self.output.write_all(&[]).await
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.output.buffer(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.output.spill()
    }
}

/// A handle to standard error, from [`stderr`]. It is not buffered.
///
/// ```no_run
/// use std::io::Write;
///
/// # fn example() -> std::io::Result<()> {
/// writeln!(skillhost_guest::io::stderr(), "{} left", 3)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stderr {
    output: Rc<Output>,
}

impl Stderr {
    /// Writes all of it; returns when the host has taken it.
    ///
    /// ```no_run
    /// # async fn example() -> std::io::Result<()> {
    /// skillhost_guest::io::stderr().write_all("skipped a row\n").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write_all(&self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.output.write_all(bytes.as_ref()).await
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.output.buffer(bytes)?;
        self.output.spill()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.output.spill()
    }
}

/// Implements `print!`. An error is reported at the end of the program, because `print!` cannot
/// return it.
pub fn print_stdout(text: fmt::Arguments<'_>) {
    STDOUT.with(|output| output.print(text, false));
}

/// Implements `eprint!`.
pub fn print_stderr(text: fmt::Arguments<'_>) {
    STDERR.with(|output| output.print(text, true));
}

/// Writes to stderr on a separate stream, even while another write to stderr is in progress. Used
/// for the last message of a program.
pub(crate) async fn write_separately(bytes: &[u8]) -> Result<()> {
    let mut sink = open_stderr();
    sink.write_all(bytes).await?;
    sink.finish().await
}

struct Output {
    buffer: RefCell<Vec<u8>>,
    failed: RefCell<Option<Error>>,
    /// Set between the first write and the end of the program.
    sink: Rc<Slot<Option<Sink>>>,
    open: fn() -> Sink,
    finish: fn() -> BoxFuture<Result<()>>,
    finish_registered: Cell<bool>,
}

impl Output {
    fn new(open: fn() -> Sink, finish: fn() -> BoxFuture<Result<()>>) -> Rc<Self> {
        Rc::new(Self {
            buffer: RefCell::default(),
            failed: RefCell::default(),
            sink: Slot::new(None),
            open,
            finish,
            finish_registered: Cell::new(false),
        })
    }

    fn print(&self, text: fmt::Arguments<'_>, now: bool) {
        // Formatted before the buffer is borrowed: a `Display` implementation may print as well.
        let text = text.to_string();
        let result =
            self.buffer(text.as_bytes()).and_then(|()| if now { self.spill() } else { Ok(()) });
        if let Err(error) = result {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    fn buffer(&self, bytes: &[u8]) -> Result<()> {
        self.close_at_end();
        let mut buffer = self.buffer.borrow_mut();
        buffer.extend_from_slice(bytes);
        let full = buffer.len() >= CHUNK;
        drop(buffer);
        if full { self.spill() } else { Ok(()) }
    }

    /// Writes the buffer out, blocking. Does nothing while another write is in progress: that
    /// write, the next one or the end of the program writes the buffer.
    fn spill(&self) -> Result<()> {
        let Some(mut sink) = self.sink.try_lock() else { return Ok(()) };
        block_on(self.write(&mut sink, &[]))
    }

    async fn write_all(&self, bytes: &[u8]) -> Result<()> {
        let mut sink = self.sink.lock().await;
        self.write(&mut sink, bytes).await
    }

    async fn write(&self, sink: &mut Option<Sink>, bytes: &[u8]) -> Result<()> {
        let buffered = self.buffer.take();
        if buffered.is_empty() && bytes.is_empty() {
            return Ok(());
        }
        if sink.is_none() {
            *sink = Some((self.open)());
            self.close_at_end();
        }
        let open = sink.as_mut().expect("opened above");
        open.write_all(&buffered).await?;
        open.write_all(bytes).await
    }

    fn close_at_end(&self) {
        if !self.finish_registered.replace(true) {
            at_end(self.finish);
        }
    }

    /// Writes the buffer out and closes the stream; the next write opens a new one. Does nothing
    /// while a write is in progress: then the program ends in the middle of that write, and waiting
    /// for it would never end.
    async fn close(&self) -> Result<()> {
        self.finish_registered.set(false);
        let Some(mut sink) = self.sink.try_lock() else { return Ok(()) };
        let written = self.write(&mut sink, &[]).await;
        let closed = match sink.take() {
            Some(sink) => sink.finish().await,
            None => Ok(()),
        };
        self.failed.take().map_or(Ok(()), Err).and(written).and(closed)
    }
}

fn open_stdout() -> Sink {
    use bound_stdout::wasi::cli::{stdout::write_via_stream, types};
    let (writer, reader) = bound_stdout::wit_stream::new();
    let done = write_via_stream(reader);
    Sink::new(
        writer,
        Box::pin(async move {
            done.await.map_err(|code| error!("write to stdout", types::ErrorCode, code))
        }),
    )
}

fn open_stderr() -> Sink {
    use bound_stderr::wasi::cli::{stderr::write_via_stream, types};
    let (writer, reader) = bound_stderr::wit_stream::new();
    let done = write_via_stream(reader);
    Sink::new(
        writer,
        Box::pin(async move {
            done.await.map_err(|code| error!("write to stderr", types::ErrorCode, code))
        }),
    )
}

fn finish_stdout() -> BoxFuture<Result<()>> {
    let output = STDOUT.with(Rc::clone);
    Box::pin(async move { output.close().await })
}

fn finish_stderr() -> BoxFuture<Result<()>> {
    let output = STDERR.with(Rc::clone);
    Box::pin(async move { output.close().await })
}
