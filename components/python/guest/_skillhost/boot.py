"""Prepares the interpreter for the memory image: imports modules, adds what WASI lacks, and warms up the code paths of a run."""

import array
import atexit
import gc
import importlib
import importlib.util
import io
import marshal
import opcode
import os
import sys
import types
import weakref
from _opcode_metadata import _specialized_opmap

from . import accounts, stdlib


def stand_in(name, ours):
    """Registers a module of this package under the name of a standard module."""
    spec = importlib.util.spec_from_file_location(name, f"{os.path.dirname(__file__)}/{ours}.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


stdlib.install()
# Before `pathlib` and `tarfile`, which look for `pwd` and `grp`.
accounts.install()
# Before `shutil` and `zipfile`, which look for them and which `main` imports.
for name, ours in stdlib.STAND_INS.items():
    if name != "ssl":
        stand_in(name, ours)

# The modules that scripts of real skills import, and those that these import late.
USUAL = """__future__ abc argparse array ast asyncio atexit base64 binascii bisect bz2 calendar cmath codecs collections
collections.abc compression.zstd concurrent.futures concurrent.futures.process concurrent.futures.thread configparser contextlib
contextvars copy csv dataclasses datetime decimal difflib email email.message email.mime.multipart email.mime.text
email.parser email.policy email.utils encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1
encodings.utf_16 encodings.utf_8_sig enum errno fnmatch fractions functools getopt getpass glob gzip hashlib heapq
hmac html html.entities html.parser http http.client http.cookies importlib.metadata importlib.resources
importlib.util inspect io ipaddress itertools json keyword linecache locale logging logging.handlers lzma math mimetypes
multiprocessing multiprocessing.dummy multiprocessing.pool numbers operator optparse os os.path pathlib pickle pkgutil
platform posixpath pprint queue quopri random re reprlib runpy secrets select selectors shlex shutil signal socket ssl
sqlite3 stat statistics string stringprep struct subprocess sys tarfile tempfile textwrap threading time timeit token
tokenize tomllib traceback types typing unicodedata unittest urllib.error urllib.parse urllib.request urllib.response
urllib.robotparser uuid warnings weakref xml.dom.minidom xml.etree.ElementTree xml.sax xml.sax.saxutils zipfile zlib
zoneinfo _strptime _colorize""".split()

SAMPLE = """
import argparse, json, re, os, pathlib, datetime, collections, csv, io, sys
parser = argparse.ArgumentParser(description="x")
parser.add_argument("a"); parser.add_argument("-b", type=int, default=1)
args = parser.parse_args(["y"])
print(json.dumps({"a": [1, 2.5, None]}, indent=2), f"{args.b:>5}")
json.loads('{"a": [1, "b"]}')
re.sub(r"(\\w+)", "x", "a b"); pathlib.Path("/a/b").suffix; datetime.datetime(2020, 1, 1).isoformat()
list(csv.DictReader(io.StringIO("a,b\\n1,2\\n"))); collections.Counter("abc").most_common(1)
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
f(8)
class C:
    def __init__(self): self.x = [y for y in range(3)]
C()
"""


def prepare():
    from . import sockets

    # Before the modules that look for `ssl` or for a socket's class.
    sockets.install()
    stand_in("ssl", stdlib.STAND_INS["ssl"])
    for name in USUAL:
        importlib.import_module(name)
    # Imported late: each of them imports the module that it patches.
    from . import clients, compiled, errors, hashes, loop, missing, pools, programs, system, threads

    stdlib.adopt()
    set_version_of_sqlite()
    compiled.install()
    errors.install()
    system.install()
    threads.install()
    pools.install()
    programs.install()
    loop.install()
    clients.install()
    hashes.install()
    missing.install()


def set_version_of_sqlite():
    """Sets the version that `sqlite3` reports to that of `_native`'s SQLite. CPython has asked its own SQLite, which the image tool replaces."""
    import _sqlite3
    import sqlite3

    from . import _native

    for module in (_sqlite3, sqlite3.dbapi2, sqlite3):
        module.sqlite_version = _native.sqlite_version
    for module in (sqlite3.dbapi2, sqlite3):
        module.sqlite_version_info = tuple(int(part) for part in _native.sqlite_version.split("."))


class WarmupEnvironment:
    """The answers of `wasi:cli/environment` during warm-up."""

    @staticmethod
    def get_environment():
        return [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("PWD", "/skill")]

    @staticmethod
    def get_arguments():
        return ["python3", os.path.dirname(__file__) + "/__init__.py"]

    @staticmethod
    def initial_cwd():
        return "/skill"


class WarmupModes:
    """Takes the place of `modes` during warm-up."""

    @staticmethod
    def any():
        return False


class WarmupLines:
    """Takes the place of `lines` during warm-up, when nothing is written."""

    @staticmethod
    def flush():
        pass


class WarmupCode:
    """The answers of `compiled` during warm-up: it has the code every other time."""

    def __init__(self):
        self.asked = 0

    def begin(self, path):
        self.asked += 1
        return types.SimpleNamespace(code=marshal.dumps(compile("", path, "exec")), beside=["main.py"]) if self.asked % 2 else None


def functions():
    return [item for item in gc.get_objects() if type(item) is types.FunctionType]


def fresh_code(functions):
    """Gives functions new code objects, which have no specialised instructions yet."""
    made = {}
    for function in functions:
        code = function.__code__
        # Compared by identity, not by equality.
        if id(code) not in made:
            made[id(code)] = code, renewed(code)
        function.__code__ = made[id(code)][1]


def renewed(code):
    constants = tuple(renewed(constant) if type(constant) is types.CodeType else constant for constant in code.co_consts)
    return code.replace(co_consts=constants)


def has_run(code):
    """Whether the interpreter has specialised the code since it was created. The first change is made when it is entered."""
    # Each instruction has two bytes; `co_code` has zeros in place of its caches.
    return any(plain and plain != learnt for plain, learnt in zip(code.co_code[::2], code._co_code_adaptive[::2]))


def lie_together(functions):
    """Gives functions code objects that lie in one piece of memory. A run writes what it learns of its own start into the code, and a page
    with many such writes costs no more than a page with one.
    """
    filling = fill_gaps()
    fresh_code(functions)
    del filling


def fill_gaps():
    """Fills the gaps between allocated memory, so that further allocations come after all of it. Returns the objects that fill the gaps."""
    end = id(bytes(ROOM))
    filling = [None] * (1 << 16)
    filled = 0
    # malloc's chunks are multiples of 16 bytes, 4 of which are its own. A bytes object needs 17 more than its content.
    for chunk in (*(1 << power for power in range(20, 10, -1)), *range(1024, 16, -16)):
        while id(piece := bytes(chunk - 4 - 17)) < end:
            filling[filled] = piece
            filled += 1
    return filling


def start_often(main):
    """Starts programs repeatedly, until the interpreter has specialised its own code as far as it can: it stores the result in that code."""
    from concurrent.futures import process, thread

    from . import compiled, fresh, modes, system

    saved = list(sys.path), list(sys.argv), list(sys.orig_argv), sys.modules.get("__main__")
    asked, fresh.environment = fresh.environment, WarmupEnvironment
    had, compiled.host = compiled.host, WarmupCode()
    kept, main.lines = main.lines, WarmupLines
    bits, modes.host = modes.host, WarmupModes
    for _ in range(20):
        main.run()
        # No start may know of an earlier end.
        system.ENDING = thread._shutdown = process._global_shutdown = False
    # Setting it as well would make the interpreter discard what it knows of the class.
    assert not weakref.finalize._shutdown, "a start has left a finalizer"
    fresh.environment, compiled.host, main.lines, modes.host = asked, had, kept, bits
    sys.path[:], sys.argv[:], sys.orig_argv[:], sys.modules["__main__"] = saved


def warm(main):
    from . import system

    saved = list(sys.path), list(sys.argv), list(sys.orig_argv), sys.modules.get("__main__")
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    for source in ["print('hi')"] * 20 + [SAMPLE] * 3 + ["raise SystemExit(0)", "import os; open('/nowhere')"]:
        main.guarded(lambda: main.command(["-c", source]))
    sys.path[:], sys.argv[:], sys.orig_argv[:], sys.modules["__main__"] = saved
    system.make_streams()
    # Last, because the latest lookups stay in the interpreter's caches.
    start_often(main)


# The objects that fill the gaps, and the frames that wait for `settle`, which would leave new gaps. componentize-py allocates afterwards,
# and starts write to what it allocates: it should be contiguous.
KEPT = []
# Bytes that a program can allocate before the memory has to grow.
ROOM = 2 << 20


def settle():
    """The last step of the image."""
    import logging
    import multiprocessing.util

    from . import compiled, fresh, main, modes

    main.OURS.update(sys.modules.keys() - {"__main__"})
    # `main` calls them if they have something to do.
    atexit.unregister(logging.shutdown)
    atexit.unregister(multiprocessing.util._exit_function)
    main.HANDLERS[:] = logging._handlerList
    # It also finalises the host's handles. Run it after the exit functions, which may still use them.
    atexit.unregister(weakref.finalize._exitfunc)
    weakref.finalize._registered_with_atexit = True
    fresh_code([function for function in functions() if has_run(function.__code__)])
    start_often(main)
    asked = [fresh.environment.get_environment, fresh.environment.get_arguments, fresh.environment.initial_cwd, compiled.host.begin]
    asked += [main.lines.flush, modes.host.any]
    lie_together([function for function in functions() if has_run(function.__code__)] + asked)
    warm(main)
    import linecache

    linecache.clearcache()
    fresh.forget()
    os.environ._data.clear()
    sys.path_importer_cache.clear()
    # In CPython 3.14.0, each collection visits many old objects; it runs when this many objects are new. With the default of 2,000, a
    # report on 137,000 rows takes twice as long as without the collector; with 30,000 it takes no longer.
    gc.set_threshold(30_000)
    # Most folders to import from are read-only, and each attempt to write would be recorded as a denial.
    sys.dont_write_bytecode = True
    gc.collect()
    gc.collect()
    list_lasting()
    gc.freeze()
    # Again: it also frees the free lists of types.
    gc.collect()
    KEPT.extend([fill_gaps(), sys._getframe()])
    bytes(ROOM)
    gc.freeze()


LOAD_CONST_MORTAL = _specialized_opmap["LOAD_CONST_MORTAL"]
# A mark by which the build finds the list: these words occur in sequence nowhere else, not even in this module's code.
MARK = range(0x5EED0001, 0x5EED0009)
# The objects of the image: the mark, the count, and the addresses of each object and of its type; then the number of instructions that load
# an object that was mortal, and their addresses. Allocated early, so that it leaves no gap.
LASTING = array.array("I", bytes(4 * (1 << 19)))


def list_lasting():
    """Lists all live objects. The build makes them immortal: their references are not counted, so their memory is not written. A program
    that only reads them shares their pages with all others.
    """
    # One bit for each address that malloc can return.
    seen = bytearray(64 << 20 >> 7)
    todo = gc.get_objects()
    skip = {id(seen), id(todo), id(LASTING)}
    at = len(MARK) + 1
    codes = []
    while todo:
        batch = []
        for item in todo:
            address = id(item)
            byte, bit = address >> 7, 1 << (address >> 4 & 7)
            if seen[byte] & bit or address in skip or isinstance(item, types.FrameType):
                continue
            seen[byte] |= bit
            batch.append(item)
            LASTING[at] = address
            LASTING[at + 1] = id(type(item))
            at += 2
        todo = gc.get_referents(*batch)
        for item in batch:
            # The collector ignores the contents of code objects.
            if type(item) is types.CodeType:
                codes.append(item)
                todo += (item.co_consts, item.co_names, item.co_filename, item.co_name, item.co_qualname)
                todo += (item.co_linetable, item.co_exceptiontable)
    LASTING[: len(MARK)] = array.array("I", MARK)
    LASTING[len(MARK)] = (at - len(MARK)) // 2
    start = at
    for code in codes:
        for address in loads_of_mortals(code):
            at += 1
            LASTING[at] = address
    LASTING[start] = at - start


def loads_of_mortals(code):
    """Returns the addresses of instructions that are specialised for loading a mortal object, whose references they count without a check."""
    learnt, plain = code._co_code_adaptive, code.co_code
    at = 0
    while at < len(plain):
        if learnt[at] == LOAD_CONST_MORTAL:
            yield id(code) + types.CodeType.__basicsize__ + at
        at += 2 + 2 * opcode._inline_cache_entries.get(opcode.opname[plain[at]], 0)
