"""Other programs: the basis of `subprocess`, `os.system`, `os.waitpid` and similar functions.

The standard library's own `Popen` does the work. It uses the pipes of `pipes`, and the functions of this module to start a program and
to wait for it.
"""

import errno
import os
import select
import selectors
import signal
import subprocess
import sys
import time

from componentize_py_types import Err
from wit_world.imports import process

from . import modes, pipes, system, waits

# Programs that were started and not awaited, by process number.
CHILDREN = {}
# The data behind `os.environ`, which would look up each variable by name. It is used even if a script has replaced `os.environ` by a
# dictionary.
VARIABLES = os.environ._data
# Signals that do not end a program without a handler.
HARMLESS = {getattr(signal, name) for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH") if hasattr(signal, name)}


class Program:
    def __init__(self, handle):
        self.handle = handle
        self.number = handle.id() + os.getpid()
        self.signal = signal.SIGKILL
        CHILDREN[self.number] = self

    def wait(self, timeout):
        """Returns its status in the form of `os.waitpid`, once; None if the timeout passes first."""
        ended = waits.for_program(self.handle, timeout)
        if ended is None:
            return None
        CHILDREN.pop(self.number, None)
        # It may have set permission bits.
        modes.start()
        if isinstance(ended, process.Status_Exited):
            return ended.value << 8
        if isinstance(ended, process.Status_Killed):
            return int(self.signal)
        # It trapped or hit a limit: like a program that the system ends.
        return int(signal.SIGABRT if isinstance(ended, process.Status_Trapped) else signal.SIGKILL)


class Reopened:
    """A file that is the input or output of a program, kept open even if the script closes its own.

    While the script's file is open, that one is used, so that two programs that write to one file write one after another.
    """

    def __init__(self, number, file, flags):
        self.number, self.file, self.own = number, file, None
        name = getattr(file, "name", None)
        if isinstance(name, (str, bytes)):
            try:
                self.own = os.open(name, flags)
                self.follow()
            except OSError:
                pass

    def shared(self):
        return self.own is None or not self.file.closed

    def descriptor(self):
        return self.number if self.shared() else self.own

    def read(self, size):
        data = os.read(self.descriptor(), size)
        self.follow()
        return data

    def write(self, data):
        while data:
            data = data[os.write(self.descriptor(), data) :]
        self.follow()

    def follow(self):
        if self.own is not None and self.shared():
            os.lseek(self.own, os.lseek(self.number, 0, os.SEEK_CUR), os.SEEK_SET)

    def close(self):
        if self.own is not None:
            os.close(self.own)


def get_handles(self, stdin, stdout, stderr, *, get_handles=subprocess.Popen._get_handles):
    handles = get_handles(self, stdin, stdout, stderr)
    given = {}
    for number, file in ((handles[0], stdin), (handles[3], stdout), (handles[5], stderr)):
        if not isinstance(file, int | None):
            given[number] = file
    self._files = given
    return handles


def execute_child(
    self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
    p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
    restore_signals, gid, gids, uid, umask, start_new_session, process_group,
):  # fmt: skip
    if shell and isinstance(args, os.PathLike):
        raise TypeError("path-like args is not allowed when shell is true")
    if isinstance(args, (str, bytes, os.PathLike)):
        args = [args]
    args = [os.fsdecode(word) for word in args]
    if shell:
        args = ["/bin/sh", "-c", *args]
    if executable is not None:
        args[:1] = [os.fsdecode(executable)]
    sys.audit("subprocess.Popen", args[0], args, cwd, env)
    if not args:
        raise IndexError("list index out of range")
    if cwd is not None and not os.path.isdir(cwd):
        os.stat(cwd)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fsdecode(cwd))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    files, self._files = self._files, {}
    opened = []
    try:
        given = (given_input(p2cread, files, opened), given_output(c2pwrite, 1, files, opened))
        both = errwrite == (1 if c2pwrite == -1 else c2pwrite)
        errors = process.Output_ToStdout() if both else given_output(errwrite, 2, files, opened)
        child = spawn(args, env, cwd, *given, errors)
    except BaseException:
        for end, pump in opened:
            end.close()
            pump.stop()
        raise
    for end, _ in opened:
        end.close()
    self.pid, self._child_created = child.number, True
    self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)


