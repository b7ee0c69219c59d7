"""Compiles the standard library, inside the very interpreter that will run it, into files in the working folder.

`stdlib.code` holds marshalled code objects and `stdlib.source` compressed sources, end to end; `stdlib.index` says where each lies:
name -> (is it a package, path, offset and length of the code, offset and length of the source).
`stdlib.version` is the interpreter's.

This runs while componentize-py prepares a component, which is then thrown away. There, `/python` is the standard library, and `/0` the
working folder.
"""

import marshal
import os
import sys
import zlib

ROOT = "/python"
# Where the modules say that they are: what `os.__file__` says already.
SHOWN = "/python/lib/python3.14"
# Windows on a screen, installers and tests: nothing that a script without a screen can use. And what `guest` has in its place.
LEFT_OUT = set("__pycache__ config-3.14-wasm32-wasi ensurepip idlelib site-packages ssl.py test tkinter turtledemo venv".split())


def modules(folder="", package=""):
    for name in sorted(os.listdir(f"{ROOT}/{folder}")):
        if name in LEFT_OUT or (not package and name == "turtle.py"):
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
        shown = f"{SHOWN}/{path}"
        code = marshal.dumps(compile(source, shown, "exec", dont_inherit=True))
        packed = zlib.compress(source, 9)
        index[name] = (is_package, shown, code_at, len(code), source_at, len(packed))
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
