"""System information that scripts request and WASI lacks: the user, the machine, the permissions of files."""

import collections
import copy
import errno
import functools
import genericpath
import getpass
import io
import operator
import os
import platform
import posixpath
import shutil
import signal
import socket
import sys
import time

from componentize_py_types import Err

from . import _native, modes

NODE = "sandbox"
# Programs of other languages report the same machine: docs/reference/scripts.md.
MACHINE = "x86_64"
DISK, BLOCK, INODES, PAGE = 256 << 20, 4096, 10_000, 4096
# Set when the program has ended and its objects are deleted.
ENDING = False


class Exit(BaseException):
    """Implements `os._exit`: ends the program at once, as far as an exception can. `finally` blocks on its way still run."""


def install():
    sys.executable = sys._base_executable = "/usr/bin/python3"
    # Scripts branch on it and stop if they do not know the platform. Their code for Linux is what works here.
    sys.platform = "linux"
    users()
    variables()
    files()
    disk()
    processes()
    clock()
    platform._uname_cache = platform.uname_result("Linux", NODE, "0.2", "skillhost", MACHINE)
    # Otherwise it would start `uname -p`, which prints the same on Linux.
    vars(platform._uname_cache)["processor"] = ""
    platform._platform_cache.clear()
    # Otherwise it would look for the version in the interpreter's file, which does not exist.
    platform.libc_ver = lambda executable=None, lib="", version="", chunksize=16384: ("wasi-libc", "")
    os.uname = lambda: os.uname_result(("Linux", NODE, "0.2", "skillhost", MACHINE))
    socket.gethostname = lambda: NODE
    socket.getfqdn = lambda name="": name or NODE
    # The interpreter does not read environment variables when it is built.
    sys.flags = copy.replace(sys.flags, utf8_mode=1)
    os.get_terminal_size = no_terminal
    os.getloadavg = lambda: (0.0, 0.0, 0.0)
    configuration()
    sys.is_finalizing = staticmethod(lambda: ENDING)


def configuration():
    """Sets what `os.sysconf` returns for figures that libc lacks, or has of WebAssembly: open files, memory, and the size of its pages."""
    sysconf = os.sysconf
    figures = {"SC_OPEN_MAX": lambda: 4096, "SC_PAGESIZE": lambda: PAGE, "SC_PAGE_SIZE": lambda: PAGE, "SC_PHYS_PAGES": lambda: pages(0), "SC_AVPHYS_PAGES": lambda: pages(1)}
    figures |= {os.sysconf_names[name]: figure for name, figure in figures.items()}

    @functools.wraps(sysconf)
    def configured(name, /):
        figure = figures.get(name)
        return sysconf(name) if figure is None else figure()

    os.sysconf = configured


def pages(free):
    from wit_world.imports import usage

    run = usage.get()
    return max(0, run.memory_limit - run.memory * free) // PAGE


def users():
    os.getuid = os.geteuid = os.getgid = os.getegid = lambda: 1000
    os.getgroups = lambda: [1000]
    os.getlogin = lambda: "user"
    # Otherwise it would consult the table of users after the environment.
    getpass.getuser = lambda: next((os.environ[name] for name in ("LOGNAME", "USER", "LNAME", "USERNAME") if os.environ.get(name)), "user")


def variables():
    """For a variable that is not set, the library creates and catches two exceptions. This avoids that."""
    kind = type(os.environ)

    @functools.wraps(kind.get)
    def get(self, key, default=None):
        value = self._data.get(self.encodekey(key))
        return default if value is None else self.decodevalue(value)

    kind.get = get
    kind.__contains__ = lambda self, key: self.encodekey(key) in self._data


def processes():
    os.getpid, os.getppid = lambda: 2, lambda: 1
    os.getpgid = os.getsid = lambda pid=0: 2
    os.getpgrp = lambda: 2
    os.cpu_count = os.process_cpu_count = lambda: 1
    os.sched_getaffinity = lambda pid: {0}
    os._exit = quit_now
    os.kill = kill


def quit_now(status):
    raise Exit(status)


def kill(pid, number):
    """Sends signals to this process only, and allows checking whether it exists."""
    if pid not in (0, os.getpid()):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    if number:
        signal.raise_signal(number)


def files():
    """Adds the checks that scripts expect of file functions. WASI has no permission bits and no owners: every file appears readable, and
    a denial shows when the file is opened.
    """
    genericpath.exists = posixpath.exists = found(os.access, os.path.exists)
    modes.install()
    for function in (chown, lchown, fchown):
        replace(function.__name__, function)


