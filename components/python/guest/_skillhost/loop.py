"""asyncio's event loop: that for Unix, on top of everything that can be awaited here: time, pipes, programs and responses to HTTP requests."""

import asyncio
import asyncio.runners
import asyncio.unix_events
import errno
import time

from . import programs, sockets, streams, threads, waits, web

# No wait covers all kinds of events, so the kinds take turns.
TURN = 0.005


class Selector(programs.Selector):
    def __init__(self):
        super().__init__()
        # Maps process numbers to the callbacks that receive the exit code.
        self.children = {}
        # Pairs of a resource of `wasi:http` and a future.
        self.requests = []

    def select(self, timeout=None):
        until = None if timeout is None else time.monotonic() + max(0, timeout)
        while True:
            left = None if until is None else max(0, until - time.monotonic())
            kinds = [(self.pipes, any(self.subjects())), (self.answers, self.requests), (self.exits, self.children)]
            kinds = [kind for kind, there in kinds if there]
            if not kinds:
                self.nothing(left)
                return []
            piece = left if len(kinds) == 1 else TURN if left is None else min(TURN, left)
            for kind in kinds:
                found = kind(piece)
                if found is not None:
                    return found
            if left == 0:
                return []

    def nothing(self, left):
        if left is None and not threads.run_one():
            raise threads.WouldHang(
                "the event loop waits for something that can no longer happen: no timer, task, thread or program is left that could go on"
            )
        if left:
            time.sleep(left)

    def pipes(self, timeout):
        return super().select(timeout) or None

    def answers(self, timeout):
        self.requests = [(subject, future) for subject, future in self.requests if not future.done()]
        if not self.requests:
            return []
        try:
            ready = web.wait([subject for subject, _ in self.requests], timeout)
        except web.Timeout:
            return None
        for index in ready:
            _, future = self.requests[index]
            future.set_result(None)
        self.requests = [(subject, future) for subject, future in self.requests if not future.done()]
        return []

    def exits(self, timeout):
        for number in list(self.children):
            child = programs.CHILDREN.get(number)
            status = child.wait(timeout if len(self.children) == 1 else 0) if child is not None else 0
            if status is not None:
                callback, args = self.children.pop(number)
                callback(number, programs.os.waitstatus_to_exitcode(status), *args)
                return []
        if len(self.children) > 1:
            waits.sleep(TURN if timeout is None else min(TURN, timeout))
        return None


class Watcher:
    """Implements the loop's interface for started programs."""

    def __init__(self, selector):
        self._selector = selector

    def add_child_handler(self, pid, callback, *args):
        self._selector.children[pid] = callback, args

    def close(self):
        pass


def refused(*args, **kwargs):
    raise PermissionError(errno.EACCES, "only HTTP leaves the sandbox: use urllib.request, http.client, requests or httpx")


async def refused_later(*args, **kwargs):
    refused()


class Loop(asyncio.unix_events._UnixSelectorEventLoop):
    def __init__(self, selector=None):
        super().__init__(Selector())
        self._watcher = Watcher(self._selector)

    def ready(self, subject):
        """Returns a future that is done when a resource of `wasi:http` is ready."""
        future = self.create_future()
        self._selector.requests.append((subject, future))
        return future

    def _make_self_pipe(self):
        # The loop never sleeps while another thread runs, so it never has to be woken.
        self._ssock = self._csock = None

    def _close_self_pipe(self):
        pass

    def _write_to_self(self):
        pass

    def run_in_executor(self, executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, number, callback, *args):
        # Signals never arrive, so installing a handler is harmless.
        pass

    def remove_signal_handler(self, number):
        return False

    async def create_connection(self, protocol_factory, host=None, port=None, *, ssl=None, sock=None, server_hostname=None, **_):
        if sock is None:
            sock = sockets.socket()
            sock.connect((host, port))
        if ssl:
            sock._start_tls(server_hostname or host)
        return streams.opened(self, sock, protocol_factory())

    async def start_tls(self, transport, protocol, sslcontext, *, server_hostname=None, **_):
        transport.get_extra_info("socket")._start_tls(server_hostname)
        return transport

    create_server = create_datagram_endpoint = create_unix_connection = create_unix_server = refused_later


def install():
    asyncio.EventLoop = asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = asyncio.unix_events.EventLoop = Loop
    asyncio.unix_events._DefaultEventLoopPolicy._loop_factory = Loop
