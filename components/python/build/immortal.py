"""Makes the objects of the memory image immortal.

CPython counts references in the objects themselves, so that a program that only looks at an object writes to it, and its page has to be
copied from the image. The counts of immortal objects are left alone (PEP 683). boot.py lists the objects that are to live as long as the
interpreter does; here their counts are set.
"""

import bisect
import struct

import wasm

# The same as in boot.py.
MARK = struct.pack("<8I", *range(0x5EED0001, 0x5EED0009))
# CPython's Include/refcount.h, for pointers of 32 bits: `_Py_IMMORTAL_INITIAL_REFCNT`, and from where on a count is one.
IMMORTAL, LEAST = 5 << 28, 1 << 30
# No living object has that many references; and below it lie the stack and constants: an object that was freed and is kept for the next of
# its type has the address of another in place of a count.
MANY = 1 << 20
DATA = 11


def immortal(module):
    parts = list(wasm.sections(module))
    (at,) = (index for index, (kind, _) in enumerate(parts) if kind == DATA)
    memory = Memory(parts[at][1])
    made_immortal(memory)
    parts[at] = (DATA, memory.section())
    return wasm.join(wasm.CORE, parts)


def made_immortal(memory):
    start = memory.find(MARK)
    (count,) = struct.unpack("<I", memory.read(start + len(MARK), 4))
    immortals = 0
    for address, of_type in struct.iter_unpack("<2I", memory.read(start + len(MARK) + 4, 8 * count)):
        references, has_type = struct.unpack("<2I", memory.read(address, 8))
        # What has gone since it was listed: its place is free, or holds something else.
        living = has_type == of_type and (0 < references < MANY or references >= LEAST)
        if living and references < LEAST:
            memory.write(address, struct.pack("<I", IMMORTAL))
        immortals += living
    assert immortals > 0.99 * count > 50_000, f"of {count} objects {immortals} are immortal now: the image is not what it was"
    memory.write(start, bytes(len(MARK) + 4 + 8 * count))


class Memory:
    """The content of a memory, by address, from the data segments that fill it."""

    def __init__(self, section):
        reader = wasm.Reader(section)
        self.segments, self.bytes = [], bytearray()
        for _ in range(reader.unsigned()):
            assert reader.unsigned() == 0 and reader.byte() == 0x41, "a data segment that is not active, at a constant address"
            offset = reader.signed()
            assert reader.byte() == 0x0B
            size = reader.unsigned()
            self.segments.append((offset, size))
            self.bytes += bytes(max(0, offset + size - len(self.bytes)))
            self.bytes[offset : offset + size] = section[reader.at : reader.at + size]
            reader.skip(size)

    def find(self, what):
        assert self.bytes.count(what) == 1, "the list of objects is not there, or there twice"
        return self.bytes.index(what)

    def read(self, address, size):
        return self.bytes[address : address + size]

    def write(self, address, what):
        self.bytes[address : address + len(what)] = what

    def section(self):
        contents = ((offset, self.bytes[offset : offset + size]) for offset, size in self.segments)
        return wasm.vector(b"\0\x41" + wasm.signed(offset) + b"\x0b" + wasm.unsigned(len(data)) + data for offset, data in contents)
