"""Makes the interpreter ready for the memory image: modules imported, the gaps of WASI filled, the paths of a run warmed."""

import array
import atexit
import gc
import importlib
import importlib.util
import io
import os
import sys
import types
import weakref

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
    from . import clients, errors, hashes, loop, missing, pools, programs, system, threads

    stdlib.adopt()
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


def settle():
    """The last thing that happens in the image."""
    from . import main

    streams, saved = (sys.stdin, sys.stdout, sys.stderr), (list(sys.path), list(sys.argv), sys.modules.get("__main__"))
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    for source in ["print('hi')"] * 20 + [SAMPLE] * 3 + ["raise SystemExit(0)", "import os; open('/nowhere')"]:
        main.guarded(lambda: main.command(["-c", source]))
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.path[:], sys.argv[:], sys.modules["__main__"] = saved
    main.OURS.update(sys.modules.keys() - {"__main__"})
    import linecache

    linecache.clearcache()
    os.environ._data.clear()
    # The host's handles are finalised by it too: not among what runs at exit, which may still use them, but after all of that.
    atexit.unregister(weakref.finalize._exitfunc)
    weakref.finalize._registered_with_atexit = True
    # What is imported from is mostly read-only, and each attempt to write there would be recorded as a denial.
    sys.dont_write_bytecode = True
    gc.collect()
    gc.collect()
    list_lasting()
    gc.freeze()
    pack()
    gc.freeze()


# What tells the build where the list is: these words stand one after the other in no other place, not even in this module's code.
MARK = range(0x5EED0001, 0x5EED0009)
# The objects of the image: the mark, how many there are, and for each its address and its type's. Made in time, so that it leaves no gap.
LASTING = array.array("I", bytes(4 * (1 << 19)))


def list_lasting():
    """Lists the objects that live now. The build makes them immortal: then nobody counts references to them, and what is not counted is
    not written. A program that only reads them shares their pages with all others."""
    # A bit for each address that malloc can give out.
    seen = bytearray(64 << 20 >> 7)
    todo = gc.get_objects()
    skip = {id(seen), id(todo), id(LASTING)}
    at = len(MARK) + 1
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
                todo += (item.co_consts, item.co_names, item.co_filename, item.co_name, item.co_qualname)
                todo += (item.co_linetable, item.co_exceptiontable)
    LASTING[: len(MARK)] = array.array("I", MARK)
    LASTING[len(MARK)] = (at - len(MARK)) // 2


# What fills the gaps, for as long as the interpreter lives.
FILLING = [None] * (1 << 16)
# What a program allocates before the memory has to grow, in bytes.
ROOM = 2 << 20


def pack():
    """Fills the gaps between what is allocated, so that a program's own objects lie side by side behind all of it.

    This interpreter takes all its memory from malloc, which gives out the gaps first; and each of them that is written to is a page that
    the instance has to copy from the image.
    """
    end = id(bytes(ROOM))
    used = 0
    # malloc's chunks are multiples of 16 bytes, of which 4 are its own; 17 are what a bytes object has beside its content.
    for chunk in (*(1 << power for power in range(20, 10, -1)), *range(1024, 16, -16)):
        while used < len(FILLING) and id(filling := bytes(chunk - 4 - 17)) < end:
            FILLING[used] = filling
            used += 1
    # The smallest chunks: a list's first items.
    while used < len(FILLING) and id(filling := [None]) < end:
        FILLING[used] = filling
        used += 1
