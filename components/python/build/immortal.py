"""Makes the objects of the memory image immortal.

CPython counts references in the objects themselves, so that a program that only looks at an object writes to it, and its page has to be
copied from the image. The counts of immortal objects are left alone (PEP 683). boot.py lists the objects that are to live as long as the
interpreter does; here their counts are set.
"""

import bisect
import struct

# The same as in boot.py.
MARK = struct.pack("<8I", *range(0x5EED0001, 0x5EED0009))
# CPython's Include/refcount.h, for pointers of 32 bits: `_Py_IMMORTAL_INITIAL_REFCNT`, and from where on a count is one.
IMMORTAL, LEAST = 5 << 28, 1 << 30
# No living object has that many references; and below it lie the stack and constants: an object that was freed and is kept for the next of
# its type has the address of another in place of a count.
MANY = 1 << 20
# CPython 3.14.0's Include/opcode_ids.h: an instruction that counts a reference to what it loads without looking, and the one that does not.
LOAD_CONST_MORTAL, LOAD_CONST_IMMORTAL = 191, 190


def made_immortal(memory):
    start = memory.find(MARK)
    list_at = start + len(MARK)
    objects = numbers(memory, list_at, 2)
    instructions = numbers(memory, list_at + 4 + 4 * len(objects), 1)
    lasting = set()
    for address, of_type in zip(objects[::2], objects[1::2]):
        references, has_type = struct.unpack("<2I", memory.read(address, 8))
        # What has gone since it was listed: its place is free, or holds something else.
        living = has_type == of_type and (0 < references < MANY or references >= LEAST)
        if living and references < LEAST:
            memory.write(address, struct.pack("<I", IMMORTAL))
        if living:
            lasting.add(address)
    count, listed = len(objects) // 2, sorted(objects[::2])
    assert len(lasting) > 0.99 * count > 50_000, f"of {count} objects {len(lasting)} are immortal now: the image is not what it was"
    for address in instructions:
        if listed[bisect.bisect(listed, address) - 1] not in lasting:
            # Its code has gone.
            continue
        assert memory.read(address, 1)[0] == LOAD_CONST_MORTAL, "an instruction is not where it was listed, or not that one"
        memory.write(address, bytes([LOAD_CONST_IMMORTAL]))
    assert instructions, "no instruction has learnt anything of what it loads"
    memory.write(start, bytes(len(MARK) + 8 + 4 * len(objects) + 4 * len(instructions)))


def numbers(memory, at, each):
    """A list in the memory: how many there are, then `each` numbers for every one."""
    (count,) = struct.unpack("<I", memory.read(at, 4))
    return struct.unpack(f"<{count * each}I", memory.read(at + 4, 4 * count * each))
