"""Permission bits. WASI has none, so the host keeps those that programs set, for the run and for all its programs.

Nothing enforces them. Until a program has set any, the functions of `os` that report them are the interpreter's own, which report Linux's
defaults (`tools/image/src/modes.rs`).
"""

import builtins
import errno
import functools
import gc
import io
import operator
import os
import posixpath
import stat as kinds

from componentize_py_types import Err
from wit_world.imports import modes as host

FILE, FOLDER, ALL = 0o644, 0o755, 0o7777
# The functions of `os` without bits.
PLAIN = {}
# The paths of files that this program has opened by `os.open`, by descriptor, and of those whose bits it has set, by device and inode.
OPENED, CHANGED = {}, {}
mask = 0o022


def start():
    """At the start of a program: another one of the run may have set bits."""
    if host.any():
        watch()


def watch():
    """Makes the functions of `os` report the bits that were set."""
    if "stat" in PLAIN:
        return
    PLAIN.update((name, getattr(os, name)) for name in ("stat", "lstat", "fstat", "scandir"))
    for function in (stat, lstat, fstat, scandir):
        system.replace(function.__name__, function)


def plain(name):
    return PLAIN.get(name) or getattr(os, name)


def absolute(path):
    return posixpath.join(os.getcwd(), os.fsdecode(path))


def with_bits(result, bits):
    if bits is None:
        return result
    kind, (values, more) = result.__reduce__()
    return kind((kinds.S_IFMT(values[0]) | bits, *values[1:]), more)


