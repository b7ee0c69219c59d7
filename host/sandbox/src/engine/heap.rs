//! The program's heap: malloc, and for what a large component is described by, one large page.
//!
//! A start that loads Python makes some ten thousand small values that stay until its end: 190
//! pages, each of which the kernel hands out by a fault of its own. Where it has a page of 2 MiB to
//! give, they cost one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The allocator of a program that is its process's own:
/// `#[global_allocator] static HEAP: Heap = Heap::new();`.
///
/// It is malloc, but for a region of [`LARGE_PAGE`] bytes that is made when a large component is
/// loaded, and given out from one end to the other, never to be taken back: for values that stay.
/// What doesn't fit is malloc's.
#[derive(Debug)]
pub struct Heap {
    /// Null until there is a region.
    region: AtomicPtr<u8>,
    /// How much of it is given out. Beyond its end it is full.
    given: AtomicUsize,
}

/// A page of the processor's second kind, on x86-64 and on AArch64 with small pages of 4 KiB.
pub(crate) const LARGE_PAGE: usize = 2 << 20;

/// Larger values are pages of their own anyhow, and would fill the region.
const SMALL: usize = 256 << 10;

/// Whether a large component has been loaded: from then on there is a region.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Says that a large component is about to be loaded.
pub(crate) fn expect_many_values() {
    WANTED.store(true, Ordering::Relaxed);
}

impl Heap {
    /// One that is malloc until it is told otherwise.
    pub const fn new() -> Heap {
        Heap { region: AtomicPtr::new(null_mut()), given: AtomicUsize::new(0) }
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if !WANTED.load(Ordering::Relaxed) || layout.size() > SMALL {
            return None;
        }
        let region = self.region()?;
        let mut given = self.given.load(Ordering::Relaxed);
        loop {
            let start = given.next_multiple_of(layout.align());
            let end = start.checked_add(layout.size()).filter(|end| *end <= LARGE_PAGE)?;
            match self.given.compare_exchange_weak(given, end, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return Some(region.wrapping_add(start)),
                Err(now) => given = now,
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

/// Maps a region, on a boundary of its own size, which no two of its bytes are ever given out of
/// twice; null where that fails.
fn map() -> *mut u8 {
    #[expect(unsafe_code, reason = "memory that is this module's alone")]
    // SAFETY: a new mapping, which nothing else knows of; the advice is about a part of it.
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
        // A kernel that has none of these pages gives small ones.
        madvise(region, LARGE_PAGE, Advice::LinuxHugepage).ok();
        region.cast()
    }
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
// SAFETY: what `take` gives out lies in a mapping that is never unmapped, is aligned and as large
// as asked for, and overlaps nothing that was given out before, since `given` only grows. It is
// zero, as new mappings are. Everything else is the system's, which is told of nothing that is not
// its own: `has` tells them apart by their addresses.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.take(layout).unwrap_or_else(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, value: *mut u8, layout: Layout) {
        if !self.has(value) {
            // SAFETY: as above; it is the system's.
            unsafe { System.dealloc(value, layout) }
        }
    }

    unsafe fn realloc(&self, value: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.has(value) {
            // SAFETY: as above; it is the system's.
            return unsafe { System.realloc(value, layout, size) };
        }
        // SAFETY: the alignment is valid, and the caller promises that the size does not overflow;
        // both values have as many bytes as are copied.
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

    /// As an allocator's caller does, with what it may rely on.
    #[expect(unsafe_code, reason = "the caller's side of an allocator")]
    fn takes_and_gives_back(heap: &Heap, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is not empty, only bytes within it are touched, and the value is given
        // back with the layout that it has by then.
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
    fn values_are_whole_before_a_region_in_it_beyond_its_end_and_beside_it() {
        let heap = Heap::new();
        let layout = |size, align| Layout::from_size_align(size, align).unwrap();
        let before = takes_and_gives_back(&heap, layout(40, 8));
        assert!(!heap.has(before));
        expect_many_values();
        let mut within = Vec::new();
        for round in 0..100_000 {
            let layout = layout(1 + round % 97, 1 << (round % 8));
            let value = takes_and_gives_back(&heap, layout);
            if heap.has(value) {
                within.push((value.addr(), value.addr() + layout.size()));
            }
        }
        assert!(within.len() > 5_000, "the region was used");
        assert!(within.is_sorted_by(|a, b| a.1 <= b.0), "nothing was given out twice");
        assert!(!heap.has(takes_and_gives_back(&heap, layout(40, 8))), "it is full by then");
        assert!(
            !heap.has(takes_and_gives_back(&heap, layout(SMALL + 1, 16))),
            "what is large is malloc's"
        );
    }
}
