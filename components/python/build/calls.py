"""Calls through the table that mostly have the same few targets ask for these first, and call them directly.

CPython finds by a pointer what frees an object, hashes it or gives out its memory. At such a call an engine looks the pointer up in the table,
within its bounds, asks whether that entry was ever filled, and compares the type of what it finds. Here the pointer is compared with those of the
likely targets before; any other goes through the table as ever. wasm-opt can then inline some of these calls.

Nothing changes the table once it is filled: it is not exported, and C has no instruction for that.
"""

import wasm
from order import function_names

TYPE, IMPORT, FUNCTION, ELEMENT, CODE = 1, 2, 3, 9, 10
I32 = 0x7F
# Instructions.
IF, ELSE, END, CALL, CALL_INDIRECT, GET, SET, CONST, EQUAL = 0x04, 0x05, 0x0B, 0x10, 0x11, 0x20, 0x21, 0x41, 0x46

# Caller -> its likely targets, the likeliest first.
LIKELY = {
    "_Py_Dealloc": ["unicode_dealloc", "float_dealloc", "list_dealloc", "tuple_dealloc", "dict_dealloc"],
    "unicode_dealloc": ["PyObject_Free"],
    "PyObject_Hash": ["unicode_hash", "long_hash"],
    "PyObject_Malloc": ["_PyMem_RawMalloc"],
    "PyObject_Realloc": ["_PyMem_RawRealloc"],
    "PyObject_Free": ["_PyMem_RawFree"],
    "PyMem_Malloc": ["_PyMem_RawMalloc"],
    "PyMem_Realloc": ["_PyMem_RawRealloc"],
    "PyMem_Free": ["_PyMem_RawFree"],
}


def made_direct(module):
    """Makes the likely calls of the callers in LIKELY directly."""
    parts = dict(wasm.sections(module))
    types, imports = read_types(parts[TYPE]), read_imports(parts[IMPORT])
    type_of = imports + numbers(wasm.Reader(parts[FUNCTION]))
    entries = {function: entry for entry, function in read_table(parts[ELEMENT]).items()}
    named = {}
    for index, name in function_names(module).items():
        named.setdefault(name, []).append(index)
    bodies = read_bodies(parts[CODE])
    for name, likely in LIKELY.items():
        (caller,) = named[name]
        targets = []
        for target in likely:
            (function,) = (index for index in named[target] if index in entries)
            targets.append((entries[function], function, types[type_of[function]]))
        parameters = len(types[type_of[caller]][0])
        at = caller - len(imports)
        bodies[at], changes = asking_first(bodies[at], parameters, targets, types)
        assert changes, f"{name} has no call through the table that {' or '.join(likely)} could be the target of"
    code = wasm.vector(wasm.unsigned(len(body)) + body for body in bodies)
    return wasm.join(wasm.CORE, [(kind, code if kind == CODE else content) for kind, content in wasm.sections(module)])


def asking_first(body, parameters, targets, types):
    """The body with its calls through the table changed, and how many were."""
    reader = wasm.Reader(body)
    locals_of = [(reader.unsigned(), reader.byte()) for _ in range(reader.unsigned())]
    pointer = wasm.unsigned(parameters + sum(count for count, _ in locals_of))
    out = [wasm.vector(wasm.unsigned(count) + bytes([of]) for count, of in [*locals_of, (1, I32)])]
    start, changes = reader.at, 0
    while not reader.done():
        at = reader.at
        if instruction(reader) != CALL_INDIRECT:
            continue
        of_type = wasm.Reader(body, at + 1).unsigned()
        fitting = [(entry, function) for entry, function, its_type in targets if its_type == types[of_type]]
        if not fitting:
            continue
        out += [body[start:at], bytes([SET]) + pointer]
        for entry, function in fitting:
            # The arguments lie on the stack: the `if` takes them and gives the results, as the call does.
            out.append(bytes([GET]) + pointer + bytes([CONST]) + wasm.signed(entry) + bytes([EQUAL, IF]) + wasm.signed(of_type))
            out.append(bytes([CALL]) + wasm.unsigned(function) + bytes([ELSE]))
        out.append(bytes([GET]) + pointer + body[at : reader.at] + bytes([END]) * len(fitting))
        start, changes = reader.at, changes + 1
    return b"".join(out) + body[start:], changes


def instruction(reader):
    """Reads an instruction of those that the callers have, and returns its code."""
    code = reader.byte()
    if code in (0x02, 0x03, IF, CONST, 0x42):
        reader.signed()
    elif code in (0x0C, 0x0D, CALL) or 0x20 <= code <= 0x24:
        reader.unsigned()
    elif code == CALL_INDIRECT or 0x28 <= code <= 0x3E:
        reader.skip_numbers(2)
    elif code == 0x0E:
        reader.skip_numbers(reader.unsigned() + 1)
    else:
        plain = code in (0x00, 0x01, ELSE, END, 0x0F, 0x1A, 0x1B) or 0x45 <= code <= 0xC4
        assert plain, f"an instruction that this file does not know: {code:#x}"
    return code


def read_types(section):
    reader, types = wasm.Reader(section), []
    for _ in range(reader.unsigned()):
        assert reader.byte() == 0x60, "a type that is no function's"
        types.append((numbers(reader), numbers(reader)))
    return types


def read_imports(section):
    """The types of the imported functions."""
    reader, types = wasm.Reader(section), []
    for _ in range(reader.unsigned()):
        reader.name()
        reader.name()
        assert reader.byte() == 0, "an import that is no function"
        types.append(reader.unsigned())
    return types


def read_table(section):
    """Entry -> function."""
    reader, table = wasm.Reader(section), {}
    for _ in range(reader.unsigned()):
        assert [reader.unsigned(), reader.byte()] == [0, CONST], "an element segment that is not active, at a constant offset"
        offset = reader.signed()
        assert reader.byte() == END
        table.update(enumerate(numbers(reader), offset))
    return table


def read_bodies(section):
    reader, bodies = wasm.Reader(section), []
    for _ in range(reader.unsigned()):
        size = reader.unsigned()
        bodies.append(section[reader.at : reader.at + size])
        reader.skip(size)
    return bodies


def numbers(reader):
    return [reader.unsigned() for _ in range(reader.unsigned())]
