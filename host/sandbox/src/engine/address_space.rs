//! Address space of this process that one value owns: reserved or mapped when it is made, unmapped
//! when it is dropped.

use std::fs::File;
use std::io;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

/// Sizes and places within are multiples of this, in bytes: the largest page of a kernel that is
/// known, and a page of WebAssembly.
pub(crate) const UNIT: usize = 64 << 10;

/// Addresses that nothing else knows of.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: *mut u8,
    len: usize,
}

#[expect(unsafe_code, reason = "addresses that nothing else knows")]
// SAFETY: the addresses are this value's alone, and it changes what is there only for who has it
// mutably.
unsafe impl Send for Mapped {}
#[expect(unsafe_code, reason = "addresses that nothing else knows")]
// SAFETY: as above.
unsafe impl Sync for Mapped {}

#[expect(unsafe_code, reason = "new mappings, and parts of them")]
impl Mapped {
    /// Reserves so many bytes, none of which may be touched.
    pub(crate) fn reserve(len: usize) -> io::Result<Mapped> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping, where the kernel has room.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags)? };
        Ok(Mapped { start: start.cast(), len })
    }

    /// Maps so many bytes of a file, from `at` on, to be read.
    pub(crate) fn read(file: &File, at: u64, len: usize) -> io::Result<Mapped> {
        // SAFETY: as above.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, at)? };
        Ok(Mapped { start: start.cast(), len })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Allows or forbids to read and write so many bytes, from `at` on.
    pub(crate) fn protect(
        &mut self,
        at: usize,
        len: usize,
        flags: MprotectFlags,
    ) -> io::Result<()> {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "what is not this value's");
        // SAFETY: within the mapping.
        unsafe { mprotect(self.start.wrapping_add(at).cast(), len, flags)? };
        Ok(())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmaps what it has mapped")]
        // SAFETY: whoever had an address in it has borrowed this value, or been told to be gone.
        let done = unsafe { munmap(self.start.cast(), self.len) };
        debug_assert!(done.is_ok(), "what was mapped can be unmapped");
    }
}
