//! Address space that one linear memory has for as long as it is there.

use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap};

use super::image::Image;
use super::pagemap;
use crate::engine::address_space::Mapped;
use crate::engine::heap::LARGE_PAGE;

/// Written pages that are copied back, in bytes; those behind are given up, and fault again.
const KEPT_WRITTEN: usize = 4 << 20;

/// A linear memory's addresses: guard, memory, what it may grow to, guard.
#[derive(Debug)]
pub(super) struct Mapping {
    reserved: Mapped,
    /// Where in it the memory begins: on a boundary on which a file that the kernel holds in large
    /// pieces can be mapped in large ones.
    front: usize,
    /// Bytes that the guest may touch, whole pages.
    size: usize,
    /// Bytes that it may grow to.
    capacity: usize,
}

impl Mapping {
    /// Reserves, and makes `size` bytes accessible, which begin with the image.
    pub(super) fn new(
        image: Option<&Image>,
        size: usize,
        reserved: usize,
        guard: usize,
    ) -> io::Result<Mapping> {
        let capacity = size.max(reserved);
        let all = capacity.checked_add(2 * guard + LARGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let reserved = Mapped::reserve(all)?;
        let front = (reserved.start().addr() + guard).next_multiple_of(LARGE_PAGE)
            - reserved.start().addr();
        let mut made = Mapping { reserved, front, size: 0, capacity };
        if let Some(image) = image {
            let ((file, at), flags) = (image.file(), MapFlags::PRIVATE | MapFlags::FIXED);
            #[expect(unsafe_code, reason = "maps within what this value has reserved")]
            // SAFETY: the image is no larger than the memory, which lies within the reservation.
            unsafe {
                mmap(
                    made.base().cast(),
                    image.len(),
                    ProtFlags::READ | ProtFlags::WRITE,
                    flags,
                    file,
                    at,
                )?
            };
            made.size = image.len();
        }
        made.grow_to(size)?;
        Ok(made)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.reserved.start().wrapping_add(self.front)
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
            let more = size - self.size;
            self.reserved.protect(
                self.front + self.size,
                more,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )?;
            self.size = size;
        }
        Ok(())
    }

    /// Gives it the content and the size that it began with. After an error it must not be used.
    pub(super) fn reset(&mut self, image: &Image) -> io::Result<()> {
        self.reset_keeping(image, KEPT_WRITTEN)
    }

    /// Of what was written, so many bytes stay in memory.
    fn reset_keeping(&mut self, image: &Image, mut most: usize) -> io::Result<()> {
        let (first, base) = (image.bytes()?, self.base());
        let done = pagemap::each_written(base, self.size, |start, len| {
            let kept = len.min(most);
            most -= kept;
            #[expect(unsafe_code, reason = "memory that a guest had")]
            // SAFETY: what was written lies within the memory, which nobody else has while this
            // value is borrowed mutably.
            unsafe {
                restore(base, first, start, kept)
            };
            kept
        });
        if done < self.size {
            #[expect(unsafe_code, reason = "memory that a guest had")]
            // SAFETY: as above. Pages of the image are the file's again, others zeros.
            unsafe {
                madvise(base.wrapping_add(done).cast(), self.size - done, Advice::LinuxDontNeed)?
            };
        }
        if self.size > image.memory {
            self.reserved.protect(
                self.front + image.memory,
                self.size - image.memory,
                MprotectFlags::empty(),
            )?;
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

#[cfg(test)]
mod tests {
    use super::super::image::{Split, write_image};
    use super::*;
    use crate::engine::address_space::UNIT;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PAGE: usize = 4 << 10;
    const MEMORY: usize = 4 * UNIT;

    /// Of 32 pages, each full of its number.
    fn image() -> Image {
        let image = (0..32).flat_map(|page| [page; PAGE]).collect();
        let split = Split { component: Vec::new(), image, memory: MEMORY as u64 };
        let mut file = tempfile::tempfile().unwrap();
        write_image(&mut file, 0, &split).unwrap();
        Image::of(file).unwrap()
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
    #[expect(
        clippy::disallowed_methods,
        reason = "a file of the kernel's, which nobody's path leads to"
    )]
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
        for outside in [
            base.wrapping_sub(1),
            base.wrapping_sub(1 << 20),
            base.wrapping_add(MEMORY),
            base.wrapping_add((1 << 30) + (1 << 20) - 1),
        ] {
            assert!(!is_accessible(outside));
        }
    }

    #[test]
    fn it_grows_to_what_was_reserved_and_no_further() {
        let mut mapping = mapping(&image());
        mapping.grow_to(MEMORY + UNIT).unwrap();
        assert!(is_accessible(mapping.base().wrapping_add(MEMORY + UNIT - 1)));
        assert!(!is_accessible(mapping.base().wrapping_add(MEMORY + UNIT)));
        assert!(mapping.grow_to((1 << 30) + UNIT).is_err());
    }

    /// Bytes of pages that are the process's own.
    fn written(mapping: &Mapping) -> usize {
        let mut all = 0;
        let reached = pagemap::each_written(mapping.base(), mapping.size(), |_, len| {
            all += len;
            len
        });
        assert_eq!(reached, mapping.size(), "the kernel cannot say");
        all
    }

    #[test]
    fn what_was_written_stays_in_memory_up_to_a_bound_and_is_as_it_was_behind_that_too() {
        let image = image();
        // One run of written pages, longer than what is kept of it; also where nothing is, as where
        // the kernel cannot say what was written.
        for most in [MEMORY, MEMORY - UNIT, 3 * PAGE, 0] {
            let mut mapping = mapping(&image);
            mapping.grow_to(2 * MEMORY).unwrap();
            bytes(&mut mapping).fill(7);
            assert_eq!(written(&mapping), 2 * MEMORY);
            mapping.reset_keeping(&image, most).unwrap();
            assert_eq!(written(&mapping), most);
            assert!(bytes(&mut mapping) == first());
            mapping.grow_to(2 * MEMORY).unwrap();
            assert!(bytes(&mut mapping)[MEMORY..].iter().all(|byte| *byte == 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_programs_write_the_next_finds_what_the_first_found(
            programs in vec((0..20_usize, vec((0.0..1.0_f64, 1..3 * PAGE, any::<u8>()), 0..80), 0..500_000_usize), 1..4)
        ) {
            let image = image();
            let mut mapping = mapping(&image);
            for (grown, writes, most) in programs {
                mapping.grow_to(MEMORY + grown * UNIT).unwrap();
                let memory = bytes(&mut mapping);
                prop_assert!(memory[MEMORY..].iter().all(|byte| *byte == 0));
                for (place, len, value) in writes {
                    let start = (place * memory.len() as f64) as usize;
                    let end = memory.len().min(start + len);
                    memory[start..end].fill(value);
                }
                mapping.reset_keeping(&image, most / PAGE * PAGE).unwrap();
                prop_assert!(bytes(&mut mapping) == first());
                prop_assert!(!is_accessible(mapping.base().wrapping_add(MEMORY)));
            }
        }
    }
}
