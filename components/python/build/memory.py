"""The memory image of a module: what its data segments fill the memory with, to be changed by address."""

import wasm

DATA = 11


def changed(module, *changes):
    """Applies each change to the module's memory."""
    parts = list(wasm.sections(module))
    (at,) = (index for index, (kind, _) in enumerate(parts) if kind == DATA)
    memory = Memory(parts[at][1])
    for change in changes:
        change(memory)
    parts[at] = (DATA, memory.section())
    return wasm.join(wasm.CORE, parts)


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
