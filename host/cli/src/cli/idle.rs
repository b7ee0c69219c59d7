//! A server that waits for its first client. Where the kernel holds the program in pieces of 2 MiB,
//! whatever the start touched of it counts as memory of this process, a whole piece for each
//! function: it is given up, and what serving needs is mapped again as it is run.

use std::ptr::addr_of;

use rustix::mm::{Advice, madvise};

#[expect(
    unsafe_code,
    reason = "names that every linker gives an executable; their addresses alone are taken"
)]
unsafe extern "C" {
    // Where the linker has put the program's first byte, and the end of its code.
    static __executable_start: u8;
    static etext: u8;
}

/// Gives up what the start has touched of the program.
pub(super) fn let_go() {
    const PAGE: usize = 4 << 10;
    let (start, end) = (addr_of!(__executable_start), addr_of!(etext));
    // Whole pages: what shares the last one may be data.
    let len = (end.addr() - start.addr()) / PAGE * PAGE;
    #[expect(
        unsafe_code,
        reason = "the kernel maps it again, from the file, when it is run or read"
    )]
    // SAFETY: what lies there is constant, and read from the file.
    if let Err(error) = unsafe { madvise(start.cast_mut().cast(), len, Advice::LinuxDontNeed) } {
        // Also where the linker has left gaps, though then it is done.
        tracing::trace!(%error, "parts of the program stay mapped");
    }
}
