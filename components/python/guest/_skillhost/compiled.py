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


def script(path):
    """The same of a script, with the names in its folder, to which its path leads over no link."""
    try:
        script = host.begin(path)
    except UnicodeEncodeError:
        return None
    return None if script is None else (marshal.loads(script.code), script.beside)


@stdlib.unseen
def get_code(self, fullname):
    # Another class may read or compile in its own way.
    code = of(self.get_filename(fullname)) if type(self) is SourceFileLoader else None
    return read_and_compile(self, fullname) if code is None else code


def install():
    SourceFileLoader.get_code = get_code
