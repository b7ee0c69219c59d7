"""Pools and processes, which elsewhere only serve speed. The work is done when it is submitted, with the same results."""

import concurrent.futures
import concurrent.futures.process
import concurrent.futures.thread
import itertools
import queue
import threading
import types


class Executor(concurrent.futures.Executor):
    """Implements `ThreadPoolExecutor` and `ProcessPoolExecutor`."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=(), **_):
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._max_workers = max_workers or 1
        self._closed = False
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn, /, *args, **kwargs):
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self._closed = True


class Result:
    """Implements `multiprocessing.pool.AsyncResult`."""

    def __init__(self, work, callback=None, error_callback=None):
        self._value = self._error = None
        try:
            self._value = work()
        except Exception as error:
            self._error = error
        tell = callback if self._error is None else error_callback
        if tell is not None:
            tell(self._value if self._error is None else self._error)

    def get(self, timeout=None):
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout=None):
        pass

    def ready(self):
        return True

    def successful(self):
        return self._error is None


class Pool:
    """Implements `multiprocessing.Pool` and `multiprocessing.pool.ThreadPool`."""

    def __init__(self, processes=None, initializer=None, initargs=(), maxtasksperchild=None, context=None):
        self._closed = False
        if initializer is not None:
            initializer(*initargs)

    def _check(self):
        if self._closed:
            raise ValueError("Pool not running")

    def apply(self, func, args=(), kwds={}):
        self._check()
        return func(*args, **kwds)

    def apply_async(self, func, args=(), kwds={}, callback=None, error_callback=None):
        self._check()
        return Result(lambda: func(*args, **kwds), callback, error_callback)

    def map(self, func, iterable, chunksize=None):
        self._check()
        return [func(item) for item in iterable]

    def map_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        self._check()
        return Result(lambda: [func(item) for item in iterable], callback, error_callback)

    def starmap(self, func, iterable, chunksize=None):
        self._check()
        return list(itertools.starmap(func, iterable))

    def starmap_async(self, func, iterable, chunksize=None, callback=None, error_callback=None):
        self._check()
        return Result(lambda: list(itertools.starmap(func, iterable)), callback, error_callback)

    def imap(self, func, iterable, chunksize=1):
        self._check()
        return map(func, iterable)

    imap_unordered = imap

    def close(self):
        self._closed = True

    terminate = close

    def join(self):
        if not self._closed:
            raise ValueError("Pool is still running")

    def __enter__(self):
        self._check()
        return self

    def __exit__(self, *_):
        self.terminate()


class Process(threading.Thread):
    """Implements `multiprocessing.Process` as a thread of this program. Unlike a process, it shares its variables."""

    exitcode = None

    def run(self):
        self.exitcode = 1
        try:
            super().run()
            self.exitcode = 0
        except SystemExit as stop:
            self.exitcode = stop.code if isinstance(stop.code, int) else int(stop.code is not None)

    @property
    def pid(self):
        return self.ident

    def terminate(self):
        pass

    kill = close = terminate


def install():
    for module in (concurrent.futures, concurrent.futures.thread):
        module.ThreadPoolExecutor = Executor
    concurrent.futures.ProcessPoolExecutor = concurrent.futures.process.ProcessPoolExecutor = Executor
    multiprocessing()


def multiprocessing():
    import multiprocessing
    import multiprocessing.context
    import multiprocessing.dummy
    import multiprocessing.pool

    ours = {
        "Pool": Pool, "Process": Process, "Queue": queue.Queue, "JoinableQueue": queue.Queue, "SimpleQueue": queue.SimpleQueue,
        "Lock": threading.Lock, "RLock": threading.RLock, "Event": threading.Event, "Condition": threading.Condition,
        "Semaphore": threading.Semaphore, "BoundedSemaphore": threading.BoundedSemaphore, "Barrier": threading.Barrier,
        "Manager": multiprocessing.dummy.Manager, "Value": multiprocessing.dummy.Value, "Array": multiprocessing.dummy.Array,
        "cpu_count": lambda: 1, "current_process": threading.current_thread, "active_children": list, "freeze_support": lambda: None,
    }  # fmt: skip
    context = types.SimpleNamespace(**ours)
    ours["get_context"] = lambda method=None: context
    ours["set_start_method"] = lambda method, force=False: None
    ours["get_start_method"] = lambda allow_none=False: "spawn"
    vars(context).update(ours)
    vars(multiprocessing).update(ours)
    multiprocessing.pool.Pool = multiprocessing.pool.ThreadPool = multiprocessing.dummy.Pool = Pool
    multiprocessing.process.current_process = threading.current_thread
