//! Tests `Pools` over an allocator that counts its bytes and refuses to exceed a limit.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::{CHUNK, CHUNK_SIZE, LARGEST, Pools};

/// Compares every block with a model of its address and contents.
#[test]
fn blocks_keep_their_contents_until_freed() {
    for seed in 1..=20 {
        let (pools, mut random) = (pools(usize::MAX), Random(seed));
        let mut blocks: Vec<TestBlock> = Vec::new();
        for step in 0..4000 {
            // Grows, shrinks, and grows again.
            let grows = step / 1000 % 2 == 0;
            match random.below(10) {
                0..=5 if grows => blocks.push(TestBlock::new(
                    &pools,
                    random.layout(),
                    random.next() as u8,
                    random.below(2) == 0,
                )),
                0..=6 if !blocks.is_empty() => {
                    blocks.swap_remove(random.below(blocks.len())).free(&pools)
                }
                7..=8 if !blocks.is_empty() => {
                    let (at, size) = (random.below(blocks.len()), random.layout().size());
                    blocks[at].resize(&pools, size);
                }
                _ => drop(reclaim(&pools)),
            }
            if step % 100 == 0 {
                assert_apart(&blocks);
            }
        }
        for block in blocks {
            block.free(&pools);
        }
        reclaim(&pools);
        assert!(
            pools.system.used.get() <= CHUNK_SIZE,
            "seed {seed}: all chunks except the newest are freed"
        );
    }
}

#[test]
fn small_programs_need_one_chunk() {
    let pools = pools(usize::MAX);
    for size in (1..=LARGEST).step_by(16) {
        TestBlock::new(&pools, Layout::from_size_align(size, 1).unwrap(), 1, false).free(&pools);
    }
    assert_eq!(pools.system.used.get(), CHUNK_SIZE);
}

#[test]
fn freed_block_is_reused_for_its_size() {
    let (pools, layout) = (pools(usize::MAX), Layout::new::<[u32; 5]>());
    let (first, second) =
        (TestBlock::new(&pools, layout, 1, false), TestBlock::new(&pools, layout, 2, false));
    let at = first.pointer;
    first.free(&pools);
    assert_eq!(TestBlock::new(&pools, Layout::new::<[u8; 24]>(), 3, true).pointer, at);
    second.check();
}

#[test]
fn freed_memory_serves_other_sizes() {
    // Each generation fits by itself; all four do not, unless memory is reused across sizes.
    let pools = pools(100 * CHUNK);
    for size in [24, 40, 200, 16] {
        let blocks: Vec<_> = (0..80 * CHUNK_SIZE / size)
            .map(|_| TestBlock::new(&pools, Layout::array::<u8>(size).unwrap(), 7, false))
            .collect();
        blocks.into_iter().for_each(|block| block.free(&pools));
    }
    assert!(
        !raw(&pools, Layout::array::<u8>(90 * CHUNK).unwrap()).is_null(),
        "large blocks reuse the memory of chunks"
    );
}

#[test]
fn free_chunks_are_returned_when_chunks_double() {
    let pools = pools(usize::MAX);
    for size in (8..=LARGEST).step_by(8) {
        let blocks: Vec<_> = (0..20 * CHUNK_SIZE / size)
            .map(|_| TestBlock::new(&pools, Layout::array::<u8>(size).unwrap(), 7, false))
            .collect();
        blocks.into_iter().for_each(|block| block.free(&pools));
    }
    // There are 64 sizes, of 20 chunks each.
    assert!(pools.system.most.get() <= 85 * CHUNK, "{} chunks", pools.system.most.get() / CHUNK);
}

