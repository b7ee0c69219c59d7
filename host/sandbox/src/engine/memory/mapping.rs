//! The address space of one linear memory.

use std::io;

use super::image::Image;
use super::pagemap;
use crate::engine::address_space::AddressRange;
use crate::startup::heap::LARGE_PAGE;

/// Bytes of written pages that are restored by copying; later ones are dropped, and fault again.
const KEPT_WRITTEN: usize = 4 << 20;

/// The addresses of a linear memory: guard, memory, room to grow, guard.
#[derive(Debug)]
pub(super) struct Mapping {
    range: AddressRange,
    /// The offset of the memory: aligned so that a file which the kernel caches in large pages can
    /// be mapped in large pages.
    front: usize,
    /// Bytes that are accessible to the guest; whole pages.
    size: usize,
    /// Bytes that the memory can grow to.
    capacity: usize,
}

impl Mapping {
    /// Reserves the addresses, and makes `size` bytes accessible, which start with the image.
    pub(super) fn new(
        image: Option<&Image>,
        size: usize,
        reserved: usize,
        guard: usize,
    ) -> io::Result<Mapping> {
        let capacity = size.max(reserved);
        let all = capacity.checked_add(2 * guard + LARGE_PAGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut range = AddressRange::reserve(all)?;
        let start = range.start().addr();
        let front = (start + guard).next_multiple_of(LARGE_PAGE) - start;
        if let Some(image) = image {
            let (file, from) = image.file();
            range.map_file(front, file, from, image.len())?;
        }
        let mut mapping = Mapping { range, front, size: 0, capacity };
        mapping.set_size(size)?;
        Ok(mapping)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.range.start().wrapping_add(self.front)
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes `size` bytes accessible, if fewer are.
    pub(super) fn grow_to(&mut self, size: usize) -> io::Result<()> {
        if size > self.capacity {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.set_size(size.max(self.size))
    }

    fn set_size(&mut self, size: usize) -> io::Result<()> {
        self.range.set_accessible(self.front..self.front + size)?;
        self.size = size;
        Ok(())
    }

    /// Restores the initial content and size. After an error the memory must not be used.
    pub(super) fn reset(&mut self, image: &Image) -> io::Result<()> {
        self.reset_keeping(image, KEPT_WRITTEN)
    }

    /// Does so; at most `most` bytes of written pages are restored by copying.
    fn reset_keeping(&mut self, image: &Image, mut most: usize) -> io::Result<()> {
        let (initial, base, front) = (image.bytes()?, self.base(), self.front);
        let range = &mut self.range;
        let done = pagemap::each_written(base, self.size, |start, len| {
            let kept = len.min(most);
            most -= kept;
            let written = range.bytes_mut(front + start..front + start + kept);
            let initial = initial.get(start..).unwrap_or_default();
            let (of_image, zeros) = written.split_at_mut(kept.min(initial.len()));
            of_image.copy_from_slice(&initial[..of_image.len()]);
            zeros.fill(0);
            kept
        });
        if done < self.size {
            // Pages of the image read as the file again, others as zeros.
            self.range.discard(front + done..front + self.size)?;
        }
        self.set_size(self.size.min(image.memory))
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

    /// An image of 32 pages, each filled with its number.
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

    fn bytes(mapping: &mut Mapping) -> &mut [u8] {
        let Mapping { range, front, size, .. } = mapping;
        range.bytes_mut(*front..*front + *size)
    }

    fn first() -> Vec<u8> {
        let mut first = image().bytes().unwrap().to_vec();
        first.resize(MEMORY, 0);
        first
    }

    /// Checks whether this process may access an address.
    #[expect(clippy::disallowed_methods, reason = "reads a fixed file of the kernel")]
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
    fn memory_starts_with_the_image_between_guards() {
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
    fn memory_grows_up_to_its_reservation() {
        let mut mapping = mapping(&image());
        mapping.grow_to(MEMORY + UNIT).unwrap();
        assert!(is_accessible(mapping.base().wrapping_add(MEMORY + UNIT - 1)));
        assert!(!is_accessible(mapping.base().wrapping_add(MEMORY + UNIT)));
        assert!(mapping.grow_to((1 << 30) + UNIT).is_err());
    }

    /// Returns the size of the written pages, in bytes.
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
    fn reset_restores_all_pages_and_keeps_some_mapped() {
        let image = image();
        // One range of written pages, longer than what is kept of it; and nothing kept, as if the
        // kernel could not report written pages.
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
        fn every_program_finds_the_initial_content(
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
