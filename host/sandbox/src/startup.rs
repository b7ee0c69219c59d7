//! What the process of a host does so that it starts fast: the allocator's large page (`heap`), and
//! reading compiled code that is not cached (`read_ahead`).
//!
//! docs/contribute/start-up.md lists what each buys, and when it can be deleted, beside what is
//! done when the program is linked. Must not know guests. May use no other module.

pub mod heap;
mod read_ahead;

pub(crate) use read_ahead::make_resident;
