"""The code of a skill's files, compiled once by the host. Natively, imported files have theirs in `__pycache__`."""

import marshal
from importlib.machinery import SourceFileLoader

# Imported at build time: afterwards the module that componentize-py generated exists only in the image.
from wit_world.imports import compiled as host

from . import stdlib

read_and_compile = SourceFileLoader.get_code


def of(path):
    """Returns the code of a file by its absolute path, or None if the file has to be read and compiled."""
    try:
        code = host.get(path)
    except UnicodeEncodeError:
        return None
    return None if code is None else marshal.loads(code)


def script(path):
    """Returns the code of a script and the names in its folder, if its path contains no link."""
    try:
        script = host.begin(path)
    except UnicodeEncodeError:
        return None
    return None if script is None else (marshal.loads(script.code), script.beside)


@stdlib.unseen
def get_code(self, fullname):
    # A subclass may read or compile in its own way.
    code = of(self.get_filename(fullname)) if type(self) is SourceFileLoader else None
    return read_and_compile(self, fullname) if code is None else code


def install():
    SourceFileLoader.get_code = get_code
