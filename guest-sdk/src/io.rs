//! Standard input, output and error.
//!
//! Each has asynchronous methods of its own, which let other futures go on while they wait, and the
//! traits of `std::io` for everything that is written against those ([`std::io::Write`] for
//! [`Stdout`], [`std::io::Read`] for [`Stdin`]); the traits block. Errors are those of std, with
//! what was attempted in the message.
//!
//! Output written by [`crate::print!`] and by the traits is buffered, up to 64 KiB; it is written
//! out when the buffer is full, by `flush`, before anything that is written asynchronously, when
//! `main` or the tool returns, on [`crate::process::exit`] and on a panic. [`Stderr`] is not
//! buffered.

mod input;
pub(crate) mod output;

pub use input::{Lines, Stdin, stdin};
pub use output::{Stderr, Stdout, stderr, stdout};
pub use std::io::{Error, ErrorKind, Result};

/// The message of an error of `wasi:cli`, whose three streams each have a type for it that is the
/// same but for its name.
macro_rules! error {
    ($attempt:literal, $codes:path, $code:expr) => {{
        use $codes as ErrorCode;
        let (kind, reason) = match $code {
            ErrorCode::Io => (ErrorKind::Other, "input/output error"),
            ErrorCode::IllegalByteSequence => (ErrorKind::InvalidData, "illegal byte sequence"),
            ErrorCode::Pipe => (ErrorKind::BrokenPipe, "the other end is closed"),
        };
        Error::new(kind, format!(concat!($attempt, ": {}"), reason))
    }};
}
use error;
