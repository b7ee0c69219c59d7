//! Releases the program's own pages before a server waits for its first client. Kernels that map
//! executables in pages of 2 MiB count a whole page for each function that the start has called.
//! The kernel maps the pages that serving needs again when their functions run.

use std::ptr::addr_of;

use rustix::mm::{Advice, madvise};

#[expect(
    unsafe_code,
    reason = "names that every linker gives an executable; their addresses alone are taken"
)]
unsafe extern "C" {
    // The first byte of the program, and the end of its code.
    static __executable_start: u8;
    static etext: u8;
}

/// Releases the pages of the program that the start has touched. A server calls it once, before it
/// waits for its first client.
pub fn release_code() {
    const PAGE: usize = 4 << 10;
    let (start, end) = (addr_of!(__executable_start), addr_of!(etext));
    // Whole pages only: the last one may also have data.
    let len = (end.addr() - start.addr()) / PAGE * PAGE;
    #[expect(
        unsafe_code,
        reason = "the kernel maps the pages again, from the file, when they are used"
    )]
    // SAFETY: the range is constant and backed by the file of the executable.
    if let Err(error) = unsafe { madvise(start.cast_mut().cast(), len, Advice::LinuxDontNeed) } {
        // Gaps that the linker left also end here, after the pages are released.
        tracing::trace!(%error, "cannot release all pages of the program");
    }
}
