"""Waiting for pipes and programs, and the work to do meanwhile.

A file of this program cannot be passed to another one: its bytes are copied (`Pump`) whenever this program waits. A started thread that
has not run yet may be what the wait depends on, so it runs first. A reader further down the stack cannot continue before everything on
top of it has ended; its pipe is emptied into a backlog, because otherwise the program that fills it would block.
"""

import math
import time

from wit_world.imports import process

from . import pipes, system, threads

PUMPS = []
# The read ends for which waits further down the stack are waiting.
BELOW = []
LONGEST = (1 << 32) - 1
sleep_really = time.sleep


class Pump:
    """Copies a file to a program's standard input, or a program's output to a file."""

    def __init__(self, read_end=None, write_end=None, file=None):
        self.read_end, self.write_end, self.file = read_end, write_end, file
        self.rest = b""
        PUMPS.append(self)

    def carry(self):
        """Copies one piece, if the pipe is ready."""
        try:
            if self.read_end is not None:
                piece = self.read_end.take(pipes.PIECE)
                if piece:
                    return self.file.write(piece)
            else:
                self.rest = self.rest or self.file.read(pipes.PIECE)
                if self.rest:
                    self.rest = self.rest[self.write_end.give(self.rest) :]
                    return None
        except OSError:
            # The reader is gone, or the file is full: the program's pipe is closed, and the program handles that or ends.
            pass
        self.stop()
        return None

    def stop(self):
        PUMPS.remove(self)
        (self.read_end or self.write_end).close()
        self.file.close()


def milliseconds(seconds):
    return None if seconds is None else min(LONGEST, max(0, math.ceil(seconds * 1000)))


def for_reading(end):
    if not end.blocking:
        if not ready([end], [], 0)[0]:
            raise BlockingIOError(pipes.errno.EAGAIN, pipes.os.strerror(pipes.errno.EAGAIN))
    elif PUMPS or BELOW or threads.READY:
        ready([end], [], None)


def for_writing(end):
    if not end.blocking:
        if not ready([], [end], 0)[1]:
            raise BlockingIOError(pipes.errno.EAGAIN, pipes.os.strerror(pipes.errno.EAGAIN))
    elif PUMPS or BELOW or threads.READY:
        ready([], [end], None)


def ready(readers, writers, timeout):
    """Waits until an end is ready or the timeout (in seconds, or None) passes. Returns the ready ends."""
    until = None if timeout is None else time.monotonic() + timeout
    while True:
        left = None if until is None else max(0, until - time.monotonic())
        found = turn(readers, writers, 0 if threads.READY else left)
        if any(found):
            return found
        if threads.READY:
            BELOW.extend(readers)
            try:
                threads.run_one()
            finally:
                del BELOW[len(BELOW) - len(readers) :]
        elif left is not None and time.monotonic() >= until:
            return [], []


def turn(readers, writers, timeout):
    """Waits once, and serves pumps and backlogs."""
    full = [end for end in readers if end.waiting()]
    if full:
        return full, []
    sources = [pump for pump in PUMPS if pump.read_end is not None]
    sinks = [pump for pump in PUMPS if pump.write_end is not None]
    # A writer whose readers have not run yet depends on what they would read.
    starved = others(readers) if BELOW or (writers and threads.READY) else []
    wait_for = [*readers, *(pump.read_end for pump in sources), *starved]
    give_to = [*writers, *(pump.write_end for pump in sinks)]
    if not wait_for and not give_to:
        sleep_really(timeout or 0)
        return [], []
    filled, emptied = process.poll([end.handle for end in wait_for], [end.handle for end in give_to], milliseconds(timeout))
    for index in filled:
        at = index - len(readers)
        if at >= len(sources):
            starved[at - len(sources)].backlog += starved[at - len(sources)].take(pipes.PIECE)
        elif at >= 0:
            sources[at].carry()
    for index in emptied:
        if index >= len(writers):
            sinks[index - len(writers)].carry()
    return [readers[i] for i in filled if i < len(readers)], [writers[i] for i in emptied if i < len(writers)]


def others(readers):
    """Returns every open read end that something else may be waiting for."""
    pumped = [pump.read_end for pump in PUMPS]
    mine = [*readers, *pumped]
    ends = {id(end): end for end in [*BELOW, *pipes.TABLE.values()] if isinstance(end, pipes.ReadEnd)}
    return [end for end in ends.values() if end.handle is not None and not end.ended and end not in mine]


def sleep(seconds):
    """Implements `time.sleep` for a program that has started others."""
    start = time.monotonic()
    until = start + seconds
    while PUMPS and (left := until - time.monotonic()) > 0:
        turn([], [], left)
    sleep_really(max(0, until - time.monotonic()))
    system.IDLE += time.monotonic() - start


def for_program(child, timeout):
    """Returns a program's status, or None if the timeout passes first."""
    until = None if timeout is None else time.monotonic() + timeout
    while threads.run_one():
        pass
    while PUMPS or BELOW:
        status = child.wait(0)
        left = None if until is None else until - time.monotonic()
        if status is None and (left is None or left > 0):
            # The end of a program cannot be polled together with pipes.
            turn([], [], 0.02 if left is None else min(0.02, left))
            continue
        settle()
        return status
    return child.wait(milliseconds(None if until is None else until - time.monotonic()))


def settle():
    """Reads what a program that has ended left in its pipes."""
    while any(pump.read_end is not None for pump in PUMPS):
        sources = [pump for pump in PUMPS if pump.read_end is not None]
        filled, _ = process.poll([pump.read_end.handle for pump in sources], [], 0)
        if not filled:
            return
        for index in filled:
            sources[index].carry()


def finish():
    """At the end of this program, finishes all copying."""
    while PUMPS:
        turn([], [], None)


def install():
    threads.wait_really = sleep
