"""What a script may ask of the system, and WASI has no word for: who it is, where it runs, how a file's permissions look."""

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
import signal
import socket
import sys
import time

NODE = "sandbox"
# The program is over, and its objects are let go.
ENDING = False


class Exit(BaseException):
    """`os._exit`: ends the program at once, as far as an exception can: finally blocks on its way still run."""


def install():
    sys.executable = sys._base_executable = "/usr/bin/python3"
    # Scripts branch on it, and stop where they know none of its names; what they do on Linux is what works here.
    sys.platform = "linux"
    users()
    variables()
    files()
    processes()
    clock()
    platform._uname_cache = platform.uname_result("Linux", NODE, "0.2", "skillhost", "wasm32")
    # It would start `uname -p`, which on Linux knows no more.
    vars(platform._uname_cache)["processor"] = ""
    platform._platform_cache.clear()
    # It would look for the version in the interpreter's file, and there is none.
    platform.libc_ver = lambda executable=None, lib="", version="", chunksize=16384: ("wasi-libc", "")
    os.uname = lambda: os.uname_result(("Linux", NODE, "0.2", "skillhost", "wasm32"))
    socket.gethostname = lambda: NODE
    socket.getfqdn = lambda name="": name or NODE
    # The interpreter reads no variables where it is made.
    sys.flags = copy.replace(sys.flags, utf8_mode=1)
    os.get_terminal_size = no_terminal
    os.getloadavg = lambda: (0.0, 0.0, 0.0)
    sysconf = os.sysconf
    # libc knows no bound for open files; the host has one, the limit `handles`.
    os.sysconf = lambda name: 4096 if name in ("SC_OPEN_MAX", os.sysconf_names.get("SC_OPEN_MAX")) else sysconf(name)
    sys.is_finalizing = staticmethod(lambda: ENDING)


def users():
    os.getuid = os.geteuid = os.getgid = os.getegid = lambda: 1000
    os.getgroups = lambda: [1000]
    os.getlogin = lambda: "user"
    # It would ask the table of users after the environment.
    getpass.getuser = lambda: next((os.environ[name] for name in ("LOGNAME", "USER", "LNAME", "USERNAME") if os.environ.get(name)), "user")


def variables():
    """Where a variable is not set, the library's way makes two errors and catches them."""
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
    """Only to oneself, and to ask whether one lives."""
    if pid not in (0, os.getpid()):
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    if number:
        signal.raise_signal(number)


def files():
    """WASI has no permission bits and no owners: a file is readable, and what is denied shows when it is opened. See `tools/image/src/modes.rs`."""
    replace("open", with_access(os.open))
    for name in "stat lstat open listdir scandir mkdir rmdir remove unlink chdir utime truncate".split():
        replace(name, with_path(getattr(os, name)))
    for name in ("rename", "replace", "link", "symlink"):
        replace(name, with_paths(getattr(os, name)))
    access = os.access
    replace("access", functools.wraps(access)(lambda path, *args, **kwargs: not is_empty(path) and access(path, *args, **kwargs)))
    genericpath.exists = posixpath.exists = found(os.access, os.path.exists)
    umask = 0o022

    def set_umask(mask):
        nonlocal umask
        umask, old = mask & 0o777, umask
        return old

    os.umask = set_umask
    for name in ("chmod", "lchmod", "fchmod", "chown", "lchown", "fchown"):
        replace(name, chown if "own" in name else chmod)


def replace(name, function):
    """As a static method: what a class has among its attributes, under a name of its own, is not to become a method of it."""
    old, new = getattr(os, name, None), staticmethod(function)
    setattr(os, name, new)
    for able in (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks):
        if old in able:
            able.add(new)


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    check(path, mode)


def chown(path, uid, gid, *, dir_fd=None, follow_symlinks=True):
    check(path, uid, gid)


def check(path, *numbers):
    """Whether it is there, and what comes with it are numbers."""
    for number in numbers:
        operator.index(number)
    os.fstat(path) if isinstance(path, int) else os.stat(path)


def is_empty(path):
    return not path and isinstance(path, (str, bytes))


def with_path(function):
    """WASI's libc takes the empty path for the working folder. Everywhere else there is no such file."""

    @functools.wraps(function)
    def called(*args, **kwargs):
        if args and not args[0] and is_empty(args[0]):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0])
        return function(*args, **kwargs)

    return called


def with_paths(function):
    """The same of functions that take two."""

    @functools.wraps(function)
    def called(*args, **kwargs):
        if len(args) > 1 and any(map(is_empty, args[:2])):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), args[0], None, args[1])
        return function(*args, **kwargs)

    return called


def found(access, exists):
    """`os.path.exists`, for which no error is made and caught where nothing is there."""

    @functools.wraps(exists)
    def found(path):
        try:
            return access(path, os.F_OK)
        except TypeError:
            # The number of an open file.
            return exists(path)
        except (OSError, ValueError):
            return False

    return found


def with_access(open_file):
    """On Linux read-only is 0, and left out; WASI has a bit for it, and refuses flags with none."""

    @functools.wraps(open_file)
    def open(path, flags, mode=0o777, *, dir_fd=None):
        if not flags & os.O_ACCMODE:
            flags |= os.O_RDONLY
        return open_file(path, flags, mode, dir_fd=dir_fd)

    return open


def no_terminal(fd=1):
    raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))


STARTED = 0.0


def clock():
    """libc counts processor time from when the component was built; here it is counted from the start of the program."""
    time.process_time = time.thread_time = lambda: time.monotonic() - STARTED
    os.times = lambda: os.times_result((time.process_time(), 0.0, 0.0, 0.0, time.monotonic()))
    time.process_time_ns = time.thread_time_ns = lambda: int(time.process_time() * 1e9)
    if not hasattr(time, "tzset"):
        time.tzset = lambda: None


def open_streams():
    """Those of the image, which no program has used; made anew where the environment asks for another encoding."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    if encoding or errors:
        make_streams(encoding or "utf-8", errors or "strict")


def make_streams(encoding="utf-8", errors="surrogateescape"):
    """Standard streams as python3's in UTF-8 mode, save that stdout is flushed at each line: a program may be stopped at any moment."""
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
    return file
