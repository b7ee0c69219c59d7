//! Address space that one linear memory has for as long as it is there.

use std::io;
use std::ptr::{self, null_mut};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap};

use super::image::Image;
use super::pagemap;

/// Written pages that are copied back, in bytes; those behind are given up, and fault again.
const KEPT_WRITTEN: usize = 4 << 20;

/// A page of the processor's second kind: on such a boundary a file that the kernel holds in large pieces can be mapped in large ones.
const LARGE_PAGE: usize = 2 << 20;

/// A linear memory's addresses: guard, memory, what it may grow to, guard.
#[derive(Debug)]
pub(super) struct Mapping {
    reservation: *mut u8,
    /// Bytes of all of it.
    reserved: usize,
    base: *mut u8,
    /// Bytes that the guest may touch, whole pages.
    size: usize,
    /// Bytes that it may grow to.
    capacity: usize,
}

#[expect(unsafe_code, reason = "addresses that nothing else knows")]
// SAFETY: the addresses are this value's alone, and what changes them takes it mutably.
unsafe impl Send for Mapping {}
#[expect(unsafe_code, reason = "addresses that nothing else knows")]
// SAFETY: as above.
unsafe impl Sync for Mapping {}

#[expect(unsafe_code, reason = "maps memory, within what this value has reserved")]
impl Mapping {
    /// Reserves, and makes `size` bytes accessible, which begin with the image.
    pub(super) fn new(image: Option<&Image>, size: usize, reserved: usize, guard: usize) -> io::Result<Mapping> {
        let capacity = size.max(reserved);
        let all = capacity.checked_add(2 * guard + LARGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping, where the kernel has room.
        let reservation =
            unsafe { mmap_anonymous(null_mut(), all, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)? }.cast::<u8>();
        let front = (reservation.addr() + guard).next_multiple_of(LARGE_PAGE) - reservation.addr();
        let mut made = Mapping { reservation, reserved: all, base: reservation.wrapping_add(front), size: 0, capacity };
        if let Some(image) = image {
            let (file, at) = image.file();
            // SAFETY: the image is no larger than the memory, which lies within the reservation.
            unsafe {
                mmap(made.base.cast(), image.len(), ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED, file, at)?
            };
            made.size = image.len();
        }
        made.grow_to(size)?;
        Ok(made)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes more of it accessible.
    pub(super) fn grow_to(&mut self, size: usize) -> io::Result<()> {
        if size > self.capacity {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        if size > self.size {
            let flags = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: within the reservation, and not accessible before.
            unsafe { mprotect(self.base.wrapping_add(self.size).cast(), size - self.size, flags)? };
            self.size = size;
        }
        Ok(())
    }

    /// Gives it the content and the size that it began with. After an error it must not be used.
    pub(super) fn reset(&mut self, image: &Image) -> io::Result<()> {
        let first = image.bytes()?;
        let mut kept = 0;
        let left = pagemap::each_written(self.base, self.size, |start, len| {
            kept += len;
            // SAFETY: what was written lies within the memory, which nobody else has while this value is borrowed mutably.
            unsafe { restore(self.base, first, start, len) };
            kept < KEPT_WRITTEN
        });
        if left < self.size {
            // SAFETY: as above. Pages of the image are the file's again, others zeros.
            unsafe { madvise(self.base.wrapping_add(left).cast(), self.size - left, Advice::LinuxDontNeed)? };
        }
        if self.size > image.memory {
            let grown = self.base.wrapping_add(image.memory);
            // SAFETY: as above.
            unsafe { mprotect(grown.cast(), self.size - image.memory, MprotectFlags::empty())? };
            self.size = image.memory;
        }
        Ok(())
    }
}

/// Writes what was there first.
#[expect(unsafe_code, reason = "memory that a guest had")]
unsafe fn restore(base: *mut u8, first: &[u8], start: usize, len: usize) {
    let of_image = first.get(start..).map_or(&[][..], |rest| &rest[..rest.len().min(len)]);
    let to = base.wrapping_add(start);
    // SAFETY: the caller's.
    unsafe {
        ptr::copy_nonoverlapping(of_image.as_ptr(), to, of_image.len());
        ptr::write_bytes(to.wrapping_add(of_image.len()), 0, len - of_image.len());
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "unmaps what this value has reserved")]
        // SAFETY: nobody has an address in it any more.
        let done = unsafe { munmap(self.reservation.cast(), self.reserved) };
        debug_assert!(done.is_ok(), "what was mapped can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::super::image::{Split, write_image};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PAGE: usize = 4 << 10;
    const WASM_PAGE: usize = 64 << 10;
    const MEMORY: usize = 4 * WASM_PAGE;

    /// Of 30 pages, each full of its number.
    fn image() -> Image {
        let image = (0..30).flat_map(|page| [page; PAGE]).collect();
        let split = Split { component: Vec::new(), image, memory: MEMORY as u64 };
        let mut file = tempfile::tempfile().unwrap();
        write_image(&mut file, 0, &split).unwrap();
        Image::of(&file).unwrap()
    }

    fn mapping(image: &Image) -> Mapping {
        Mapping::new(Some(image), MEMORY, 1 << 30, 1 << 20).unwrap()
    }

    #[expect(unsafe_code, reason = "a memory that no guest has")]
    fn bytes(mapping: &mut Mapping) -> &mut [u8] {
        // SAFETY: so many bytes are accessible.
        unsafe { std::slice::from_raw_parts_mut(mapping.base(), mapping.size()) }
    }

    fn first() -> Vec<u8> {
        let mut first = image().bytes().unwrap().to_vec();
        first.resize(MEMORY, 0);
        first
    }

    /// Whether the kernel lets this process read there.
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel's, which nobody's path leads to")]
    fn is_accessible(at: *mut u8) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let address = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
        let of = |line: &str| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            (address(start)..address(end)).contains(&at.addr()).then(|| rest.starts_with("rw"))
        };
        maps.lines().find_map(of).unwrap_or_default()
    }

    #[test]
    fn it_begins_with_the_image_and_zeros_and_ends_in_guards() {
        let mut mapping = mapping(&image());
        assert!(bytes(&mut mapping) == first());
        assert_eq!(mapping.base().addr() % LARGE_PAGE, 0);
        let base = mapping.base();
        assert!(is_accessible(base.wrapping_add(MEMORY - 1)));
        for outside in
            [base.wrapping_sub(1), base.wrapping_sub(1 << 20), base.wrapping_add(MEMORY), base.wrapping_add((1 << 30) + (1 << 20) - 1)]
        {
            assert!(!is_accessible(outside));
        }
    }

    #[test]
    fn it_grows_to_what_was_reserved_and_no_further() {
        let mut mapping = mapping(&image());
        mapping.grow_to(MEMORY + WASM_PAGE).unwrap();
        assert!(is_accessible(mapping.base().wrapping_add(MEMORY + WASM_PAGE - 1)));
        assert!(!is_accessible(mapping.base().wrapping_add(MEMORY + WASM_PAGE)));
        assert!(mapping.grow_to((1 << 30) + WASM_PAGE).is_err());
    }

    #[test]
    fn more_than_is_kept_is_given_up_and_is_as_it_was_too() {
        let image = image();
        let mut mapping = mapping(&image);
        mapping.grow_to(2 * KEPT_WRITTEN).unwrap();
        bytes(&mut mapping).fill(7);
        mapping.reset(&image).unwrap();
        assert!(bytes(&mut mapping) == first());
        mapping.grow_to(2 * KEPT_WRITTEN).unwrap();
        assert!(bytes(&mut mapping)[MEMORY..].iter().all(|byte| *byte == 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_programs_write_the_next_finds_what_the_first_found(
            programs in vec((0..20_usize, vec((0.0..1.0_f64, 1..3 * PAGE, any::<u8>()), 0..80)), 1..4)
        ) {
            let image = image();
            let mut mapping = mapping(&image);
            for (grown, writes) in programs {
                mapping.grow_to(MEMORY + grown * WASM_PAGE).unwrap();
                let memory = bytes(&mut mapping);
                prop_assert!(memory[MEMORY..].iter().all(|byte| *byte == 0));
                for (place, len, value) in writes {
                    let start = (place * memory.len() as f64) as usize;
                    let end = memory.len().min(start + len);
                    memory[start..end].fill(value);
                }
                mapping.reset(&image).unwrap();
                prop_assert!(bytes(&mut mapping) == first());
                prop_assert!(!is_accessible(mapping.base().wrapping_add(MEMORY)));
            }
        }
    }
}
