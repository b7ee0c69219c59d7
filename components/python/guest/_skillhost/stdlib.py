"""Imports the standard library from the memory image, which has it in compiled form, next to its sources for tracebacks."""

import marshal
import sys
from importlib.machinery import ModuleSpec, PathFinder


def read(path):
    """Reads into one buffer of the right size, because growing buffers would leave gaps in the image."""
    with open(path, "rb", buffering=0) as file:
        size = file.seek(0, 2)
        file.seek(0)
        content = bytearray(size)
        view, at = memoryview(content), 0
        while at < size:
            at += file.readinto(view[at:])
    return memoryview(content)


with open("/0/stdlib.index", "rb") as file:
    INDEX = marshal.load(file)
CODE = read("/0/stdlib.code")
SOURCE = read("/0/stdlib.source")


def unseen(function):
    """Leaves its frames out of tracebacks of failed imports, as the interpreter does for those of importlib, which it recognises by this
    name.
    """
    function.__code__ = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
    return function


class Stdlib:
    """Finder and loader in one, like importlib's own for frozen modules."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        entry = INDEX.get(name)
        if entry is None or name in shadowed:
            return None
        is_package, origin, *_ = entry
        spec = ModuleSpec(name, Stdlib, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [origin.removesuffix("/__init__.py")]
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    @unseen
    def exec_module(module):
        exec(Stdlib.get_code(module.__spec__.name), module.__dict__)

    @staticmethod
    def get_code(name):
        _, _, at, length, _, _ = INDEX[name]
        return marshal.loads(CODE[at : at + length])

    @staticmethod
    def get_source(name):
        import zlib

        _, _, _, _, at, length = INDEX[name]
        return zlib.decompress(SOURCE[at : at + length]).decode()

    @staticmethod
    def is_package(name):
        return INDEX[name][0]

    @staticmethod
    def get_filename(name):
        return INDEX[name][1]


# Modules of this package under names of the standard library: those that it has as native code elsewhere. Their files have other names: the
# warm-up starts a program in this folder, whose files would take precedence.
STAND_INS = {"_bz2": "bzip2", "_lzma": "xz", "_zstd": "zstandard", "mmap": "maps", "resource": "limits", "ssl": "tls"}
# Modules that also exist in the script's folder and take precedence, because `sys.path[0]` comes before the standard library.
shadowed = set()


def shadow(siblings, started_with):
    """Gives precedence to modules in the script's folder, except for those that python3 imports before any script."""
    for sibling in siblings:
        stem = sibling.removesuffix(".py")
        if (stem in INDEX or stem in STAND_INS) and stem not in started_with:
            shadowed.add(stem)
            sys.modules.pop(stem, None)


def install():
    """Installs the importer before the one for files, and gives it the modules that were imported from files so far."""
    sys.meta_path.insert(sys.meta_path.index(PathFinder), Stdlib)


def adopt():
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if name not in INDEX or spec is None or getattr(spec.loader, "__name__", "") in ("FrozenImporter", "BuiltinImporter", "Stdlib"):
            continue
        spec.loader = module.__loader__ = Stdlib
        spec.cached = None
