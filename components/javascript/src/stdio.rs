//! The standard streams of the program.
//!
//! What is written to stdout stays in a buffer of this memory, which the host reads when it
//! interrupts the program and when the program ends (`skillhost:python/lines`). So a line costs no
//! call of the host. The buffer is flushed when it is full, and before every call that waits or
//! that others can see.

use std::cell::{Cell, RefCell, UnsafeCell};

use crate::bindings::skillhost::python::lines;
use crate::bindings::wasi::cli;
use crate::bindings::wasi::io::poll::Pollable;
use crate::bindings::wasi::io::streams::{InputStream, OutputStream};

/// The file descriptors.
pub(crate) const STDIN: i32 = 0;
/// Standard output.
pub(crate) const STDOUT: i32 = 1;
/// Standard error.
pub(crate) const STDERR: i32 = 2;

/// The reader of an output has closed its end.
#[derive(Debug)]
pub(crate) struct BrokenPipe;

/// Bytes of a buffer's two counters, and of what it holds.
const COUNTERS: usize = 16;
const HELD: usize = 32 << 10;

/// The most bytes that a stream takes in one call.
const PIECE: usize = 4096;

/// The buffer that the host reads: the bytes handed over before those in it, all bytes written, and
/// the bytes.
#[repr(C, align(8))]
struct Buffer(UnsafeCell<[u8; COUNTERS + HELD]>);

// SAFETY: A component has one thread. The host reads the buffer while that thread is stopped.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; COUNTERS + HELD]));

thread_local! {
    static HANDED_OVER: Cell<u64> = const { Cell::new(0) };
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
    static ANNOUNCED: Cell<bool> = const { Cell::new(false) };
    static STDERR_STREAM: RefCell<Option<OutputStream>> = const { RefCell::new(None) };
    static STDIN_STREAM: RefCell<Option<InputStream>> = const { RefCell::new(None) };
}

/// Writes all bytes to stdout or stderr.
pub(crate) fn write(fd: i32, bytes: &[u8]) -> Result<(), BrokenPipe> {
    if fd == STDOUT { write_stdout(bytes) } else { write_stderr(bytes) }
}

/// Writes a message to stderr. If stderr is closed, the exit code is the only report.
pub(crate) fn report(message: &str) {
    write_stderr(message.as_bytes()).ok();
}

/// Hands over what was written to stdout, before a call that waits or that others can see. If
/// stdout is closed, the write that fills the buffer next reports it.
pub(crate) fn hand_over() {
    flush().ok();
}

/// Hands over to the host what was written to stdout.
fn flush() -> Result<(), BrokenPipe> {
    if WRITTEN.get() == HANDED_OVER.get() {
        return Ok(());
    }
    let flushed = lines::flush().map_err(|()| BrokenPipe);
    HANDED_OVER.set(WRITTEN.get());
    set_counter(0, WRITTEN.get());
    flushed
}

fn write_stdout(mut bytes: &[u8]) -> Result<(), BrokenPipe> {
    if !ANNOUNCED.replace(true) {
        // SAFETY: Nothing writes to the buffer during the call.
        lines::announce(unsafe { &*BUFFER.0.get() });
    }
    while !bytes.is_empty() {
        let used = (WRITTEN.get() - HANDED_OVER.get()) as usize;
        let count = bytes.len().min(HELD - used);
        if count == 0 {
            flush()?;
            continue;
        }
        let (now, later) = bytes.split_at(count);
        // SAFETY: The range is in the buffer, and the component has one thread.
        unsafe {
            let to = BUFFER.0.get().cast::<u8>().add(COUNTERS + used);
            to.copy_from_nonoverlapping(now.as_ptr(), count);
        }
        // The counter follows the bytes: the host may look between the two.
        WRITTEN.set(WRITTEN.get() + count as u64);
        set_counter(8, WRITTEN.get());
        bytes = later;
    }
    Ok(())
}

fn set_counter(at: usize, value: u64) {
    // SAFETY: The counter is in the buffer, and aligned.
    unsafe { BUFFER.0.get().cast::<u8>().add(at).cast::<u64>().write_volatile(value.to_le()) }
}

fn write_stderr(bytes: &[u8]) -> Result<(), BrokenPipe> {
    hand_over();
    STDERR_STREAM.with_borrow_mut(|stream| {
        let stream = stream.get_or_insert_with(cli::stderr::get_stderr);
        for piece in bytes.chunks(PIECE) {
            stream.blocking_write_and_flush(piece).map_err(|_| BrokenPipe)?;
        }
        Ok(())
    })
}

/// Reads from stdin: blocks until there is data. Empty at the end.
pub(crate) fn read_blocking(max: usize) -> Vec<u8> {
    hand_over();
    STDIN_STREAM.with_borrow_mut(|stream| {
        let stream = stream.get_or_insert_with(cli::stdin::get_stdin);
        loop {
            match stream.blocking_read(max as u64) {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return bytes,
                Err(_) => return Vec::new(),
            }
        }
    })
}

/// Reads what stdin has, without waiting: `None` at its end, empty if nothing has arrived.
pub(crate) fn read_available(max: usize) -> Option<Vec<u8>> {
    STDIN_STREAM.with_borrow_mut(|stream| {
        stream.get_or_insert_with(cli::stdin::get_stdin).read(max as u64).ok()
    })
}

/// Returns what becomes ready when stdin has data or is at its end.
pub(crate) fn stdin_pollable() -> Pollable {
    STDIN_STREAM
        .with_borrow_mut(|stream| stream.get_or_insert_with(cli::stdin::get_stdin).subscribe())
}

/// Whether a standard stream is a terminal.
pub(crate) fn is_terminal(fd: i32) -> bool {
    match fd {
        STDIN => cli::terminal_stdin::get_terminal_stdin().is_some(),
        STDOUT => cli::terminal_stdout::get_terminal_stdout().is_some(),
        STDERR => cli::terminal_stderr::get_terminal_stderr().is_some(),
        _ => false,
    }
}