def stat(path, *, dir_fd=None, follow_symlinks=True):
    if isinstance(path, int):
        return fstat(path)
    result = PLAIN["stat"](path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    return result if dir_fd is not None else with_bits(result, host.get(absolute(path), follow_symlinks))


def lstat(path, *, dir_fd=None):
    result = PLAIN["lstat"](path, dir_fd=dir_fd)
    return result if dir_fd is not None else with_bits(result, host.get(absolute(path), False))


def fstat(fd):
    result = PLAIN["fstat"](fd)
    path = CHANGED.get((result.st_dev, result.st_ino))
    return with_bits(result, host.get(path, True)) if path is not None and is_same(path, result) else result


def is_same(path, result):
    try:
        return posixpath.samestat(plain("stat")(path), result)
    except OSError:
        return False


class Entry:
    """An entry of a folder, as `os.scandir` yields them, with the bits."""

    __slots__ = ("_entry",)
    # `isinstance(entry, os.DirEntry)` asks for it.
    __class__ = property(lambda self: os.DirEntry)

    def __init__(self, entry):
        self._entry = entry

    def __getattr__(self, name):
        return getattr(self._entry, name)

    def __fspath__(self):
        return self._entry.path

    def __repr__(self):
        return repr(self._entry)

    def __reduce__(self):
        raise TypeError("cannot pickle 'posix.DirEntry' object")

    def stat(self, *, follow_symlinks=True):
        result = self._entry.stat(follow_symlinks=follow_symlinks)
        path = self._entry.path
        return result if isinstance(path, int) else with_bits(result, host.get(absolute(path), follow_symlinks))


class Entries:
    def __init__(self, entries):
        self._entries = entries

    def __iter__(self):
        return self

    def __next__(self):
        return Entry(next(self._entries))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self._entries.close()


def scandir(path="."):
    entries = PLAIN["scandir"](path)
    return entries if isinstance(path, int) else Entries(entries)


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    mode = operator.index(mode) & ALL
    if isinstance(path, int):
        return fchmod(path, mode)
    result = os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    # Copies get the bits of their originals, which mostly are the defaults.
    if dir_fd is None and kinds.S_IMODE(result.st_mode) != mode:
        set_bits(path, mode, follow_symlinks)


def lchmod(path, mode):
    chmod(path, mode, follow_symlinks=False)


def fchmod(fd, mode):
    mode = operator.index(mode) & ALL
    result = plain("fstat")(fd)
    path = path_of(fd, result)
    if path is not None:
        set_bits(path, mode, True)


def path_of(fd, result):
    """Returns the path of an open file, which libc does not know: that of `os.open`, or of a file object of the program."""
    names = [OPENED.get(fd)]
    for item in gc.get_objects():
        if type(item) is io.FileIO and not item.closed and item.fileno() == fd:
            names.append(item.name)
    return next((name for name in names if isinstance(name, (str, bytes, os.PathLike)) and is_same(name, result)), None)


def set_bits(path, mode, follow):
    where = absolute(path)
    try:
        host.set(where, mode & ALL, follow)
    except Err:
        full = True
    else:
        full = False
    if full:
        # The file exists, so that there are too many with bits is the only reason.
        raise OSError(errno.ENOSPC, "too many files have permission bits of their own", path)
    watch()
    result = PLAIN["stat"](path, follow_symlinks=follow)
    CHANGED[result.st_dev, result.st_ino] = where


def created(path, mode, default):
    """Notes the bits of a new file, unless they are the defaults. Creating it has succeeded, even if they cannot be kept."""
    mode &= ~mask & 0o777
    if mode != default:
        try:
            set_bits(path, mode, True)
        except OSError:
            pass


def with_open_mode(open_file):
    @functools.wraps(open_file)
    def open(path, flags, mode=0o777, *, dir_fd=None):
        # The flag for reading is 0 on Linux and may be omitted. WASI has a bit for it, and refuses flags without any.
        if not flags & os.O_ACCMODE:
            flags |= os.O_RDONLY
        # Whether the file is new matters only if its bits are not the defaults.
        is_new = flags & os.O_CREAT and dir_fd is None and mode & ~mask & 0o777 != FILE
        is_new = is_new and (flags & os.O_EXCL or not posixpath.lexists(path))
        number = open_file(path, flags, mode, dir_fd=dir_fd)
        OPENED[number] = path
        if is_new:
            created(path, mode, FILE)
        return number

    return open


def with_folder_mode(make):
    @functools.wraps(make)
    def mkdir(path, mode=0o777, *, dir_fd=None):
        make(path, mode, dir_fd=dir_fd)
        if dir_fd is None and mode & ~mask & 0o777 != FOLDER:
            created(path, mode, FOLDER)

    return mkdir


def umask(new):
    """Sets the mask of this program. With another one than the default, `open` gives new files its bits."""
    global mask
    old, mask = mask, operator.index(new) & 0o777
    if mask != 0o022 and io.open is PLAIN_OPEN:
        builtins.open = io.open = open_masked
    return old


PLAIN_OPEN = io.open


@functools.wraps(PLAIN_OPEN)
def open_masked(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    writes = opener is None and isinstance(mode, str) and not isinstance(file, int) and any(letter in mode for letter in "wax")
    is_new = writes and not posixpath.lexists(file)
    opened = PLAIN_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if is_new:
        created(file, 0o666, FILE)
    return opened


def with_execution(access):
    """Answers whether files may be executed by their bits. Files in read-only places have lost theirs and count as executable, as in bash."""

    @functools.wraps(access)
    def may(path, mode, *, dir_fd=None, effective_ids=False, follow_symlinks=True):
        if not access(path, mode, dir_fd=dir_fd, effective_ids=effective_ids, follow_symlinks=follow_symlinks):
            return False
        if not mode & os.X_OK or dir_fd is not None or isinstance(path, int):
            return True
        result = os.stat(path, follow_symlinks=follow_symlinks)
        if not kinds.S_ISREG(result.st_mode) or result.st_mode & 0o111:
            return True
        bits = host.get(absolute(path), follow_symlinks) if host.any() else None
        return bits is None and not access(path, os.W_OK, follow_symlinks=follow_symlinks)

    return may


def install():
    global system
    from . import system

    system.replace("open", with_open_mode(os.open))
    system.replace("mkdir", with_folder_mode(os.mkdir))
    system.replace("access", with_execution(os.access))
    os.umask = umask
    for function in (chmod, lchmod, fchmod):
        system.replace(function.__name__, function)
