//! What a deterministic run has in place of the machine's clock, randomness and order.
//!
//! Owns the run's clock (`clock`, and `wasi_clocks` for guests), randomness (`randomness`, of every
//! run), and the order in which programs take turns (`turns`). Must not know what programs do. May
//! use `streams`, `engine` and `limits`.

mod clock;
pub(crate) mod randomness;
pub(crate) mod turns;
pub(crate) mod wasi_clocks;

pub(crate) use clock::Clock;
pub(crate) use turns::{DeterministicRun, Turn, within};
