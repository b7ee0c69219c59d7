//! The global allocator: one free list per block size in front of std's allocator.
//!
//! Most blocks are small, and the caller passes their size when it frees them. One list per size
//! therefore makes allocating and freeing a few instructions each, without headers and without a
//! search. Blocks of all sizes are cut from the same chunk, one after another, so the memory of a
//! small program is contiguous. Chunks without a used block go back to std's allocator whenever the
//! number of chunks has doubled, and before an allocation fails.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

/// Alignment of every block, and the unit of block sizes. A free block holds a pointer to the next
/// one.
const UNIT: usize = 8;

/// Bytes of the largest block of the free lists. Larger blocks are rare, and filling them takes
/// longer than finding them.
const LARGEST: usize = 512;

/// Alignment of chunks, in bytes. A block's address, rounded down to it, is the address of its
/// chunk.
const CHUNK: usize = 16 << 10;

/// Bytes of a chunk. The remainder leaves room for the header that std's allocator puts before the
/// next chunk; with less room, every other aligned address would stay unused.
const CHUNK_SIZE: usize = CHUNK - 2 * size_of::<usize>();

/// Bytes of a chunk that are available for blocks.
const CHUNK_ROOM: usize = CHUNK_SIZE - size_of::<Chunk>();

const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK_SIZE, CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("the alignment is a power of two"),
};

/// The number of chunks at which free chunks are first searched for.
const FIRST_RECLAIM: usize = 64;

/// The allocator of the component, which has one thread.
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
    /// The part of the newest chunk that is not cut into blocks yet.
    next: *mut u8,
    left: usize,
    /// All chunks, the newest first.
    chunks: *mut Chunk,
    count: usize,
    /// The number of chunks at which free chunks are searched for.
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
    /// Bytes that are cut into blocks; set when the chunk stops being the newest.
    cut: usize,
    /// Bytes of blocks that are in a free list; only valid during `reclaim`.
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

// SAFETY: a block is taken from a list or cut from a chunk, and belongs to the caller alone until
// it is freed. All blocks of a list have the size of that list: the layout's size, rounded up. They
// lie in chunks; a chunk is freed only while all of its blocks are in lists, and these blocks leave
// their lists first. All other blocks belong to the inner allocator. The layout decides which of
// the two a block belongs to, and the caller passes the same layout when it frees the block.
unsafe impl<S: GlobalAlloc> GlobalAlloc for Pools<S> {
    // Inlining `alloc` and `dealloc` makes a component 10 % larger and only 3 % faster.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_small(layout.size(), layout.align()) {
            // SAFETY: the caller's layout is passed on.
            return unsafe { self.large(|system| system.alloc(layout)) };
        }
        // SAFETY: there is one thread, and nothing below calls back into the allocator. Blocks in
        // lists are free, and `left` bytes follow `next`.
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
            // SAFETY: a block of such a layout came from `system`.
            return unsafe { self.system.dealloc(pointer, layout) };
        }
        // SAFETY: as in `alloc`. The caller gives the block up; it has the size and alignment of a
        // `Block` at least.
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
            // SAFETY: the caller's layout is passed on.
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
            // SAFETY: the block came from `system`, and the caller's arguments are passed on.
            return unsafe { self.large(|system| system.realloc(pointer, layout, size)) };
        }
        if was && is && layout.size().div_ceil(UNIT) == size.div_ceil(UNIT) {
            return pointer;
        }
        // SAFETY: the caller guarantees a valid new size. Both blocks have at least the smaller
        // size, and they do not overlap.
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
    /// Allocates from the inner allocator. If that fails, frees unused chunks and tries again.
    ///
    /// # Safety
    /// The requirements of `allocate` hold, and no reference to the state exists.
    unsafe fn large(&self, allocate: impl Fn(&S) -> *mut u8) -> *mut u8 {
        let pointer = allocate(&self.system);
        // SAFETY: no reference to the state exists.
        if pointer.is_null() && unsafe { self.reclaim() } {
            allocate(&self.system)
        } else {
            pointer
        }
    }

    /// Allocates a new chunk and returns its first block, or null if memory is exhausted. The rest
    /// of the previous chunk is lost: less than the largest block.
    ///
    /// # Safety
    /// `class` is the class of a small block, and no reference to the state exists.
    #[cold]
    #[inline(never)]
    unsafe fn refill(&self, class: usize) -> *mut u8 {
        let state = self.state.get();
        // SAFETY: no other reference to the state exists. A chunk begins with its header; the rest
        // is for blocks.
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

    /// Frees the chunks whose blocks are all free, except the newest. Returns whether any was
    /// freed.
    ///
    /// # Safety
    /// No reference to the state exists.
    #[cold]
    #[inline(never)]
    unsafe fn reclaim(&self) -> bool {
        // SAFETY: no other reference to the state exists. Each chunk and each free block is in one
        // list only, and a block's address determines its chunk.
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
    /// Cuts a block from the newest chunk.
    ///
    /// # Safety
    /// The chunk has enough bytes left.
    #[inline]
    unsafe fn cut(&mut self, class: usize) -> *mut u8 {
        let block = self.next;
        self.left -= class * UNIT;
        // SAFETY: the chunk has enough bytes left.
        self.next = unsafe { block.add(class * UNIT) };
        block
    }
}

/// Whether blocks of this layout come from the free lists.
#[inline]
fn is_small(size: usize, align: usize) -> bool {
    size <= LARGEST && align <= UNIT
}

fn chunk_of(block: *mut Block) -> *mut Chunk {
    block.map_addr(|address| address & !(CHUNK - 1)).cast()
}

#[cfg(test)]
mod tests;
