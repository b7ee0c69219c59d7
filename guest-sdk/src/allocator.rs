//! The global allocator: lists of free small blocks, by size, before std's allocator.
//!
//! Most blocks are small, and their size is told when they are freed: a list for each size makes
//! both ends a few instructions, without a header or a search. Blocks are cut from chunks one after
//! the other, whatever their size: what a small program allocates lies side by side. Chunks that
//! are free as a whole go back to std's allocator each time the chunks have doubled, and before
//! memory is said to be exhausted.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Sizes of blocks are multiples of it, and so is every block's address. A free block holds the
/// pointer to the next.
const UNIT: usize = 8;

/// Bytes of the largest block. Larger ones are few, and copying or filling them takes longer than
/// finding them.
const LARGEST: usize = 512;

/// Bytes from the start of a chunk to that of the next, which is a multiple of it: a block's
/// address tells its chunk.
const CHUNK: usize = 16 << 10;

/// Bytes of a chunk. The rest is what std's allocator puts before the next one; were there less
/// room for it, chunks would lie two apart.
const CHUNK_SIZE: usize = CHUNK - 2 * size_of::<usize>();

/// Bytes of a chunk that are for blocks.
const CHUNK_ROOM: usize = CHUNK_SIZE - size_of::<Chunk>();

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK_SIZE, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("the alignment is a power of two"),
};

/// As many chunks are kept before it is first looked which of them are free.
const FIRST_RECLAIM: usize = 64;

/// The allocator of a guest, which has one thread.
#[cfg(all(target_family = "wasm", not(target_feature = "atomics"), feature = "allocator"))]
#[global_allocator]
static GLOBAL: Pools<std::alloc::System> = Pools::new(std::alloc::System);

// SAFETY: without atomics there is one thread.
#[cfg(all(target_family = "wasm", not(target_feature = "atomics")))]
unsafe impl<S> Sync for Pools<S> {}

/// Pools of small blocks over the allocator `S`.
struct Pools<S> {
    system: S,
    state: UnsafeCell<State>,
}

struct State {
    /// The free blocks of `n * UNIT` bytes, at `n`.
    free: [*mut Block; LARGEST / UNIT + 1],
    /// What of the newest chunk was not cut into blocks yet.
    next: *mut u8,
    left: usize,
    /// All chunks, the newest first.
    chunks: *mut Chunk,
    count: usize,
    /// Free chunks are looked for when there are so many.
    reclaim_at: usize,
}

/// The start of a free block.
struct Block {
    next: *mut Block,
}

/// The start of a chunk.
#[repr(C, align(8))]
struct Chunk {
    next: *mut Chunk,
    /// Bytes that were cut into blocks, once it is no longer the newest.
    cut: usize,
    /// Bytes of blocks that are in a list, while that is counted.
    free: usize,
}

impl<S> Pools<S> {
    const fn new(system: S) -> Self {
        let state = State {
            free: [null_mut(); LARGEST / UNIT + 1],
            next: null_mut(),
            left: 0,
            chunks: null_mut(),
            count: 0,
            reclaim_at: FIRST_RECLAIM,
        };
        Self { system, state: UnsafeCell::new(state) }
    }
}

