//! Ranges of this process's address space. Each is owned by one value, which unmaps it when it is
//! dropped.
//!
//! This module makes all system calls that map and unmap memory for guests. Its interface is safe:
//! it checks each range against what the value owns, and against what is accessible.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::null_mut;

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};

/// Sizes and offsets are multiples of this, in bytes: the largest page size of any supported
/// kernel, and the size of a WebAssembly page.
pub(super) const UNIT: usize = 64 << 10;

/// Addresses that this value alone uses.
#[derive(Debug)]
struct Addresses {
    start: *mut u8,
    len: usize,
}

#[expect(unsafe_code, reason = "a raw pointer to addresses that this value owns")]
// SAFETY: the pointer is to addresses that this value alone uses. Their content changes only
// through `&mut` of the values that have it.
unsafe impl Send for Addresses {}
#[expect(unsafe_code, reason = "a raw pointer to addresses that this value owns")]
// SAFETY: as above.
unsafe impl Sync for Addresses {}

impl Drop for Addresses {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmaps a mapping that this value owns")]
        // SAFETY: every user of these addresses borrows this value or was dropped before it.
        let done = unsafe { munmap(self.start.cast(), self.len) };
        debug_assert!(done.is_ok(), "a mapping can be unmapped");
    }
}

/// Private memory, of which one part is accessible.
#[derive(Debug)]
pub(super) struct AddressRange {
    addresses: Addresses,
    /// Offsets of the bytes that can be read and written.
    accessible: Range<usize>,
}

