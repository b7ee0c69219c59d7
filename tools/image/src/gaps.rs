//! Pass: marks the free memory between the objects of the image as used.
//!
//! malloc prefers freed memory, which is scattered over the image: each small object of a program
//! would be written to a different page, which the instance has to copy. Without the gaps, a
//! program's objects are adjacent, after those of the image.
//!
//! The layout is that of dlmalloc 2.8.6, the malloc of wasi-libc, with 32-bit pointers.

use crate::error::{Error, Result};
use crate::memory::Memory;

/// The size of a chunk's header, which has the size of the previous chunk, if that is free, and the
/// size of the chunk. Two bits of the latter mark the previous chunk and the chunk as in use.
const HEADER: u32 = 8;
const BEFORE_IN_USE: u32 = 1;
const IN_USE: u32 = 2;
const FLAGS: u32 = 7;
/// Fields of `malloc_state`: the bitmaps of nonempty bins of small and of large chunks, the sizes
/// of the chunk that was split last and of the top chunk, the lowest address, these two chunks, and
/// the size above which malloc returns memory.
const SMALL_BINS: u32 = 0;
const LARGE_BINS: u32 = 4;
const LAST_SIZE: u32 = 8;
const TOP_SIZE: u32 = 12;
const LEAST: u32 = 16;
const LAST: u32 = 20;
const TOP: u32 = 24;
const TRIM: u32 = 28;
/// wasi-libc never returns memory.
const NEVER: u32 = u32::MAX;
/// The alignment of chunks, and the size of the smallest chunk.
const ALIGNMENT: u32 = 16;

/// Marks all free chunks below the top chunk as used.
pub(crate) fn fill_gaps(memory: &mut Memory) -> Result<()> {
    let state = find_state(memory)?;
    let top = memory.word(state + TOP)?;
    let mut chunk = first_chunk(memory.word(state + LEAST)?);
    let mut gaps = 0;
    while chunk < top {
        let head = memory.word(chunk + 4)?;
        let size = head & !FLAGS;
        if size < ALIGNMENT || !size.is_multiple_of(ALIGNMENT) || size > top - chunk {
            return Err(Error::new(format!("no valid chunk at {chunk:#x}")));
        }
        if head & IN_USE == 0 {
            gaps += 1;
            memory.set_word(chunk + 4, head | IN_USE)?;
            let next = memory.word(chunk + size + 4)?;
            memory.set_word(chunk + size + 4, next | BEFORE_IN_USE)?;
        }
        chunk += size;
    }
    if chunk != top || gaps == 0 {
        return Err(Error::new("the chunks do not end at the top chunk, or none is free"));
    }
    // If the bit of a bin is not set, malloc does not look into the bin.
    for field in [SMALL_BINS, LARGE_BINS, LAST_SIZE, LAST] {
        memory.set_word(state + field, 0)?;
    }
    Ok(())
}

/// Finds malloc's state: the only place that has the addresses and the sizes of the top chunk and
/// of the chunk that was split last.
fn find_state(memory: &Memory) -> Result<u32> {
    let (words, _) = memory.bytes.as_chunks();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let has_size = |chunk: u32, size: u32| {
        chunk % ALIGNMENT == HEADER
            && words.get(chunk as usize / 4 + 1) == Some(&(size | BEFORE_IN_USE))
    };
    let mut found = Vec::new();
    for (at, state) in (0..).step_by(4).zip(words.windows(TRIM as usize / 4 + 1)) {
        let field = |offset: u32| state[offset as usize / 4];
        if field(TRIM) == NEVER && has_size(field(TOP), field(TOP_SIZE)) {
            let (last, size) = (field(LAST), field(LAST_SIZE));
            if (last, size) == (0, 0) || has_size(last, size) {
                found.push(at);
            }
        }
    }
    match found[..] {
        [state] => Ok(state),
        _ => Err(Error::new(format!(
            "malloc's state must be at one address, but may be at {found:x?}"
        ))),
    }
}

/// Returns the lowest chunk, from the lowest address that malloc requested.
fn first_chunk(least: u32) -> u32 {
    least.saturating_add(ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u32 = 0x108;

    /// Returns a memory with malloc's state at 0x20 and three chunks: a used, a free and the top
    /// one.
    fn memory() -> Memory {
        let module = wat::parse_str(format!(
            "(module (memory 1) (data (i32.const 0) \"{}\"))",
            "\\00".repeat(0x200)
        ))
        .unwrap();
        let mut memory = Memory::read(&module).unwrap();
        for (address, value) in [
            (0x20 + SMALL_BINS, 0b100),
            (0x20 + LARGE_BINS, 0b1000),
            (0x20 + LAST_SIZE, 0x20),
            (0x20 + TOP_SIZE, 0x40),
            (0x20 + LEAST, 0xf4),
            (0x20 + LAST, CHUNK + 0x10),
            (0x20 + TOP, CHUNK + 0x30),
            (0x20 + TRIM, NEVER),
            (CHUNK + 4, 0x10 | IN_USE | BEFORE_IN_USE),
            (CHUNK + 0x10 + 4, 0x20 | BEFORE_IN_USE),
            (CHUNK + 0x30 + 4, 0x40 | BEFORE_IN_USE),
        ] {
            memory.set_word(address, value).unwrap();
        }
        memory
    }

    #[test]
    fn free_chunks_are_marked_as_used_and_bins_as_empty() {
        let mut memory = memory();
        fill_gaps(&mut memory).unwrap();
        assert_eq!(memory.word(CHUNK + 4).unwrap(), 0x10 | IN_USE | BEFORE_IN_USE);
        assert_eq!(memory.word(CHUNK + 0x14).unwrap(), 0x20 | IN_USE | BEFORE_IN_USE);
        assert_eq!(memory.word(CHUNK + 0x34).unwrap(), 0x40 | BEFORE_IN_USE);
        for field in [SMALL_BINS, LARGE_BINS, LAST_SIZE, LAST] {
            assert_eq!(memory.word(0x20 + field).unwrap(), 0);
        }
    }

    #[test]
    fn unknown_layouts_are_errors() {
        for (address, value) in [
            // No state; a chunk without a size, with an invalid size, and beyond the top chunk; a
            // wrong lowest address.
            (0x20 + TRIM, 0),
            (CHUNK + 4, 0),
            (CHUNK + 4, 0x38),
            (CHUNK + 0x14, 0x4000_0000),
            (0x20 + LEAST, u32::MAX),
        ] {
            let mut memory = memory();
            memory.set_word(address, value).unwrap();
            assert!(fill_gaps(&mut memory).is_err(), "{address:#x}");
        }
        // Two places that look like the state.
        let mut memory = memory();
        for offset in (0..0x20).step_by(4) {
            let word = memory.word(0x20 + offset).unwrap();
            memory.set_word(0x60 + offset, word).unwrap();
        }
        let error = fill_gaps(&mut memory).unwrap_err().to_string();
        assert!(error.contains("[20, 60]"), "{error}");
    }
}
