"""Reads how a component is wired: its core modules, what each instance is given, and which function is which.

After the component model's Binary.md; only what componentize-py writes is understood, and anything else stops the build.
"""

from dataclasses import dataclass, field

import wasm

CUSTOM, CORE_MODULE, CORE_INSTANCE, CORE_TYPE, COMPONENT, INSTANCE, ALIAS, TYPE, CANON, START, IMPORT, EXPORT = range(12)
FUNC, TABLE, MEMORY, GLOBAL = range(4)
LIFT, LOWER = 0, 1
# Options that point into the core index spaces.
OPTION_MEMORY, OPTION_REALLOC, OPTION_POST_RETURN, OPTION_CALLBACK = 3, 4, 5, 7


@dataclass(frozen=True)
class Exported:
    """An item that a core instance exports."""

    instance: int
    name: str


@dataclass(frozen=True)
class Builtin:
    """A function that the canonical ABI makes, by its index among the core functions."""

    index: int


@dataclass
class Module:
    """A core instance of a core module: what it imports from, by module name."""

    module: int
    given: dict


@dataclass
class Bag:
    """A core instance put together from items: name -> (sort, index)."""

    items: dict


@dataclass
class Canon:
    """A definition: opcode, the function it lifts or lowers, options as (kind, index or None), and what follows or precedes them."""

    code: int
    function: int
    options: list
    rest: bytes

    def uses_memory(self):
        return any(kind in (OPTION_MEMORY, OPTION_REALLOC) for kind, _ in self.options)


@dataclass
class Wiring:
    """A component, section by section, with the core index spaces resolved."""

    header: bytes
    # (id, content or parsed items)
    parts: list = field(default_factory=list)
    modules: list = field(default_factory=list)
    instances: list = field(default_factory=list)
    # Of each core sort, what stands behind an index.
    spaces: dict = field(default_factory=lambda: {FUNC: [], TABLE: [], MEMORY: [], GLOBAL: []})


def read(binary):
    wiring = Wiring(binary[:8])
    for kind, content in wasm.sections(binary):
        if kind == CUSTOM:
            continue
        elif kind == CORE_MODULE:
            wiring.modules.append(content)
            wiring.parts.append((kind, None))
        elif kind == CORE_INSTANCE:
            for instance in items(content, core_instance):
                wiring.instances.append(instance)
                wiring.parts.append((kind, len(wiring.instances) - 1))
        elif kind == ALIAS:
            for raw, core in items(content, alias):
                if core is not None:
                    sort, exported = core
                    wiring.spaces[sort].append(exported)
                wiring.parts.append((kind, (raw, core)))
        elif kind == CANON:
            for canon in items(content, canonical):
                if canon.code != LIFT:
                    wiring.spaces[FUNC].append(Builtin(len(wiring.spaces[FUNC])))
                    wiring.parts.append((kind, (canon, wiring.spaces[FUNC][-1])))
                else:
                    wiring.parts.append((kind, (canon, None)))
        else:
            wiring.parts.append((kind, content))
    return wiring


def items(content, read_one):
    reader = wasm.Reader(content)
    result = [read_one(reader) for _ in range(reader.unsigned())]
    assert reader.done(), "a section is longer than its items: the format has more than this file knows"
    return result


def core_instance(reader):
    form = reader.byte()
    if form == 0:
        module = reader.unsigned()
        given = {}
        for _ in range(reader.unsigned()):
            name = reader.name()
            assert reader.byte() == 0x12
            given[name] = reader.unsigned()
        return Module(module, given)
    assert form == 1
    bag = {}
    for _ in range(reader.unsigned()):
        name = reader.name()
        sort = reader.byte()
        bag[name] = (sort, reader.unsigned())
    return Bag(bag)


def alias(reader):
    """(the alias as it is written, and if it names a core instance's export: the sort and the export)"""
    start = reader.at
    sort = reader.byte()
    core_sort = reader.byte() if sort == 0 else None
    target = reader.byte()
    instance = reader.unsigned()
    if target == 2:
        reader.unsigned()
    else:
        name = reader.name()
    core = (core_sort, Exported(instance, name)) if target == 1 else None
    return reader.data[start : reader.at], core


def canonical(reader):
    code = reader.byte()
    if code in (LIFT, LOWER):
        assert reader.byte() == 0
        function = reader.unsigned()
        options = [option(reader) for _ in range(reader.unsigned())]
        rest = wasm.unsigned(reader.unsigned()) if code == LIFT else b""
        return Canon(code, function, options, rest)
    if code in (2, 3, 4):
        # resource.new, .drop and .rep: a type.
        return Canon(code, 0, [], wasm.unsigned(reader.unsigned()))
    if code == 9:
        # task.return: a result, then options.
        start = reader.at
        assert reader.byte() in (0, 1)
        if reader.data[reader.at - 1] == 0:
            reader.signed()
        else:
            assert reader.byte() == 0
        rest = reader.data[start : reader.at]
        return Canon(code, 0, [option(reader) for _ in range(reader.unsigned())], rest)
    raise AssertionError(f"an unknown canonical function: opcode {code:#x}")


def option(reader):
    kind = reader.byte()
    return kind, reader.unsigned() if kind in (OPTION_MEMORY, OPTION_REALLOC, OPTION_POST_RETURN, OPTION_CALLBACK) else None


def write_canon(canon, function, index_of):
    """`index_of(kind, index)` gives each option's new index."""
    options = wasm.vector(bytes([kind]) + (b"" if index is None else wasm.unsigned(index_of(kind, index))) for kind, index in canon.options)
    if canon.code in (LIFT, LOWER):
        return bytes([canon.code, 0]) + wasm.unsigned(function) + options + canon.rest
    if canon.code == 9:
        return bytes([canon.code]) + canon.rest + options
    return bytes([canon.code]) + canon.rest
