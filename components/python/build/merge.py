"""Turns the dozen core modules of a component into one, optimised as a whole.

componentize-py links libc, CPython and its own parts as shared libraries: every call between them goes through a table, and every
instance pays for filling tables and globals. Merged, nearly all of that is known at build time, and memory and table are mapped
as they lie in the file.

Two small modules stay, since they close a circle: the shim, whose trampolines stand for host functions that need the memory which is
not there yet, and the fix-up, which later fills the shim's table.
"""

import subprocess

import component as c
import wasm
from calls import made_direct
from fold import fold
from gaps import without_gaps
from immortal import made_immortal
from memory import changed
from modes import with_modes
from order import is_names, named, numbered
from roles import Roles, kept, resolve
from wrap import without_init, wrapped

FEATURES = """--enable-bulk-memory --enable-bulk-memory-opt --enable-sign-ext --enable-mutable-globals --enable-nontrapping-float-to-int
--enable-multivalue --enable-reference-types --enable-simd --enable-extended-const""".split()
# Only between the merge and the folding: constants that refer to globals of the same module.
FOR_GLOBALS = ["--enable-gc"]


def merge(binary, folder, tools, order):
    """Returns the merged component. `folder` is for files on the way, `tools` holds wasm-merge and wasm-opt."""
    wiring = without_init(c.read(binary))
    roles = Roles(wiring)
    inputs = []
    for index in roles.merged:
        path = folder / f"{index}.wasm"
        path.write_bytes(renamed(wiring, roles, index))
        inputs += [str(path), f"i{index}"]
    merged, folded, main = (folder / f"{name}.wasm" for name in ("merged", "folded", "main"))
    run(tools / "wasm-merge", "-g", *FEATURES, *FOR_GLOBALS, *inputs, "-o", merged)
    merged.write_bytes(trimmed(merged.read_bytes(), kept(wiring, roles)))
    first = ["--remove-unused-module-elements", "--simplify-globals", "--simplify-globals"]
    run(tools / "wasm-opt", "-g", *FEATURES, *FOR_GLOBALS, merged, *first, "-o", folded)
    folded.write_bytes(numbered(changed(made_direct(with_modes(fold(folded.read_bytes()))), made_immortal, without_gaps), order))
    second = ["--simplify-globals", "--directize", "--remove-unused-module-elements", "-O3", "--reorder-functions-by-name"]
    run(tools / "wasm-opt", "-g", *FEATURES, folded, *second, "-o", main)
    (folder / "names.txt").write_text(named(main.read_bytes()))
    return wrapped(wiring, roles, wasm.without_custom(main.read_bytes()))


def renamed(wiring, roles, index):
    """A module whose imports name the instance that provides them, and whose exports can't collide with another's."""
    parts = []
    instance = wiring.instances[index]
    for kind, content in wasm.sections(wiring.modules[instance.module]):
        if kind == 2:
            reader = wasm.Reader(content)
            content = wasm.vector(imported(wiring, roles, instance, reader) for _ in range(reader.unsigned()))
        elif kind == 7:
            reader = wasm.Reader(content)
            content = wasm.vector(exported(reader, lambda name: f"i{index}:{name}")[1] for _ in range(reader.unsigned()))
        if kind != 0 or is_names(kind, content):
            parts.append((kind, content))
    return wasm.join(wasm.CORE, parts)


def imported(wiring, roles, instance, reader):
    module, name = reader.name(), reader.name()
    start = reader.at
    kind = reader.byte()
    if kind == c.FUNC:
        reader.unsigned()
    elif kind in (c.TABLE, c.MEMORY):
        if kind == c.TABLE:
            reader.byte()
        has_most = reader.unsigned() & 1
        reader.unsigned()
        if has_most:
            reader.unsigned()
    else:
        assert kind == c.GLOBAL
        reader.skip(2)
    item = resolve(wiring, roles, c.Exported(instance.given[module], name))
    if isinstance(item, c.Builtin):
        roles.builtins.add(item.index)
        module, name = "host", str(item.index)
    elif item.instance == roles.shim:
        module, name = "shim", item.name
    else:
        module, name = f"i{item.instance}", f"i{item.instance}:{item.name}"
    return wasm.name(module) + wasm.name(name) + reader.data[start : reader.at]


def exported(reader, rename):
    name = reader.name()
    start = reader.at
    reader.byte()
    reader.unsigned()
    return name, wasm.name(rename(name)) + reader.data[start : reader.at]


def trimmed(module, names):
    parts = []
    for kind, content in wasm.sections(module):
        if kind == 7:
            reader = wasm.Reader(content)
            exports = [exported(reader, str) for _ in range(reader.unsigned())]
            content = wasm.vector(raw for name, raw in exports if name in names)
        parts.append((kind, content))
    return wasm.join(wasm.CORE, parts)


def run(*command):
    subprocess.run([str(word) for word in command], check=True)
