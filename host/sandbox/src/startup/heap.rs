//! The heap of the host's process: malloc, and one large page for the many small values that
//! describe a large component.
//!
//! A start that loads Python makes some ten thousand small values that live until the process
//! exits: 190 pages, each of which costs a page fault. In one page of 2 MiB they cost a single
//! fault.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The allocator of the host's program: `#[global_allocator] static HEAP: Heap = Heap::new();`.
///
/// It is malloc, except for a region of [`LARGE_PAGE`] bytes that is mapped when a large component
/// is loaded. The region is handed out from start to end and never reclaimed: it is for values that
/// stay. Values that do not fit come from malloc.
#[derive(Debug)]
pub struct Heap {
    /// Null until a region is mapped.
    region: AtomicPtr<u8>,
    /// Bytes of the region that were handed out.
    used: AtomicUsize,
}

/// The size of a large page on x86-64, and on AArch64 with base pages of 4 KiB.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Larger values get pages of their own anyway, and would fill the region.
const SMALL: usize = 256 << 10;

/// Set when a large component is about to be loaded: from then on there is a region.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Announces that a large component is about to be loaded.
pub(crate) fn expect_many_values() {
    WANTED.store(true, Ordering::Relaxed);
}

impl Heap {
    /// A heap that is malloc until [`expect_many_values`] is called.
    pub const fn new() -> Heap {
        Heap { region: AtomicPtr::new(null_mut()), used: AtomicUsize::new(0) }
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if !WANTED.load(Ordering::Relaxed) || layout.size() > SMALL {
            return None;
        }
        let region = self.region()?;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let start = used.next_multiple_of(layout.align());
            let end = start.checked_add(layout.size()).filter(|end| *end <= LARGE_PAGE)?;
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(region.wrapping_add(start)),
                Err(now) => used = now,
            }
        }
    }

    fn region(&self) -> Option<*mut u8> {
        static MADE: Once = Once::new();
        MADE.call_once(|| self.region.store(map(), Ordering::Relaxed));
        Some(self.region.load(Ordering::Relaxed)).filter(|region| !region.is_null())
    }

    fn has(&self, value: *mut u8) -> bool {
        let region = self.region.load(Ordering::Relaxed);
        !region.is_null() && value.addr().wrapping_sub(region.addr()) < LARGE_PAGE
    }
}

impl Default for Heap {
    fn default() -> Heap {
        Heap::new()
    }
}

/// Maps a region, aligned to its size; null if that fails.
fn map() -> *mut u8 {
    #[expect(unsafe_code, reason = "memory that only this module uses")]
    // SAFETY: a new mapping that nothing else uses; the advice is about a part of it.
    unsafe {
        let Ok(room) = mmap_anonymous(
            null_mut(),
            2 * LARGE_PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        ) else {
            return null_mut();
        };
        let region = room.wrapping_byte_add(room.addr().next_multiple_of(LARGE_PAGE) - room.addr());
        // A kernel without large pages uses small ones.
        madvise(region, LARGE_PAGE, Advice::LinuxHugepage).ok();
        region.cast()
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: `take` returns values in a mapping that is never unmapped. They have the requested
// alignment and size, and overlap no earlier value, since `used` only grows. They are zero, as new
// mappings are. All other values come from the system allocator, which is called for its own values
// only: `has` tells them apart by address.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, value: *mut u8, layout: Layout) {
        if !self.has(value) {
            // SAFETY: as above; the value came from the system allocator.
            unsafe { System.dealloc(value, layout) }
        }
    }

    unsafe fn realloc(&self, value: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.has(value) {
            // SAFETY: as above; the value came from the system allocator.
            return unsafe { System.realloc(value, layout, size) };
        }
        // SAFETY: the alignment is valid, and the caller guarantees that the size does not
        // overflow; both values have at least as many bytes as are copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                value.copy_to_nonoverlapping(new, size.min(layout.size()));
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Allocates, grows and frees a value, and checks what a caller may rely on.
    #[expect(unsafe_code, reason = "calls an allocator")]
    fn allocates_and_frees(heap: &Heap, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty, only bytes within it are touched, and the value is freed
        // with its current layout.
        unsafe {
            let value = heap.alloc_zeroed(layout);
            assert!(!value.is_null() && value.addr().is_multiple_of(layout.align()));
            let bytes = std::slice::from_raw_parts_mut(value, layout.size());
            assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
            bytes.fill(7);
            let larger = heap.realloc(value, layout, layout.size() * 2);
            assert!(
                std::slice::from_raw_parts(larger, layout.size()).iter().all(|byte| *byte == 7)
            );
            heap.dealloc(
                larger,
                Layout::from_size_align(layout.size() * 2, layout.align()).unwrap(),
            );
            value
        }
    }

    #[test]
    fn values_do_not_overlap_in_the_region_or_outside_it() {
        let heap = Heap::new();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let before = allocates_and_frees(&heap, layout(40, 8));
        assert!(!heap.has(before));
        expect_many_values();
        let mut within = Vec::new();
        for round in 0..100_000 {
            let layout = layout(1 + round % 97, 1 << (round % 8));
            let value = allocates_and_frees(&heap, layout);
            if heap.has(value) {
                within.push((value.addr(), value.addr() + layout.size()));
            }
        }
        assert!(within.len() > 5_000, "the region was used");
        assert!(within.is_sorted_by(|a, b| a.1 <= b.0), "no two values overlap");
        assert!(!heap.has(allocates_and_frees(&heap, layout(40, 8))), "the region is full");
        assert!(
            !heap.has(allocates_and_frees(&heap, layout(SMALL + 1, 16))),
            "large values come from malloc"
        );
    }
}
