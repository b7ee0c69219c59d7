//! Counts what a run uses of its limits, over all its programs, and ends it when one is exceeded.
//!
//! Owns the counters of a run (`meter`) and its fuel (`fuel`). Each module charges what it hands
//! out; this module must not know what that is. May use no other module.

mod cpu_share;
pub(crate) mod fuel;
mod meter;

pub(crate) use cpu_share::WithinShare;
pub(crate) use meter::{AliveProgram, HostMemory, LimitExceeded, Meter, StoreMeter};
