"""What a script may ask of the system, and WASI has no word for: who it is, where it runs, how a file's permissions look."""

import copy
import errno
import getpass
import io
import os
import platform
import signal
import socket
import stat
import sys
import time

NODE = "sandbox"


class Exit(BaseException):
    """`os._exit`: ends the program at once, as far as an exception can: finally blocks on its way still run."""


def install():
    sys.executable = "/usr/bin/python3"
    # Scripts branch on it, and stop where they know none of its names; what they do on Linux is what works here.
    sys.platform = "linux"
    users()
    files()
    processes()
    clock()
    platform._uname_cache = platform.uname_result("Linux", NODE, "0.2", "skillhost", "wasm32")
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


def users():
    os.getuid = os.geteuid = os.getgid = os.getegid = lambda: 1000
    os.getgroups = lambda: [1000]
    os.getlogin = lambda: "user"
    # It would ask the table of users after the environment.
    getpass.getuser = lambda: next((os.environ[name] for name in ("LOGNAME", "USER", "LNAME", "USERNAME") if os.environ.get(name)), "user")


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
    """WASI has no permission bits and no owners: a file is readable, and what is denied shows when it is opened."""
    for name in ("stat", "lstat", "fstat"):
        setattr(os, name, with_mode(getattr(os, name)))
    os.open = with_access(os.open)
    umask = 0o022

    def set_umask(mask):
        nonlocal umask
        umask, old = mask & 0o777, umask
        return old

    os.umask = set_umask
    os.chmod = lambda path, mode, *, dir_fd=None, follow_symlinks=True: None if isinstance(path, int) else check(path)
    os.lchmod = os.chmod
    os.chown = lambda path, uid, gid, *, dir_fd=None, follow_symlinks=True: None if isinstance(path, int) else check(path)
    os.lchown = os.chown
    os.fchmod = lambda fd, mode: None
    os.fchown = lambda fd, uid, gid: None


def check(path):
    os.stat(path)


MODES = {stat.S_IFDIR: 0o755, stat.S_IFREG: 0o644, stat.S_IFLNK: 0o777, stat.S_IFCHR: 0o620}


def with_mode(ask):
    def asked(*args, **kwargs):
        result = ask(*args, **kwargs)
        mode = result.st_mode
        if mode & 0o777:
            return result
        # The pairs after the first ten are the fields with fractions and nanoseconds, which are not in the sequence.
        _, (fields, named) = result.__reduce__()
        fields = (mode | MODES.get(stat.S_IFMT(mode), 0o600), *fields[1:4], 1000, 1000, *fields[6:])
        return os.stat_result(fields, named)

    asked.__name__ = ask.__name__
    return asked


def with_access(open_file):
    """On Linux read-only is 0, and left out; WASI has a bit for it, and refuses flags with none."""

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
    """Standard streams as python3's in UTF-8 mode, save that stdout is flushed at each line: a program may be stopped at any moment."""
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(raw(0, "rb", "<stdin>")), "utf-8", "surrogateescape")
    for fd, name, errors in ((1, "stdout", "surrogateescape"), (2, "stderr", "backslashreplace")):
        stream = io.TextIOWrapper(io.BufferedWriter(raw(fd, "wb", f"<{name}>")), "utf-8", errors, line_buffering=True)
        stream.mode = "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin.mode = "r"


def raw(fd, mode, name):
    file = io.FileIO(fd, mode, closefd=False)
    file.name = name
    return file
