"""Pipes between programs as file descriptors, on which the standard library's own `subprocess` works.

The descriptors belong to a table of this module, above all those that libc assigns. `os.read`, `os.write`, `os.close` and similar
functions look there first.
"""

import builtins
import errno
import io
import os
import stat
import types
import warnings

from componentize_py_types import Err
from wit_world.imports import process

FIRST = 1 << 20
# The capacity of a pipe.
PIECE = 1 << 16
TABLE = {}


def failure(number):
    return OSError(number, os.strerror(number))


class End:
    """One end of a pipe, or of `/dev/null`. It is closed with its last descriptor."""

    handle = None
    references = 0

    def __init__(self, handle=None):
        self.handle = handle
        self.blocking = True

    def close(self):
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.__exit__(None, None, None)

    def read(self, size):
        raise failure(errno.EBADF)

    def write(self, data):
        raise failure(errno.EBADF)


class Null(End):
    def read(self, size):
        return b""

    def write(self, data):
        return len(data)


class ReadEnd(End):
    def __init__(self, handle):
        super().__init__(handle)
        # Bytes that were read early so that the writer can continue: see `waits`.
        self.backlog = bytearray()
        self.ended = False

    def waiting(self):
        return self.backlog or self.ended

    def read(self, size):
        if not self.waiting():
            waits.for_reading(self)
        if self.backlog:
            piece = bytes(self.backlog[:size])
            del self.backlog[:size]
            return piece
        return b"" if self.ended else self.take(size)

    def take(self, size):
        """Reads from the pipe itself. Blocks while it is empty."""
        try:
            data = self.handle.read(min(size, PIECE), None)
        except Err as refused:
            reason = refused.value
        else:
            self.ended = not data and size > 0
            return data
        raise meaning(reason)


class WriteEnd(End):
    def write(self, data):
        if not len(data):
            return 0
        waits.for_writing(self)
        return self.give(data)

    def give(self, data):
        """Writes to the pipe. Blocks while it is full. Bytes are passed as text, because the bindings do not free a list of bytes that was
        passed to the host.
        """
        try:
            return self.handle.write_latin1(str(memoryview(data).cast("B")[:PIECE], "latin-1"))
        except Err as refused:
            reason = refused.value
        raise meaning(reason)


def meaning(reason):
    """Converts an error of the process interface to an OSError."""
    text = getattr(reason, "value", "")
    if isinstance(reason, process.Error_NotFound):
        return failure(errno.ENOENT)
    if isinstance(reason, process.Error_Denied):
        return PermissionError(errno.EACCES, text or os.strerror(errno.EACCES))
    if isinstance(reason, process.Error_Limit):
        return BlockingIOError(errno.EAGAIN, f"limit reached: {text}")
    if isinstance(reason, process.Error_Closed):
        return failure(errno.EPIPE)
    if isinstance(reason, process.Error_Timeout):
        return failure(errno.EAGAIN)
    return OSError(errno.EIO, text or os.strerror(errno.EIO))


def add(end):
    """Assigns the lowest free descriptor, as a system does."""
    number = FIRST
    while number in TABLE:
        number += 1
    end.references += 1
    TABLE[number] = end
    return number


def new():
    """Creates a pipe and returns its read and write ends."""
    try:
        reader, writer = process.pipe()
    except Err as refused:
        reason = refused.value
    else:
        return ReadEnd(reader), WriteEnd(writer)
    raise meaning(reason)


def pipe():
    reader, writer = new()
    return add(reader), add(writer)


def close(number):
    end = TABLE.pop(number, None)
    if end is None:
        raise failure(errno.EBADF)
    end.references -= 1
    if not end.references:
        end.close()


def dup(number):
    return add(TABLE[number])


class File(io.RawIOBase):
    """Does for these descriptors what `FileIO` does for libc's."""

    def __init__(self, number, mode, closefd=True):
        self._number, self._closefd = number, closefd
        self.mode, self.name = mode, number

    def fileno(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")
        return self._number

    def readable(self):
        return "r" in self.mode or "+" in self.mode

    def writable(self):
        return "r" not in self.mode or "+" in self.mode

    def readinto(self, buffer):
        try:
            data = read(self.fileno(), len(buffer))
        except BlockingIOError:
            return None
        buffer[: len(data)] = data
        return len(data)

    def write(self, data):
        return write(self.fileno(), data)

    def close(self):
        if not self.closed:
            super().close()
            if self._closefd:
                close(self._number)


def read(number, size):
    end = TABLE.get(number)
    if end is None:
        raise failure(errno.EBADF)
    return end.read(size)


def write(number, data):
    end = TABLE.get(number)
    if end is None:
        raise failure(errno.EBADF)
    return end.write(data)


def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    """Like `io.open`, also for descriptors of this module."""
    if not isinstance(file, int) or file < FIRST:
        return builtins.open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if file not in TABLE:
        raise failure(errno.EBADF)
    if buffering == 1 and "b" in mode:
        text = "line buffering (buffering=1) isn't supported in binary mode, the default buffer size will be used"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    raw = File(file, mode.replace("t", ""), closefd)
    if buffering == 0 and "b" in mode:
        return raw
    size = io.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) else buffering
    binary = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
    if "b" in mode:
        return binary
    text = io.TextIOWrapper(binary, encoding, errors, newline, line_buffering=buffering == 1)
    text.mode = mode
    return text


def either(ours, theirs):
    """Returns a function that calls `ours` for descriptors of the table, and `theirs` for all others."""

    def function(fd, *args, **kwargs):
        if type(fd) is int and fd >= FIRST:
            return ours(fd, *args, **kwargs)
        return theirs(fd, *args, **kwargs)

    function.__name__ = theirs.__name__
    return function


def fdopen(fd, mode="r", buffering=-1, encoding=None, *args, **kwargs):
    if not isinstance(fd, int):
        raise TypeError(f"invalid fd type ({type(fd)}, expected integer)")
    return open(fd, mode, buffering, encoding, *args, **kwargs)


def fstat(number, **_):
    if number not in TABLE:
        raise failure(errno.EBADF)
    return os.stat_result((stat.S_IFIFO | 0o600, number, 0, 1, 1000, 1000, 0, 0, 0, 0))


def set_blocking(number, blocking):
    TABLE[number].blocking = blocking


def missing(fd, *_):
    raise failure(errno.EBADF)


def install():
    global waits
    from . import system, waits

    os.pipe, os.fdopen = pipe, fdopen
    os.pipe2 = lambda flags: pipe()
    for name, ours in {
        "stat": fstat, "fstat": fstat, "read": read, "write": write, "close": close, "dup": dup, "set_blocking": set_blocking,
        "get_blocking": lambda number: TABLE[number].blocking, "isatty": lambda number: False,
        "set_inheritable": lambda number, inheritable: None, "get_inheritable": lambda number: False,
    }.items():  # fmt: skip
        system.replace(name, either(ours, getattr(os, name, missing)))


# `subprocess` opens its pipes with `io.open`: it gets this module in place of `io`.
IO = types.ModuleType("io")
vars(IO).update(vars(io))
IO.open = open