// SAFETY: a block is handed out of a list, or cut from a chunk, and is in neither until it is
// freed. Blocks of a list all have its size, which is that of the layout rounded up, and lie in
// chunks, which are given back only while all of their blocks are in lists, and then leave them.
// Everything else is the inner allocator's own. Whether a block is the one's or the other's is told
// by its layout, which stays the same.
unsafe impl<S: GlobalAlloc> GlobalAlloc for Pools<S> {
    // Inlined at each call, the two make a component a tenth larger and its work 3 % quicker.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_small(layout.size(), layout.align()) {
            // SAFETY: the caller's layout is handed on.
            return unsafe { self.large(|system| system.alloc(layout)) };
        }
        // SAFETY: there is one thread, and nothing below calls back; what is in a list is a free
        // block, and `left` bytes follow `next`.
        unsafe {
            let state = &mut *self.state.get();
            let class = layout.size().div_ceil(UNIT);
            let block = state.free[class];
            if !block.is_null() {
                state.free[class] = (*block).next;
                return block.cast();
            }
            if class * UNIT <= state.left { state.cut(class) } else { self.refill(class) }
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_small(layout.size(), layout.align()) {
            // SAFETY: a block of such a layout came from there.
            return unsafe { self.system.dealloc(pointer, layout) };
        }
        // SAFETY: as in `alloc`; the block is the caller's no more, has room for a pointer and is
        // aligned for one.
        unsafe {
            let state = &mut *self.state.get();
            let class = layout.size().div_ceil(UNIT);
            let block: *mut Block = pointer.cast();
            block.write(Block { next: state.free[class] });
            state.free[class] = block;
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_small(layout.size(), layout.align()) {
            // SAFETY: the caller's layout is handed on.
            return unsafe { self.large(|system| system.alloc_zeroed(layout)) };
        }
        // SAFETY: the block has the layout's size.
        unsafe {
            let pointer = self.alloc(layout);
            if !pointer.is_null() {
                pointer.write_bytes(0, layout.size());
            }
            pointer
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (was, is) = (is_small(layout.size(), layout.align()), is_small(size, layout.align()));
        if !was && !is {
            // SAFETY: the block came from there, and the caller's arguments are handed on.
            return unsafe { self.large(|system| system.realloc(pointer, layout, size)) };
        }
        if was && is && layout.size().div_ceil(UNIT) == size.div_ceil(UNIT) {
            return pointer;
        }
        // SAFETY: the caller vouches for the new size; both blocks have at least the smaller one,
        // and are two.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

impl<S: GlobalAlloc> Pools<S> {
    /// What the inner allocator gives; where that is nothing, what it gives once it has the free
    /// chunks.
    ///
    /// # Safety
    /// That of what `allocate` calls. Nobody holds the state.
    unsafe fn large(&self, allocate: impl Fn(&S) -> *mut u8) -> *mut u8 {
        let pointer = allocate(&self.system);
        // SAFETY: nobody holds the state.
        if pointer.is_null() && unsafe { self.reclaim() } {
            allocate(&self.system)
        } else {
            pointer
        }
    }

    /// A block out of a new chunk; null where there is no memory. What was not cut of the chunk
    /// before is lost: less than the largest block.
    ///
    /// # Safety
    /// `class` is that of a small block. Nobody holds the state.
    #[cold]
    #[inline(never)]
    unsafe fn refill(&self, class: usize) -> *mut u8 {
        let state = self.state.get();
        // SAFETY: nobody else holds the state. A chunk begins with its header, and the rest is for
        // blocks.
        unsafe {
            if (*state).count >= (*state).reclaim_at {
                self.reclaim();
                (*state).reclaim_at = FIRST_RECLAIM.max((*state).count * 2);
            }
            let chunk: *mut Chunk = self.large(|system| system.alloc(CHUNK_LAYOUT)).cast();
            if chunk.is_null() {
                return null_mut();
            }
            let state = &mut *state;
            if !state.chunks.is_null() {
                (*state.chunks).cut = CHUNK_ROOM - state.left;
            }
            chunk.write(Chunk { next: state.chunks, cut: 0, free: 0 });
            state.chunks = chunk;
            state.count += 1;
            state.next = chunk.add(1).cast();
            state.left = CHUNK_ROOM;
            state.cut(class)
        }
    }

    /// Gives chunks back whose blocks are all free, but for the newest, and tells whether there
    /// were any.
    ///
    /// # Safety
    /// Nobody holds the state.
    #[cold]
    #[inline(never)]
    unsafe fn reclaim(&self) -> bool {
        // SAFETY: nobody else holds the state. Chunks and free blocks are in their lists alone, and
        // a block's address tells its chunk.
        unsafe {
            let state = &mut *self.state.get();
            let (before, newest) = (state.count, state.chunks);
            let mut chunk = newest;
            while !chunk.is_null() {
                (*chunk).free = 0;
                chunk = (*chunk).next;
            }
            for (class, &first) in state.free.iter().enumerate() {
                let mut block = first;
                while !block.is_null() {
                    (*chunk_of(block)).free += class * UNIT;
                    block = (*block).next;
                }
            }
            let is_free = |chunk: *mut Chunk| chunk != newest && (*chunk).free == (*chunk).cut;
            for first in &mut state.free {
                let mut link: *mut *mut Block = first;
                while !(*link).is_null() {
                    if is_free(chunk_of(*link)) {
                        *link = (**link).next;
                    } else {
                        link = &raw mut (**link).next;
                    }
                }
            }
            let mut link: *mut *mut Chunk = &raw mut state.chunks;
            while !(*link).is_null() {
                let chunk = *link;
                if is_free(chunk) {
                    *link = (*chunk).next;
                    state.count -= 1;
                    self.system.dealloc(chunk.cast(), CHUNK_LAYOUT);
                } else {
                    link = &raw mut (*chunk).next;
                }
            }
            state.count < before
        }
    }
}

impl State {
    /// A block off what is left of the newest chunk.
    ///
    /// # Safety
    /// There is as much left.
    #[inline]
    unsafe fn cut(&mut self, class: usize) -> *mut u8 {
        let block = self.next;
        self.left -= class * UNIT;
        // SAFETY: there are as many bytes after it.
        self.next = unsafe { block.add(class * UNIT) };
        block
    }
}

/// Whether blocks of such a layout come from the lists.
#[inline]
fn is_small(size: usize, align: usize) -> bool {
    size <= LARGEST && align <= UNIT
}

fn chunk_of(block: *mut Block) -> *mut Chunk {
    block.map_addr(|address| address & !(CHUNK - 1)).cast()
}

#[cfg(test)]
mod tests;
