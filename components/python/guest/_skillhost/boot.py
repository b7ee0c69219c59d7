"""Makes the interpreter ready for the memory image: modules imported, the gaps of WASI filled, the paths of a run warmed."""

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

from . import stdlib

stdlib.install()

# What the scripts of real skills import, and what those modules import late.
USUAL = """__future__ abc argparse array ast asyncio atexit base64 binascii bisect calendar cmath codecs collections
collections.abc concurrent.futures concurrent.futures.process concurrent.futures.thread configparser contextlib
contextvars copy csv dataclasses datetime decimal difflib email email.message email.mime.multipart email.mime.text
email.parser email.policy email.utils encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1
encodings.utf_16 encodings.utf_8_sig enum errno fnmatch fractions functools getopt getpass glob gzip hashlib heapq
hmac html html.entities html.parser http http.client http.cookies importlib.metadata importlib.resources
importlib.util inspect io ipaddress itertools json keyword linecache locale logging logging.handlers math mimetypes
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

    # Before whatever looks for `ssl` and for a socket's class.
    sockets.install()
    stand_in("ssl", "tls")
    for name in USUAL:
        importlib.import_module(name)
    # Not before: each of them imports what it mends.
    from . import clients, compiled, errors, hashes, loop, missing, pools, programs, system, threads

    stdlib.adopt()
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


def stand_in(name, ours):
    """Makes a module of this package the one of that name."""
    spec = importlib.util.spec_from_file_location(name, f"{os.path.dirname(__file__)}/{ours}.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


class Asked:
    """The answers of `wasi:cli/environment` in a start that is only for warmth."""

    @staticmethod
    def get_environment():
        return [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), ("PWD", "/skill")]

    @staticmethod
    def get_arguments():
        return ["python3", os.path.dirname(__file__) + "/__init__.py"]

    @staticmethod
    def initial_cwd():
        return "/skill"


class Had:
    """The answers of `compiled` in such a start: every other time it has the code."""

    def __init__(self):
        self.asked = 0

    def begin(self, path):
        self.asked += 1
        return types.SimpleNamespace(code=marshal.dumps(compile("", path, "exec")), beside=["main.py"]) if self.asked % 2 else None


def functions():
    return [item for item in gc.get_objects() if type(item) is types.FunctionType]


def fresh_code(functions):
    """Gives functions code that has learnt nothing yet."""
    made = {}
    for function in functions:
        code = function.__code__
        # By what it is and not by what it equals.
        if id(code) not in made:
            made[id(code)] = code, renewed(code)
        function.__code__ = made[id(code)][1]


def renewed(code):
    constants = tuple(renewed(constant) if type(constant) is types.CodeType else constant for constant in code.co_consts)
    return code.replace(co_consts=constants)


def has_run(code):
    """Whether the interpreter has learnt something of it since it was made: the first thing is that it has been entered."""
    # Each instruction is two bytes; what follows it of its caches is zero in `co_code`.
    return any(plain and plain != learnt for plain, learnt in zip(code.co_code[::2], code._co_code_adaptive[::2]))


def lie_together(functions):
    """Gives functions code that lies in one piece of memory. What a run learns of its own start it writes into the code, and a page that holds
    a lot of that costs no more than one that holds little."""
    filling = fill_gaps()
    fresh_code(functions)
    del filling


def fill_gaps():
    """Takes what is free between that which is allocated, so that what is allocated next comes behind all of it. Returns what fills it."""
    end = id(bytes(ROOM))
    filling = [None] * (1 << 16)
    filled = 0
    # malloc's chunks are multiples of 16 bytes, of which 4 are its own; 17 are what a bytes object has beside its content.
    for chunk in (*(1 << power for power in range(20, 10, -1)), *range(1024, 16, -16)):
        while id(piece := bytes(chunk - 4 - 17)) < end:
            filling[filled] = piece
            filled += 1
    return filling


def start_often(main):
    """Starts programs again and again, until the interpreter has learnt what it can of its own code: what it learns it writes into it."""
    from concurrent.futures import process, thread

    from . import compiled, fresh, system

    saved = list(sys.path), list(sys.argv), list(sys.orig_argv), sys.modules.get("__main__")
    asked, fresh.environment = fresh.environment, Asked
    had, compiled.host = compiled.host, Had()
    for _ in range(20):
        main.run()
        # None of them knows a start after an end.
        system.ENDING = thread._shutdown = process._global_shutdown = False
    # Setting it too would make the interpreter forget what it has learnt of the class.
    assert not weakref.finalize._shutdown, "a start has left a finalizer"
    fresh.environment, compiled.host = asked, had
    sys.path[:], sys.argv[:], sys.orig_argv[:], sys.modules["__main__"] = saved


def warm(main):
    from . import system

    saved = list(sys.path), list(sys.argv), list(sys.orig_argv), sys.modules.get("__main__")
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    for source in ["print('hi')"] * 20 + [SAMPLE] * 3 + ["raise SystemExit(0)", "import os; open('/nowhere')"]:
        main.guarded(lambda: main.command(["-c", source]))
    sys.path[:], sys.argv[:], sys.orig_argv[:], sys.modules["__main__"] = saved
    system.make_streams()
    # Last, since what is looked up last stays in the interpreter's caches.
    start_often(main)


# What fills the gaps, and the frames that wait for `settle`, which would leave new ones. componentize-py allocates after it, and what it
# allocates is touched by starts: so that lies side by side.
KEPT = []
# What a program allocates before the memory has to grow, in bytes.
ROOM = 2 << 20


def settle():
    """The last thing that happens in the image."""
    import logging
    import multiprocessing.util

    from . import compiled, fresh, main

    main.OURS.update(sys.modules.keys() - {"__main__"})
    # Called by `main`, where they have something to do.
    atexit.unregister(logging.shutdown)
    atexit.unregister(multiprocessing.util._exit_function)
    main.HANDLERS[:] = logging._handlerList
    # The host's handles are finalised by it too: not among what runs at exit, which may still use them, but after all of that.
    atexit.unregister(weakref.finalize._exitfunc)
    weakref.finalize._registered_with_atexit = True
    fresh_code([function for function in functions() if has_run(function.__code__)])
    start_often(main)
    asked = [fresh.environment.get_environment, fresh.environment.get_arguments, fresh.environment.initial_cwd, compiled.host.begin]
    lie_together([function for function in functions() if has_run(function.__code__)] + asked)
    warm(main)
    import linecache

    linecache.clearcache()
    fresh.forget()
    os.environ._data.clear()
    sys.path_importer_cache.clear()
    # A collection of CPython 3.14.0 looks at much that is old, each time that this many objects are new. With its 2,000 a report on 137,000 rows
    # takes twice as long as without any collection; with 30,000 it takes as long.
    gc.set_threshold(30_000)
    # What is imported from is mostly read-only, and each attempt to write there would be recorded as a denial.
    sys.dont_write_bytecode = True
    gc.collect()
    gc.collect()
    list_lasting()
    gc.freeze()
    # Once more: it also takes back what is kept for the next object of a type.
    gc.collect()
    KEPT.extend([fill_gaps(), sys._getframe()])
    bytes(ROOM)
    gc.freeze()


LOAD_CONST_MORTAL = _specialized_opmap["LOAD_CONST_MORTAL"]
# What tells the build where the list is: these words stand one after the other in no other place, not even in this module's code.
MARK = range(0x5EED0001, 0x5EED0009)
# The objects of the image: the mark, how many there are, and for each its address and its type's; then how many instructions load one that
# was mortal, and the address of each. Made in time, so that it leaves no gap.
LASTING = array.array("I", bytes(4 * (1 << 19)))


def list_lasting():
    """Lists the objects that live now. The build makes them immortal: then nobody counts references to them, and what is not counted is
    not written. A program that only reads them shares their pages with all others."""
    # A bit for each address that malloc can give out.
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
            # The collector has no interest in what code objects hold.
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
    """The addresses of instructions that have learnt that what they load is mortal, and count references to it unasked."""
    learnt, plain = code._co_code_adaptive, code.co_code
    at = 0
    while at < len(plain):
        if learnt[at] == LOAD_CONST_MORTAL:
            yield id(code) + types.CodeType.__basicsize__ + at
        at += 2 + 2 * opcode._inline_cache_entries.get(opcode.opname[plain[at]], 0)
