"""Threads without threads: each runs to its end while another one waits for something, on the stack of the waiting thread.

A started thread does not run before that. A consumer may therefore be started before its producer, and a spinner before the work that it
decorates. If a thread could only be continued by a thread below it on the stack, it cannot be suspended: the program then gets an error
at once, instead of hanging.
"""

import queue
import sys
import threading
import time
from _thread import allocate_lock

READY = []
# The running threads, the innermost last, without the main thread.
RUNNING = []
# The end times of the current sleeps, the innermost last.
SLEEPS = []

wait_really = time.sleep


class WouldHang(RuntimeError):
    """Raised in the main thread if nothing is left that could end the wait."""

    __module__ = "threading"


class Parked(BaseException):
    """Raised in any other thread: it unwinds and counts as waiting forever."""


def stuck(what):
    thread = threading.current_thread()
    message = (
        f"{what} would never return: threads take turns here, each runs to its end when another waits, and none is left that could end "
        "this wait. "
        "Fill the queue before its consumer waits, or call the function without a thread."
    )
    if RUNNING:
        thread._waits_for = what
        return Parked(message)
    return WouldHang(message)


def run_one():
    """Runs the thread that has been ready for longest. Returns False if there is none."""
    if not READY:
        return False
    run(READY.pop(0))
    return True


def run(thread):
    RUNNING.append(thread)
    threading._active[thread._ident] = thread
    try:
        thread.run()
    except Parked:
        return
    except SystemExit:
        # It ends only the thread.
        pass
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), thread)))
    finally:
        RUNNING.pop()
        threading._active.pop(thread._ident, None)
    thread._ended = True


def start(self):
    if not self._initialized:
        raise RuntimeError("thread.__init__() not called")
    if self._started.is_set():
        raise RuntimeError("threads can only be started once")
    start.count += 1
    self._ident = self._native_id = 1000 + start.count
    self._ended = False
    self._started.set()
    READY.append(self)


start.count = 0


def join(self, timeout=None):
    if not self._started.is_set():
        raise RuntimeError("cannot join thread before it is started")
    if self is threading.current_thread():
        raise RuntimeError("cannot join current thread")
    if self in READY:
        READY.remove(self)
        run(self)
    while not self._ended and run_one():
        pass
    if not self._ended:
        if timeout is None:
            raise stuck(f"joining thread {self.name!r}, which has stopped at {getattr(self, '_waits_for', 'another thread')},")
        wait_really(max(0, timeout))


def is_alive(self):
    # A thread that polls in a loop waits for it.
    if self in READY:
        READY.remove(self)
        run(self)
    return self._started.is_set() and not getattr(self, "_ended", True)


def current_thread():
    return RUNNING[-1] if RUNNING else threading.main_thread()


def get_ident():
    return RUNNING[-1]._ident if RUNNING else threading.main_thread()._ident


def wait(self, timeout=None):
    """Implements `Condition.wait`, on which queues, events, semaphores, barriers and futures are based."""
    if not self._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    waiter = allocate_lock()
    waiter.acquire()
    self._waiters.append(waiter)
    saved = self._release_save()
    told = False
    try:
        while not (told := waiter.acquire(False)) and run_one():
            pass
        if not told and timeout is not None:
            wait_really(max(0, timeout))
            told = waiter.acquire(False)
        elif not told:
            raise stuck(f"waiting for {waiting_for(self)}")
    finally:
        self._acquire_restore(saved)
        if not told:
            try:
                self._waiters.remove(waiter)
            except ValueError:
                pass
    return told


def waiting_for(condition):
    """Returns the object that a condition belongs to, from the frame that waits for it."""
    owner = sys._getframe(2).f_locals.get("self")
    return type(owner).__name__ if owner is not None and owner is not condition else "a condition"


def put(self, item, block=True, timeout=None, *, put=queue.Queue.put):
    """A full queue accepts one more item, because its consumer cannot be suspended again after it has emptied the queue. The bound only
    limits memory.
    """
    if not block or timeout is not None:
        return put(self, item, block, timeout)
    bound, self.maxsize = self.maxsize, 0
    try:
        put(self, item)
    finally:
        self.maxsize = bound


def sleep(seconds):
    """Other threads run during a sleep. A daemon thread ends in its sleep when the program ends."""
    if RUNNING and RUNNING[-1].daemon and SLEEPS and time.monotonic() + seconds > SLEEPS[-1]:
        raise stuck("a daemon thread's sleep")
    until = time.monotonic() + seconds
    if READY:
        SLEEPS.append(until)
        try:
            while run_one():
                pass
        finally:
            SLEEPS.pop()
        seconds = max(0, until - time.monotonic())
    wait_really(seconds)


def shutdown():
    """At the end of the program, runs all threads that are not daemons to their end."""
    while READY and any(not thread.daemon for thread in READY):
        thread = next(thread for thread in READY if not thread.daemon)
        READY.remove(thread)
        run(thread)
    calls = threading._threading_atexits
    if calls == EXECUTORS and not threads._threads_queues.data and not processes._threads_wakeups.data:
        # What those calls do if no executor was used.
        threads._shutdown = processes._global_shutdown = True
        return
    for call in reversed(calls):
        call()


# The function that the library itself registers: it ends executors.
EXECUTORS = []


def start_new_thread(function, args, kwargs={}):
    thread = threading.Thread(target=function, args=args, kwargs=kwargs, daemon=True)
    thread.start()
    return thread._ident


class Lock:
    """Implements `threading.Lock`. A lock held by a thread further down the stack cannot be released while this one waits."""

    def __init__(self):
        self._held = False

    def acquire(self, blocking=True, timeout=-1):
        if self._held and blocking:
            while self._held and run_one():
                pass
            if self._held and timeout is not None and timeout >= 0:
                wait_really(timeout)
            elif self._held:
                raise stuck("acquiring a lock")
        if self._held:
            return False
        self._held = True
        return True

    def release(self):
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self):
        return self._held

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    acquire_lock, release_lock, locked_lock = acquire, release, locked


def install():
    global processes, threads
    from concurrent.futures import process as processes
    from concurrent.futures import thread as threads
    from inspect import getclosurevars

    EXECUTORS[:] = threading._threading_atexits
    assert {getclosurevars(call).nonlocals["func"] for call in EXECUTORS} == {processes._python_exit, threads._python_exit}
    threading.Thread.start = start
    threading.Thread.join = join
    threading.Thread.is_alive = is_alive
    threading.Thread.ident = property(lambda self: self._ident)
    threading.current_thread = threading.currentThread = current_thread
    threading.get_ident = threading.get_native_id = get_ident
    threading.Condition.wait = wait
    threading.Lock = threading._allocate_lock = Lock
    threading.RLock = threading._PyRLock
    threading._shutdown = shutdown
    threading._start_new_thread = start_new_thread
    queue.Queue.put = put
    queue.SimpleQueue = queue._PySimpleQueue
    time.sleep = sleep