def replace(name, function):
    """Replaces an attribute by a static method. A function among the attributes of a class must not become a method."""
    old, new = getattr(os, name, None), staticmethod(function)
    setattr(os, name, new)
    for able in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if old in able:
            able.add(new)


def chown(path, uid, gid, *, dir_fd=None, follow_symlinks=True):
    """Lets the user's files keep their owner, and refuses any other, as Linux does for users other than root."""
    owners = account(uid, "uid"), account(gid, "gid")
    os.fstat(path) if isinstance(path, int) else os.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    if not {-1, 1000}.issuperset(owners):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)


def lchown(path, uid, gid):
    account(uid, "uid"), account(gid, "gid")
    os.lstat(path)
    chown(path, uid, gid, follow_symlinks=False)


def fchown(fd, uid, gid):
    owners = account(uid, "uid"), account(gid, "gid")
    os.fstat(fd)
    if not {-1, 1000}.issuperset(owners):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def account(number, kind):
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{kind} should be integer, not {type(number).__name__}") from None
    if not -1 <= number < 1 << 32:
        raise OverflowError(f"{kind} is {'less than minimum' if number < 0 else 'greater than maximum'}")
    return number


def found(access, exists):
    """Implements `os.path.exists` without creating and catching an exception for missing files."""

    @functools.wraps(exists)
    def found(path):
        try:
            return access(path, os.F_OK)
        except TypeError:
            # The descriptor of an open file.
            return exists(path)
        except (OSError, ValueError):
            return False

    return found


def disk():
    """Describes the one disk of the sandbox, as the shell's `df` does."""
    fields = "f_bsize f_frsize f_blocks f_bfree f_bavail f_files f_ffree f_favail f_flag f_namemax f_fsid"
    os.statvfs_result = _native.struct_sequence("os.statvfs_result", fields, 10)
    usage = collections.namedtuple("usage", "total used free", module="shutil")
    blocks = DISK // BLOCK

    def statvfs(path):
        os.stat(path)
        return os.statvfs_result((BLOCK, BLOCK, blocks, blocks, blocks, INODES, INODES, INODES, 0, 255), {"f_fsid": 0})

    def fstatvfs(fd):
        os.fstat(fd)
        return statvfs("/")

    def disk_usage(path):
        os.stat(path)
        return usage(DISK, 0, DISK)

    replace("statvfs", statvfs)
    replace("fstatvfs", fstatvfs)
    os.supports_fd.add(os.statvfs)
    shutil.disk_usage = disk_usage
    shutil.__all__.append("disk_usage")


def no_terminal(fd=1):
    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


STARTED = 0.0
# The time that the program has slept.
IDLE = 0.0


def clock():
    """Counts processor time from the start of the program, without its sleeps. libc counts it from when the component was built."""
    time.process_time = time.thread_time = lambda: time.monotonic() - STARTED - IDLE
    os.times = lambda: os.times_result((time.process_time(), 0.0, 0.0, 0.0, time.monotonic()))
    time.process_time_ns = time.thread_time_ns = lambda: int(time.process_time() * 1e9)
    if not hasattr(time, "tzset"):
        time.tzset = lambda: None


def open_streams():
    """Uses the streams of the image, or creates new ones if the environment sets another encoding."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    if encoding or errors:
        make_streams(encoding or "utf-8", errors or "strict")


def make_streams(encoding="utf-8", errors="surrogateescape"):
    """Creates standard streams like those of python3 in UTF-8 mode, except that stdout is flushed after each line: a program may be ended
    at any moment.
    """
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw(0, "rb", "<stdin>")), encoding, errors)
    for fd, name, errors in ((1, "stdout", errors), (2, "stderr", "backslashreplace")):
        stream = io.TextIOWrapper(io.BufferedWriter(raw(fd, "wb", f"<{name}>")), encoding, errors, line_buffering=True)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin.mode = "r"


def raw(fd, mode, name):
    file = io.FileIO(fd, mode, closefd=False)
    file.name = name
    if fd == 1:
        file.close = closing(file.close)
    return file


def closing(close):
    """Makes closing stdout fail if its reader has gone, as it fails in python3. Otherwise, it would show at the end of the program."""

    def closed():
        from wit_world.imports import lines

        close()
        try:
            lines.flush()
        except Err:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None

    return closed
