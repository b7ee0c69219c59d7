"""asyncio's transports over `sockets`, on which `asyncio.open_connection` is based. While one waits for a response, other tasks continue."""

import asyncio

from . import web


def opened(loop, connection, protocol):
    """Returns (transport, protocol), like `loop.create_connection`."""
    transport = Transport(loop, connection, protocol)
    protocol.connection_made(transport)
    return transport, protocol


class Transport(asyncio.Transport):
    def __init__(self, loop, connection, protocol):
        super().__init__({"socket": connection, "peername": connection.getpeername(), "sockname": connection.getsockname()})
        self._loop, self._connection, self._protocol = loop, connection, protocol
        self._reader, self._closing = None, False
        self._may_read = asyncio.Event()
        self._may_read.set()

    def write(self, data):
        if self._closing:
            return
        try:
            self._connection.sendall(data)
        except OSError as error:
            self._end(error)
            return
        if self._connection.can_be_answered() and (self._reader is None or self._reader.done()):
            self._reader = self._loop.create_task(self._read())

    async def _read(self):
        connection = self._connection
        try:
            connection.begin_reading()
            while not self._closing:
                await self._may_read.wait()
                piece = connection.recv_now(web.PIECE)
                if piece is None:
                    await self._loop.ready(connection.subject())
                elif piece:
                    self._protocol.data_received(piece)
                else:
                    if not self._protocol.eof_received():
                        self.close()
                    return
        except OSError as error:
            self._end(error)

    def _end(self, error):
        if not self._closing:
            self._closing = True
            self._connection.close()
            self._loop.call_soon(self._protocol.connection_lost, error)

    def close(self):
        if self._reader is not None and self._reader is not asyncio.current_task(self._loop):
            self._reader.cancel()
        self._end(None)

    abort = close

    def is_closing(self):
        return self._closing

    def is_reading(self):
        return self._may_read.is_set()

    def pause_reading(self):
        self._may_read.clear()

    def resume_reading(self):
        self._may_read.set()

    def can_write_eof(self):
        return True

    def write_eof(self):
        # The head has the length of the request.
        pass

    def get_protocol(self):
        return self._protocol

    def set_protocol(self, protocol):
        self._protocol = protocol

    def get_write_buffer_size(self):
        return 0

    def set_write_buffer_limits(self, high=None, low=None):
        pass
