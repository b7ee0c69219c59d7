//! Counts what a run uses of its limits, over all its programs, and ends it when one is exceeded.
//!
//! Owns the counters of a run (`meter`) and its fuel (`fuel`). Each room charges what it hands out;
//! this room must not know what that is. May use no other room.

pub(crate) mod fuel;
mod meter;

pub(crate) use meter::{HostMemory, LimitExceeded, Meter, StoreMeter};
