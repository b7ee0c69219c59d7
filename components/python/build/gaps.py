"""Takes the free memory between the objects of the image away from malloc.

malloc gives out what was freed first, and that lies scattered over the image: each small object of a program would be written to a page of
its own, which the instance has to copy. Without the gaps a program's objects lie side by side, behind all that the image holds.

The layout is that of dlmalloc 2.8.6, which wasi-libc has as its malloc, with pointers of 32 bits.
"""

import struct

# Before what it gives out: the size of the chunk before, if that is free, and the chunk's own, with two bits for whether both are in use.
HEADER, BEFORE, IN_USE = 8, 1, 2
FLAGS = 7
# malloc_state: which bins of small and of large chunks hold any, the size of the chunk split last, and of the one at the end of memory.
MAPS, LAST_SIZE, TOP_SIZE, LEAST, LAST, TOP, TRIM = 0, 8, 12, 16, 20, 24, 28
# wasi-libc never gives memory back: the size from where on it would.
NEVER = 0xFFFFFFFF


def without_gaps(memory):
    state = find_state(memory)
    top = word(memory, state + TOP)
    chunk, gaps = first_chunk(memory, state), 0
    while chunk < top:
        head = word(memory, chunk + 4)
        size = head & ~FLAGS
        assert size >= 16 and size % 16 == 0, f"no chunk of memory at {chunk:#x}"
        if not head & IN_USE:
            gaps += 1
            put(memory, chunk + 4, head | IN_USE)
            put(memory, chunk + size + 4, word(memory, chunk + size + 4) | BEFORE)
        chunk += size
    assert chunk == top and gaps, "the chunks of memory do not end where they should"
    # A bin counts as empty, whatever is in it, while its bit is not set.
    for field in (MAPS, MAPS + 4, LAST_SIZE, LAST):
        put(memory, state + field, 0)


def find_state(memory):
    """Where malloc keeps its state: the only place that knows the last chunk and its size, and the one that was split last and its size."""
    words = memoryview(memory.bytes[: len(memory.bytes) & ~3]).cast("I")

    def has_size(chunk, size):
        return chunk % 16 == HEADER and chunk // 4 + 1 < len(words) and words[chunk // 4 + 1] == size | BEFORE

    found = []
    for at in range(0, len(words) - 8):
        if words[at + TRIM // 4] == NEVER and has_size(words[at + TOP // 4], words[at + TOP_SIZE // 4]):
            last, size = words[at + LAST // 4], words[at + LAST_SIZE // 4]
            if last == size == 0 or has_size(last, size):
                found.append(4 * at)
    assert len(found) == 1, f"malloc's state may be at any of {found}: its layout is not what this file knows"
    return found[0]


def first_chunk(memory, state):
    """The lowest of its memory, from where it asked for it first."""
    return (word(memory, state + LEAST) + 15 & ~15) + HEADER


def word(memory, address):
    return struct.unpack("<I", memory.read(address, 4))[0]


def put(memory, address, value):
    memory.write(address, struct.pack("<I", value))
