"""Compiles the standard library with the same interpreter that runs it, to files in the working folder.

`stdlib.code` is the concatenation of marshalled code objects, and `stdlib.source` that of compressed sources. `stdlib.index` maps each
name to (is it a package, path, offset and length of the code, offset and length of the source). `stdlib.version` is the version of the
interpreter.

This script runs while componentize-py prepares a component, which is then discarded. `/python` is the standard library, and `/0` the
working folder.
"""

import marshal
import os
import sys
import zlib

ROOT = "/python"
# The path of the modules in their `__file__`, the same as that of `os`.
GUEST_PATH = "/python/lib/python3.14"
# Modules that scripts do not need: graphical user interfaces, installers and tests. Also `ssl`, which `guest` replaces.
EXCLUDED = set("__pycache__ config-3.14-wasm32-wasi ensurepip idlelib site-packages ssl.py test tkinter turtledemo venv".split())


def modules(folder="", package=""):
    for name in sorted(os.listdir(f"{ROOT}/{folder}")):
        if name in EXCLUDED or (not package and name == "turtle.py"):
            continue
        path = f"{folder}{name}"
        if name.endswith(".py"):
            stem = name[:-3]
            if stem == "__init__":
                yield package.rstrip("."), path, True
            else:
                yield package + stem, path, False
        elif os.path.isfile(f"{ROOT}/{path}/__init__.py"):
            yield from modules(path + "/", f"{package}{name}.")


def compile_all():
    index, codes, sources, code_at, source_at = {}, [], [], 0, 0
    for name, path, is_package in modules():
        with open(f"{ROOT}/{path}", "rb") as file:
            source = file.read()
        guest_path = f"{GUEST_PATH}/{path}"
        code = marshal.dumps(compile(source, guest_path, "exec", dont_inherit=True))
        packed = zlib.compress(source, 9)
        index[name] = (is_package, guest_path, code_at, len(code), source_at, len(packed))
        codes.append(code)
        sources.append(packed)
        code_at += len(code)
        source_at += len(packed)
    version = sys.version.split()[0].encode()
    for name, content in {"index": marshal.dumps(index), "code": b"".join(codes), "source": b"".join(sources), "version": version}.items():
        with open(f"/0/stdlib.{name}", "wb") as file:
            file.write(content)


compile_all()
assert sys.version_info[:2] == (3, 14)


class Run:
    def run(self):
        raise NotImplementedError