def given_input(number, files, opened):
    end = pipes.TABLE.get(number)
    if number in (-1, 0):
        return process.Input_Inherit()
    if isinstance(end, pipes.Null):
        return process.Input_None_()
    if end is None:
        end, writer = pipes.new()
        opened.append((end, waits.Pump(write_end=writer, file=Reopened(number, files.get(number), os.O_RDONLY))))
    if not isinstance(end, pipes.ReadEnd):
        raise pipes.failure(errno.EBADF)
    return process.Input_From(end.handle)


def given_output(number, own, files, opened):
    end = pipes.TABLE.get(number)
    if number in (-1, own):
        return process.Output_Inherit()
    if isinstance(end, pipes.Null):
        return process.Output_None_()
    if end is None:
        reader, end = pipes.new()
        opened.append((end, waits.Pump(read_end=reader, file=Reopened(number, files.get(number), os.O_WRONLY))))
    if not isinstance(end, pipes.WriteEnd):
        raise pipes.failure(errno.EBADF)
    return process.Output_To(end.handle)


def spawn(args, env, cwd, stdin, stdout, stderr):
    pairs = (VARIABLES if env is None else env).items()
    words = plain(*(word for pair in pairs for word in pair))
    names, values = words[::2], words[1::2]
    if any("=" in name for name in names):
        raise ValueError("illegal environment variable name")
    (where,) = plain(os.getcwd() if cwd is None else os.path.abspath(cwd))
    try:
        return Program(process.spawn(list(plain(*args)), list(zip(names, values)), where, stdin, stdout, stderr))
    except Err as refused:
        reason = refused.value
    error = pipes.meaning(reason)
    error.filename = args[0]
    raise error


def plain(*words):
    """Returns a text that every program can interpret: without surrogates, which stand for bytes, and without NUL."""
    decoded = [word if type(word) is str else os.fsdecode(word) for word in words]
    text = "\0".join(decoded)
    text.encode()
    if decoded and text.count("\0") >= len(decoded):
        raise ValueError("embedded null byte")
    return decoded


def get_devnull(self):
    if not hasattr(self, "_devnull"):
        self._devnull = pipes.add(pipes.Null())
    return self._devnull


def wait(self, timeout):
    if self.returncode is None:
        child = CHILDREN.get(self.pid)
        status = child.wait(timeout) if child is not None else 0
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        if self.returncode is None:
            self._handle_exitstatus(status)
    return self.returncode


def waitpid(pid, options):
    if pid > 0:
        child = CHILDREN.get(pid)
        if child is None:
            raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
        status = child.wait(0 if options & os.WNOHANG else None)
        return (0, 0) if status is None else (pid, status)
    while CHILDREN:
        for child in list(CHILDREN.values()):
            status = child.wait(0)
            if status is not None:
                return child.number, status
        if options & os.WNOHANG:
            return 0, 0
        time.sleep(0.01)
    raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))


def kill(pid, number):
    child = CHILDREN.get(pid)
    if child is None:
        return system.kill(pid, number)
    if number and number not in HARMLESS and child.handle.wait(0) is None:
        child.signal = number
        child.handle.kill()


def call_system(command):
    done = subprocess.Popen(command, shell=True)
    code = done.wait()
    return code << 8 if code >= 0 else -code


def execute(file, args, env=None):
    """Implements `os.exec*`: runs another program in place of this one, which waits for it."""
    if not args or not args[0]:
        raise ValueError("exec: the arguments, and the first of them, must not be empty")
    raise system.Exit(subprocess.Popen([os.fsdecode(word) for word in args], executable=file, env=env).wait() & 0xFF)


def exec_functions():
    os.execv = os.execvp = execute
    os.execve = os.execvpe = execute
    os.execl = os.execlp = lambda file, *args: execute(file, args)
    os.execle = os.execlpe = lambda file, *args: execute(file, args[:-1], args[-1])


def spawnve(mode, file, args, env=None):
    if mode not in (os.P_WAIT, os.P_NOWAIT):
        raise ValueError(f"mode {mode} is not P_WAIT or P_NOWAIT")
    if not args or not args[0]:
        raise ValueError("spawn: the arguments, and the first of them, must not be empty")
    child = subprocess.Popen([os.fsdecode(word) for word in args], executable=file, env=env)
    if mode == os.P_WAIT:
        return child.wait()
    # A caller that has only the number waits with `os.waitpid`.
    child.returncode = 0
    return child.pid