#[expect(unsafe_code, reason = "system calls on a mapping that this value owns")]
impl AddressRange {
    /// Reserves `len` bytes, none of which is accessible.
    pub(super) fn reserve(len: usize) -> io::Result<AddressRange> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags)? };
        Ok(AddressRange { addresses: Addresses { start: start.cast(), len }, accessible: 0..0 })
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.addresses.start
    }

    pub(super) fn len(&self) -> usize {
        self.addresses.len
    }

    /// Makes `len` bytes at offset `at` accessible, which start with the content of a file. The
    /// file does not change when they are written. Nothing else may be accessible.
    pub(super) fn map_file(
        &mut self,
        at: usize,
        file: &File,
        from: u64,
        len: usize,
    ) -> io::Result<()> {
        assert!(self.accessible.is_empty(), "a file is mapped before anything is accessible");
        let range = self.within(at..at.saturating_add(len));
        let (to, protection) = (self.at(range.start), ProtFlags::READ | ProtFlags::WRITE);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the range lies within this mapping, and nothing refers to its content.
        unsafe { mmap(to.cast(), len, protection, flags, file, from)? };
        self.accessible = range;
        Ok(())
    }

    /// Makes exactly these bytes accessible. If others were, they must start at the same offset.
    pub(super) fn set_accessible(&mut self, range: Range<usize>) -> io::Result<()> {
        let range = self.within(range);
        let before = self.accessible.clone();
        let before = if before.is_empty() { range.start..range.start } else { before };
        assert_eq!(before.start, range.start, "only the end moves");
        let (changed, flags) = if range.end >= before.end {
            (before.end..range.end, MprotectFlags::READ | MprotectFlags::WRITE)
        } else {
            (range.end..before.end, MprotectFlags::empty())
        };
        if !changed.is_empty() {
            // SAFETY: the range lies within this mapping, and no reference to it exists while this
            // value is borrowed mutably.
            unsafe { mprotect(self.at(changed.start).cast(), changed.len(), flags)? };
        }
        self.accessible = range;
        Ok(())
    }

    /// Returns pages to the kernel. Their content is then that of the mapped file, or zeros.
    pub(super) fn discard(&mut self, range: Range<usize>) -> io::Result<()> {
        let range = self.within(range);
        // SAFETY: the range lies within this mapping, and no reference to it exists while this
        // value is borrowed mutably.
        unsafe { madvise(self.at(range.start).cast(), range.len(), Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// The content of accessible bytes.
    pub(super) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let Range { start, end } = self.accessible;
        assert!(start <= range.start && range.start <= range.end && range.end <= end);
        // SAFETY: the bytes are accessible, as just checked, and mapped memory is initialized. This
        // value is borrowed mutably for as long as the slice.
        unsafe { std::slice::from_raw_parts_mut(self.at(range.start), range.len()) }
    }

    fn within(&self, range: Range<usize>) -> Range<usize> {
        let is_within = range.start <= range.end && range.end <= self.addresses.len;
        assert!(is_within, "the range must lie within the mapping");
        range
    }

    fn at(&self, offset: usize) -> *mut u8 {
        self.addresses.start.wrapping_add(offset)
    }
}

/// A part of a file, mapped read-only.
#[derive(Debug)]
pub(super) struct FileBytes(Addresses);

#[expect(unsafe_code, reason = "a mapping that this value owns")]
impl FileBytes {
    /// Maps `len` bytes of a file at offset `at`. The file must have them, and must never change
    /// while it is mapped: files of the cache are replaced and not changed.
    pub(super) fn map(file: &File, at: u64, len: usize) -> io::Result<FileBytes> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::PRIVATE, file, at)? };
        Ok(FileBytes(Addresses { start: start.cast(), len }))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes stay mapped while this value exists, and the file does not change.
        unsafe { std::slice::from_raw_parts(self.0.start, self.0.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 2 * UNIT]).unwrap();
        file
    }

    #[test]
    fn accessible_bytes_can_be_written_and_discarded() {
        let mut range = AddressRange::reserve(8 * UNIT).unwrap();
        range.set_accessible(UNIT..3 * UNIT).unwrap();
        assert!(range.bytes_mut(UNIT..3 * UNIT).iter().all(|byte| *byte == 0));
        range.bytes_mut(UNIT..3 * UNIT).fill(1);
        range.set_accessible(UNIT..2 * UNIT).unwrap();
        range.discard(UNIT..2 * UNIT).unwrap();
        assert!(range.bytes_mut(UNIT..2 * UNIT).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_mapped_file_does_not_change_and_comes_back_when_discarded() {
        let file = file();
        let mut range = AddressRange::reserve(8 * UNIT).unwrap();
        range.map_file(UNIT, &file, 0, 2 * UNIT).unwrap();
        range.set_accessible(UNIT..4 * UNIT).unwrap();
        range.bytes_mut(UNIT..4 * UNIT).fill(1);
        let bytes = FileBytes::map(&file, 0, 2 * UNIT).unwrap();
        assert!(bytes.bytes().iter().all(|byte| *byte == 7));
        range.discard(UNIT..4 * UNIT).unwrap();
        let (start, rest) = range.bytes_mut(UNIT..4 * UNIT).split_at(2 * UNIT);
        assert!(start.iter().all(|byte| *byte == 7) && rest.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn ranges_outside_of_a_mapping_are_refused() {
        let mut range = AddressRange::reserve(4 * UNIT).unwrap();
        let mut refuses = |attempt: fn(&mut AddressRange)| {
            let attempt = AssertUnwindSafe(|| attempt(&mut range));
            assert!(catch_unwind(attempt).is_err());
        };
        refuses(|range| range.set_accessible(0..5 * UNIT).unwrap());
        refuses(|range| range.discard(4 * UNIT..5 * UNIT).unwrap());
        refuses(|range| range.map_file(3 * UNIT, &file(), 0, 2 * UNIT).unwrap());
        refuses(|range| range.map_file(usize::MAX, &file(), 0, UNIT).unwrap());
        refuses(|range| range.bytes_mut(0..1).fill(1));
        range.set_accessible(UNIT..2 * UNIT).unwrap();
        let mut refuses = |attempt: fn(&mut AddressRange)| {
            let attempt = AssertUnwindSafe(|| attempt(&mut range));
            assert!(catch_unwind(attempt).is_err());
        };
        refuses(|range| range.bytes_mut(UNIT..2 * UNIT + 1).fill(1));
        refuses(|range| range.bytes_mut(UNIT - 1..UNIT).fill(1));
        refuses(|range| range.set_accessible(0..2 * UNIT).unwrap());
        refuses(|range| range.map_file(UNIT, &file(), 0, UNIT).unwrap());
    }
}
