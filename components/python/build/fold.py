"""Constant expressions become constants."""

import wasm


def fold(module):
    """Sums of constants in globals and offsets become constants: only then can an engine lay the table out before it starts."""
    parts = []
    for kind, content in wasm.sections(module):
        reader = wasm.Reader(content)
        if kind == 6:
            content = wasm.vector(content[reader.at : reader.at + 2] + constant(reader, 2) for _ in range(reader.unsigned()))
        elif kind == 9:
            content = wasm.vector(element(reader) for _ in range(reader.unsigned()))
        parts.append((kind, content))
    return wasm.join(wasm.CORE, parts)


def element(reader):
    assert reader.unsigned() == 0, "an element segment that is not active, of function indices, in table 0"
    offset = constant(reader, 0)
    start = reader.at
    for _ in range(reader.unsigned()):
        reader.unsigned()
    return b"\0" + offset + reader.data[start : reader.at]


def constant(reader, skip):
    """Reads a constant expression after `skip` bytes; returns it, folded if it is all i32 constants and additions."""
    reader.skip(skip)
    start, stack, foldable = reader.at, [], True
    while (code := reader.byte()) != 0x0B:
        if code == 0x41:
            stack.append(reader.signed())
        elif code == 0x6A and len(stack) > 1:
            total = (stack.pop() + stack.pop()) & 0xFFFFFFFF
            stack.append(total - (1 << 32) if total >> 31 else total)
        else:
            foldable = False
            if code in (0x42, 0xD0):
                reader.signed()
            elif code in (0x23, 0xD2):
                reader.unsigned()
            elif code in (0x43, 0x44):
                reader.skip(4 if code == 0x43 else 8)
            else:
                assert code == 0x6A, f"an unknown instruction in a constant: {code:#x}"
    if foldable and len(stack) == 1:
        return b"\x41" + wasm.signed(stack[0]) + b"\x0b"
    return reader.data[start : reader.at]