#[test]
fn exhausted_memory_returns_null_and_keeps_blocks() {
    let (pools, layout) = (pools(3 * CHUNK), Layout::new::<[u64; 8]>());
    let mut blocks = Vec::new();
    loop {
        let pointer = raw(&pools, layout);
        if pointer.is_null() {
            break;
        }
        let byte = blocks.len() as u8;
        // SAFETY: the block has that layout.
        unsafe { pointer.write_bytes(byte, layout.size()) };
        blocks.push(TestBlock { pointer, layout, byte });
    }
    assert_eq!(blocks.len(), 3 * ((CHUNK_SIZE - size_of::<super::Chunk>()) / layout.size()));
    // SAFETY: the block has that layout, and stays valid if `realloc` fails.
    assert!(unsafe { pools.realloc(blocks[0].pointer, layout, 5 * CHUNK) }.is_null());
    blocks.iter().for_each(TestBlock::check);
    blocks.into_iter().for_each(|block| block.free(&pools));
    assert!(!raw(&pools, layout).is_null());
}

/// A block and the byte that fills it.
struct TestBlock {
    pointer: *mut u8,
    layout: Layout,
    byte: u8,
}

impl TestBlock {
    fn new(pools: &Pools<Counting>, layout: Layout, byte: u8, zeroed: bool) -> Self {
        // SAFETY: no layout here is empty, and the block has the layout's size.
        let pointer = unsafe {
            let pointer = if zeroed { pools.alloc_zeroed(layout) } else { pools.alloc(layout) };
            assert!(!pointer.is_null() && pointer.addr().is_multiple_of(layout.align()));
            assert!(
                !zeroed
                    || std::slice::from_raw_parts(pointer, layout.size()).iter().all(|&b| b == 0)
            );
            pointer.write_bytes(byte, layout.size());
            pointer
        };
        TestBlock { pointer, layout, byte }
    }

    fn check(&self) {
        // SAFETY: the block has the layout's size and is initialised.
        let bytes = unsafe { std::slice::from_raw_parts(self.pointer, self.layout.size()) };
        assert!(bytes.iter().all(|&b| b == self.byte));
    }

    fn resize(&mut self, pools: &Pools<Counting>, size: usize) {
        let kept = size.min(self.layout.size());
        // SAFETY: the block has that layout. The new block has `size` bytes, of which the first
        // `kept` are initialised.
        unsafe {
            self.pointer = pools.realloc(self.pointer, self.layout, size);
            assert!(
                !self.pointer.is_null() && self.pointer.addr().is_multiple_of(self.layout.align())
            );
            assert!(std::slice::from_raw_parts(self.pointer, kept).iter().all(|&b| b == self.byte));
            self.pointer.write_bytes(self.byte, size);
        }
        self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
    }

    fn free(self, pools: &Pools<Counting>) {
        self.check();
        // SAFETY: the block has that layout, and `self` is dropped with it.
        unsafe { pools.dealloc(self.pointer, self.layout) }
    }
}

fn assert_apart(blocks: &[TestBlock]) {
    let mut spans: Vec<_> = blocks.iter().map(|b| (b.pointer.addr(), b.layout.size())).collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "blocks overlap");
}

fn raw(pools: &Pools<Counting>, layout: Layout) -> *mut u8 {
    // SAFETY: the layout is not empty.
    unsafe { pools.alloc(layout) }
}

fn reclaim(pools: &Pools<Counting>) -> bool {
    // SAFETY: no reference to the state exists between calls.
    unsafe { pools.reclaim() }
}

fn pools(limit: usize) -> Pools<Counting> {
    Pools::new(Counting { limit, used: Cell::new(0), most: Cell::new(0) })
}

/// The system's allocator, limited to `limit` bytes.
struct Counting {
    limit: usize,
    used: Cell<usize>,
    most: Cell<usize>,
}

// SAFETY: all blocks come from the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > self.limit - self.used.get() {
            return std::ptr::null_mut();
        }
        self.used.set(self.used.get() + layout.size());
        self.most.set(self.most.get().max(self.used.get()));
        // SAFETY: the caller's layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.used.set(self.used.get() - layout.size());
        // SAFETY: the block came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A xorshift generator with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a mostly small layout, sometimes of several pages, with any alignment up to 32.
    fn layout(&mut self) -> Layout {
        let size = match self.below(10) {
            0 => 1 + self.below(20_000),
            1 => LARGEST - 8 + self.below(16),
            _ => 1 + self.below(LARGEST),
        };
        Layout::from_size_align(size, 1 << self.below(6)).unwrap()
    }
}
