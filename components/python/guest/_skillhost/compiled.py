"""The code of a skill's files, which the host has compiled once: natively, imported files have theirs in `__pycache__`."""

import marshal
from importlib.machinery import SourceFileLoader

# Here, at the build: the module that componentize-py made is in the image, and in no folder afterwards.
from wit_world.imports import compiled as host

from . import stdlib

read_and_compile = SourceFileLoader.get_code


def of(path):
    """A file's code by its absolute path; none where it is to be read and compiled."""
    try:
        code = host.get(path)
    except UnicodeEncodeError:
        return None
    return None if code is None else marshal.loads(code)


@stdlib.unseen
def get_code(self, fullname):
    # Another class may read or compile in its own way.
    code = of(self.get_filename(fullname)) if type(self) is SourceFileLoader else None
    return read_and_compile(self, fullname) if code is None else code


def install():
    SourceFileLoader.get_code = get_code
