"""Functions that run at a start lie side by side in the module, and so in the code that an engine makes of it.

Code is mapped piece by piece as it is run first: a start that runs a tenth of the functions, strewn over all, touches nearly every piece.
`order.txt` lists the functions that starts run, in the order of their first call; record_order.py makes it. A name that no function has is
skipped, and a function that the list does not name comes before or after those that it does: a stale list costs time alone, and no order is wrong.
wasm-opt rewrites whatever refers to a function, and validates the module.
"""

import wasm

CUSTOM, CODE = 0, 10
# The part of the section of names that has those of functions.
FUNCTIONS = 1
DIGITS = 6
# Bytes of functions that lie before those of the list. Compiled they take 2 MiB, and so the list's begin in the second large page of the compiled
# code's file, which is mapped whole where the kernel holds it in such pages. The first page it shares with what is not code.
BEFORE = 800_000


def numbered(module, order):
    """Gives the functions names that sort as they are to lie, for wasm-opt's `--reorder-functions-by-name`: number, space, name."""
    parts, names, sizes = [], function_names(module), function_sizes(module)
    imported = max(names) + 1 - len(sizes)
    listed = {name: rank for rank, name in enumerate(order)}
    ranks, before = {}, 0
    for index in filter(lambda index: names[index] not in listed, names):
        # Those that come first, those of the list, the others.
        ranks[index] = index if before < BEFORE else index + len(names) + len(listed)
        before += sizes[index - imported] if index >= imported else 0
    assert len(listed) + 2 * len(names) < 10**DIGITS

    def number(index, name):
        return f"{ranks.get(index, len(names) + listed.get(name, 0)):0{DIGITS}} {name}"

    for kind, content in wasm.sections(module):
        if is_names(kind, content):
            numbers = wasm.vector(wasm.unsigned(index) + wasm.name(number(index, name)) for index, name in names.items())
            content = wasm.name("name") + bytes([FUNCTIONS]) + wasm.unsigned(len(numbers)) + numbers
        parts.append((kind, content))
    return wasm.join(wasm.CORE, parts)


def named(module):
    """The functions' names without their numbers, one a line: that of function 0 first."""
    names = function_names(module)
    assert list(names) == list(range(len(names))), "a function without a name"
    return "".join(f"{name[DIGITS + 1 :]}\n" for name in names.values())


def function_names(module):
    """Index -> name, of the functions that have one, in the order of their indices."""
    ((_, content),) = (part for part in wasm.sections(module) if is_names(*part))
    reader = wasm.Reader(content)
    reader.name()
    while not reader.done():
        kind, size = reader.byte(), reader.unsigned()
        if kind == FUNCTIONS:
            return {reader.unsigned(): reader.name() for _ in range(reader.unsigned())}
        reader.skip(size)
    raise AssertionError("no names of functions")


def function_sizes(module):
    """Of the functions that are not imported, in bytes."""
    ((_, content),) = (part for part in wasm.sections(module) if part[0] == CODE)
    reader, sizes = wasm.Reader(content), []
    for _ in range(reader.unsigned()):
        sizes.append(reader.unsigned())
        reader.skip(sizes[-1])
    return sizes


def is_names(kind, content):
    return kind == CUSTOM and wasm.Reader(content).name() == "name"
