//! Standard input, output and error.
//!
//! Each stream has asynchronous methods, which let other futures of the component run while they
//! wait, and implements the matching trait of `std::io` ([`std::io::Read`] for [`Stdin`],
//! [`std::io::Write`] for [`Stdout`] and [`Stderr`]), whose methods block. Errors are those of std;
//! their message says what was attempted.
//!
//! [`crate::print!`] and the traits write to a buffer of 64 KiB. It is written out when it is full,
//! by `flush`, before an asynchronous write, when `main` or a tool returns, by
//! [`crate::process::exit`] and on a panic. [`Stderr`] is not buffered.

mod input;
pub(crate) mod output;

pub use input::{Lines, Stdin, stdin};
pub use output::{Stderr, Stdout, stderr, stdout};
pub use std::io::{Error, ErrorKind, Result};

/// Converts an error of `wasi:cli`. Each of the three streams has its own, equal error type, so
/// this is a macro.
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
