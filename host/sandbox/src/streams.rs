//! Standard streams of programs, pipes between them, and descriptors of the caller.
//!
//! Owns what a program reads and writes (`stdio`, and `stdio_p2` for WASI 0.2), bounded pipes
//! (`pipe`), the caller's descriptors (`descriptor`, `waiters`) and what a terminal shows of a
//! guest's output (`terminal`). Output that others follow is in a `spool`. A deterministic run reads and writes through `deterministic_input`
//! and `deterministic_output`. Must not know which program is at the other end. May use `limits`.

mod descriptor;
mod deterministic_input;
mod deterministic_output;
pub(crate) mod pipe;
mod spool;
mod stdio;
mod stdio_p2;
pub mod terminal;
mod waiters;

pub(crate) use deterministic_output::Outlets;
pub use spool::Spool;
pub(crate) use stdio::{Input, Out};
pub use stdio::{Sink, Stdin};
