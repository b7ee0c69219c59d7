"""asyncio's event loop where there are no sockets to wait for: only time passes."""

import asyncio
import asyncio.base_events
import asyncio.runners
import asyncio.unix_events
import time

from . import threads


class NoSockets:
    """What the loop asks for events. There are none, and it sleeps until its next timer."""

    def select(self, timeout=None):
        if timeout is None:
            if not threads.run_one():
                raise threads.WouldHang(
                    "the event loop waits for something that can no longer happen: no timer, task or thread is left that could go on"
                )
        elif timeout > 0:
            time.sleep(timeout)
        return []

    def get_map(self):
        return {}


class Loop(asyncio.base_events.BaseEventLoop):
    def __init__(self):
        super().__init__()
        self._selector = NoSockets()

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        # Nothing sleeps while another thread runs, so nothing needs to be woken.
        pass

    def run_in_executor(self, executor, func, *args):
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, number, callback, *args):
        # No signal ever comes, so that a handler for one may as well be there.
        pass

    def remove_signal_handler(self, number):
        return False


def install():
    asyncio.EventLoop = asyncio.SelectorEventLoop = asyncio.unix_events.SelectorEventLoop = asyncio.unix_events.EventLoop = Loop
    asyncio.unix_events._DefaultEventLoopPolicy._loop_factory = Loop
