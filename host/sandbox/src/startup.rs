//! What the process of a host does so that it starts fast and stays small: the allocator's large
//! page (`heap`), reading compiled code that is not cached (`read_ahead`), and releasing the
//! program's own pages (`code`).
//!
//! docs/contribute/start-up.md lists what each buys, and when it can be deleted, beside what is
//! done when the program is linked. Must not know guests. May use no other module.

mod code;
pub mod heap;
mod read_ahead;

pub use code::release_code;
pub(crate) use read_ahead::make_resident;
