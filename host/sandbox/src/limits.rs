//! Counts what a run uses of its limits, over all its programs, and ends it when one is exceeded.
//!
//! Owns the counters of a run (`meter`) and its fuel (`fuel`). Each module charges what it hands
//! out; this module must not know what that is. May use no other module.

pub(crate) mod fuel;
mod meter;

pub(crate) use meter::{HostMemory, LimitExceeded, Meter, StoreMeter};
