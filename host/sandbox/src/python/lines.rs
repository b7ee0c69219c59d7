//! What the built-in Python writes to stdout: `skillhost:python/lines`.
//!
//! Python keeps the lines that it prints in a buffer of its own memory, and hands them over when
//! the buffer is full and before any other call of the host that waits or has an effect
//! (`tools/image/src/lines.rs`). The host reads the buffer too: at each epoch, so that lines appear
//! while the guest computes, and when the program ends or is stopped. So a program that is
//! stopped loses nothing that it has written.
//!
//! The buffer begins with two counters of 64 bits, little-endian: the bytes handed over before
//! those in the buffer, and the bytes written in total. The host counts for itself what it has
//! passed on, so no byte is passed on twice, wherever it interrupts the guest.
//!
//! The guest is not trusted: the engine checks the buffer's bounds, the host ignores counters that
//! do not fit them, and the bytes are limited like all output.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use wasmtime::component::{Linker, WasmList};
use wasmtime::{AsContextMut, StoreContextMut};

use crate::streams::Out;

/// The size of the buffer's counters.
const COUNTERS: usize = 16;
/// The most bytes of a buffer that are used.
const LARGEST: usize = 64 << 10;

/// The stdout of a program, and the buffer with the lines that were not written to it yet.
pub(crate) struct Lines {
    stdout: Out,
    /// `None` until the guest announces it. Only the first buffer counts.
    buffer: Option<WasmList<u8>>,
    /// All bytes that were taken from the buffer.
    passed_on: u64,
    /// Whether stdout has refused bytes. Nothing more is passed on.
    failed: bool,
}

/// A store's data that has the lines of its program.
pub(crate) trait HasLines: Send + 'static {
    fn lines(&self) -> &Lines;
    fn lines_mut(&mut self) -> &mut Lines;
}

impl Lines {
    pub(crate) fn new(stdout: Out) -> Lines {
        Lines { stdout, buffer: None, passed_on: 0, failed: false }
    }

    /// Writes bytes from the start of `rest`. Returns how many; `None` if stdout refuses them.
    fn poll_put(&mut self, cx: &Context<'_>, rest: &[u8]) -> Poll<Option<usize>> {
        self.stdout.poll_put(cx, rest).map(|written| match written {
            Ok(count) => {
                self.passed_on = self.passed_on.saturating_add(count as u64);
                Some(count)
            }
            Err(_) => {
                self.failed = true;
                None
            }
        })
    }
}

/// Links the interface.
pub(super) fn add_to_linker<T: HasLines>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut interface = linker.instance("skillhost:python/lines@0.1.0")?;
    interface.func_wrap("announce", |mut context, (buffer,): (WasmList<u8>,)| {
        context.data_mut().lines_mut().buffer.get_or_insert(buffer);
        Ok(())
    })?;
    interface.func_wrap_async("flush", |context, (): ()| {
        Box::new(async move { Ok((flush(context).await,)) })
    })
}

/// Writes what is in the buffer, and waits until it is written. The error is that stdout refuses
/// it, now or before.
async fn flush<T: HasLines>(mut context: StoreContextMut<'_, T>) -> Result<(), ()> {
    let bytes = unread(&context);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let put = poll_fn(|cx| context.data_mut().lines_mut().poll_put(cx, rest));
        let Some(count) = put.await else { break };
        rest = &rest[count..];
    }
    if context.data().lines().failed { Err(()) } else { Ok(()) }
}

/// Writes what is in the buffer, as far as that is possible without waiting. Returns the rest. Call
/// it only when the guest is interrupted or has ended.
fn write_now<T: HasLines>(context: &mut StoreContextMut<'_, T>) -> Bytes {
    let mut rest = Bytes::from(unread(context));
    let lines = context.data_mut().lines_mut();
    while !rest.is_empty() {
        match lines.poll_put(&Context::from_waker(Waker::noop()), &rest) {
            Poll::Ready(Some(count)) => rest = rest.slice(count..),
            Poll::Ready(None) => return Bytes::new(),
            Poll::Pending => break,
        }
    }
    rest
}

/// Passes on what an interrupted guest has written.
pub(crate) fn pass_on<T: HasLines>(context: &mut StoreContextMut<'_, T>) {
    write_now(context);
}

/// Passes on what a guest that has ended has written. What cannot be written now is written with
/// the rest of the output.
pub(crate) fn pass_on_last<T: HasLines>(mut store: impl AsContextMut<Data = T>) {
    let mut context = store.as_context_mut();
    let rest = write_now(&mut context);
    let lines = context.data_mut().lines_mut();
    // The guest has ended: nothing is added.
    lines.buffer = None;
    if !rest.is_empty() {
        lines.stdout.leave(rest);
    }
}

/// Returns a copy of the bytes that the guest has written and the host has not passed on.
fn unread<T: HasLines>(context: &StoreContextMut<'_, T>) -> Vec<u8> {
    let lines = context.data().lines();
    match &lines.buffer {
        Some(buffer) if !lines.failed => {
            part(buffer.as_le_slice(context), lines.passed_on).unwrap_or_default().to_vec()
        }
        _ => Vec::new(),
    }
}

/// Returns the bytes of a buffer that follow the first `passed_on` bytes; `None` if the counters
/// contradict that or the buffer's size.
fn part(buffer: &[u8], passed_on: u64) -> Option<&[u8]> {
    let (counters, bytes) = buffer.split_at_checked(COUNTERS)?;
    let (handed_over, written) = counters.split_at(COUNTERS / 2);
    let counter = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    let start = usize::try_from(passed_on.checked_sub(counter(handed_over)?)?).ok()?;
    let count = usize::try_from(counter(written)?.checked_sub(passed_on)?).ok()?;
    bytes.get(..bytes.len().min(LARGEST))?.get(start..)?.get(..count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn buffer(handed_over: u64, written: u64, bytes: &[u8]) -> Vec<u8> {
        [&handed_over.to_le_bytes()[..], &written.to_le_bytes(), bytes].concat()
    }

    #[test]
    fn bytes_that_were_passed_on_are_skipped() {
        let buffer = buffer(100, 104, b"abcdold");
        assert_eq!(part(&buffer, 100), Some(&b"abcd"[..]));
        assert_eq!(part(&buffer, 103), Some(&b"d"[..]));
        assert_eq!(part(&buffer, 104), Some(&b""[..]));
    }

    #[test]
    fn counters_that_contradict_each_other_yield_nothing() {
        for (handed_over, written, passed_on) in [
            // More than the buffer holds.
            (0, 5, 0),
            (0, u64::MAX, 0),
            // Before what was passed on, or after it.
            (0, 3, 4),
            (5, 9, 4),
            (u64::MAX, u64::MAX, 0),
        ] {
            assert_eq!(part(&buffer(handed_over, written, b"abcd"), passed_on), None);
        }
        assert_eq!(part(b"short", 0), None);
        assert_eq!(part(&buffer(0, LARGEST as u64 + 1, &vec![b'x'; 2 * LARGEST]), 0), None);
    }

    proptest! {
        #[test]
        fn no_counters_lead_out_of_the_buffer(
            handed_over: u64,
            difference in -70_000i64..70_000,
            passed in -70_000i64..70_000,
            size in 0usize..70_000,
        ) {
            let written = handed_over.wrapping_add_signed(difference);
            let buffer = buffer(handed_over, written, &vec![0; size]);
            let found = part(&buffer, handed_over.wrapping_add_signed(passed));
            prop_assert!(found.is_none_or(|found| found.len() <= size.min(LARGEST)));
        }
    }
}