def spawn_functions():
    os.P_WAIT, os.P_NOWAIT = 0, 1
    os.spawnve = os.spawnvpe = spawnve
    os.spawnv = os.spawnvp = lambda mode, file, args: spawnve(mode, file, args)
    os.spawnl = os.spawnlp = lambda mode, file, *args: spawnve(mode, file, args)
    os.spawnle = os.spawnlpe = lambda mode, file, *args: spawnve(mode, file, args[:-1], args[-1])


def statuses():
    os.WNOHANG, os.WUNTRACED, os.WCONTINUED = 1, 2, 8
    os.WIFEXITED = lambda status: status & 0x7F == 0
    os.WEXITSTATUS = lambda status: status >> 8 & 0xFF
    os.WIFSIGNALED = lambda status: status & 0x7F != 0
    os.WTERMSIG = lambda status: status & 0x7F
    os.WIFSTOPPED = os.WIFCONTINUED = os.WCOREDUMP = lambda status: False
    os.WSTOPSIG = lambda status: 0
    os.waitstatus_to_exitcode = lambda status: -(status & 0x7F) or status >> 8
    os.waitpid = waitpid
    os.wait = lambda: waitpid(-1, 0)


class Selector(selectors._BaseSelectorImpl):
    """Implements `selectors.DefaultSelector`. It waits for pipes; everything else is always ready, as files are."""

    def subjects(self):
        """Returns the registered objects as (end, key) in three lists: to read, to write, and always ready."""
        readers, writers, others = [], [], []
        for key in self._fd_to_key.values():
            end = pipes.TABLE.get(key.fd)
            if isinstance(end, pipes.ReadEnd):
                readers += [(end, key)] * bool(key.events & selectors.EVENT_READ)
            elif isinstance(end, pipes.WriteEnd):
                # asyncio waits for a write end to become readable, to learn that the reader is gone. Here it learns that when it writes.
                writers += [(end, key)] * bool(key.events & selectors.EVENT_WRITE)
            else:
                others.append((end, key))
        return readers, writers, others

    def select(self, timeout=None):
        readers, writers, others = self.subjects()
        timeout = 0 if others else timeout if timeout is None else max(0, timeout)
        filled, emptied = waits.ready([end for end, _ in readers], [end for end, _ in writers], timeout)
        found = [(key, selectors.EVENT_READ) for end, key in readers if end in filled]
        found += [(key, selectors.EVENT_WRITE) for end, key in writers if end in emptied]
        return found + [(key, key.events) for _, key in others]


def select_select(rlist, wlist, xlist, timeout=None, *, select=select.select):
    """Implements `select.select` with pipes: see `Selector`."""
    numbers = [file if isinstance(file, int) else file.fileno() for file in [*rlist, *wlist]]
    if not any(number >= pipes.FIRST for number in numbers):
        return select(rlist, wlist, xlist, timeout)
    with Selector() as selector:
        for files, event in ((rlist, selectors.EVENT_READ), (wlist, selectors.EVENT_WRITE)):
            for file in files:
                selector.register(file, event)
        found = selector.select(timeout)
    return *([key.fileobj for key, events in found if events & event] for event in (selectors.EVENT_READ, selectors.EVENT_WRITE)), []


def install():
    pipes.install()
    waits.install()
    statuses()
    exec_functions()
    spawn_functions()
    os.kill = os.killpg = kill
    os.getpgid = os.getsid = lambda pid=0: pid if pid in CHILDREN else os.getpid()
    # Programs of a sandbox have no groups or sessions.
    os.setsid = os.setpgrp = lambda: None
    os.setpgid = lambda pid, group: None
    os.system = call_system
    select.select = select_select
    selectors.DefaultSelector = subprocess._PopenSelector = Selector
    selectors.SelectSelector._select = staticmethod(select_select)
    subprocess.io = pipes.IO
    subprocess._can_fork_exec = True
    subprocess._PIPE_BUF = pipes.PIECE
    safe = subprocess._del_safe
    safe.waitpid, safe.waitstatus_to_exitcode, safe.ECHILD = waitpid, os.waitstatus_to_exitcode, errno.ECHILD
    safe.WIFSTOPPED, safe.WSTOPSIG, safe.WNOHANG = os.WIFSTOPPED, os.WSTOPSIG, os.WNOHANG
    popen = subprocess.Popen
    popen._get_handles, popen._execute_child, popen._get_devnull, popen._wait = get_handles, execute_child, get_devnull, wait
