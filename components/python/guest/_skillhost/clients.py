"""Gives HTTP clients above `sockets` their own exceptions for requests that never reached a connection.

Natively, `connect` raises these. Here the host connects when it has the whole request, and reports errors when the response is read.
This module corrects the class of the exception there: at once for `urllib.request`, and for packages when they are imported.
"""

import asyncio
import functools
import socket
import sys
import urllib.error
import urllib.request
from importlib.machinery import PathFinder

from . import sockets, web


def unconnected(error):
    return getattr(error, "unconnected", False)


def urllib_():
    handler = urllib.request.AbstractHTTPHandler
    original = handler.do_open

    @functools.wraps(original)
    def do_open(self, http_class, req, **http_conn_args):
        try:
            return original(self, http_class, req, **http_conn_args)
        except OSError as error:
            if unconnected(error):
                raise urllib.error.URLError(error) from None
            raise

    handler.do_open = do_open


def urllib3(module):
    from urllib3 import exceptions

    def told(method):
        @functools.wraps(method)
        def called(self, *args, **kwargs):
            try:
                return method(self, *args, **kwargs)
            except OSError as error:
                if not unconnected(error) or isinstance(error, module.ssl.SSLError):
                    raise
                failed = error
            if isinstance(failed, socket.gaierror):
                raise exceptions.NameResolutionError(self.host, self, failed) from failed
            if isinstance(failed, TimeoutError):
                raise exceptions.ConnectTimeoutError(self, f"Connection to {self.host} timed out.") from failed
            raise exceptions.NewConnectionError(self, f"Failed to establish a new connection: {failed}") from failed

        return called

    for name in ("request", "getresponse"):
        setattr(module.HTTPConnection, name, told(getattr(module.HTTPConnection, name)))


def httpcore_exceptions(kind, work):
    """Runs `work` and converts its errors to httpcore's `kind` of error, or to that for connecting."""
    import httpcore

    try:
        return work()
    except TimeoutError as error:
        name, cause = "ConnectTimeout" if unconnected(error) else f"{kind}Timeout", error
    except OSError as error:
        name, cause = "ConnectError" if unconnected(error) else f"{kind}Error", error
    raise getattr(httpcore, name)(str(cause)) from cause


def info(connection, name):
    values = {"client_addr": connection.getsockname, "server_addr": connection.getpeername, "socket": lambda: connection}
    return values[name]() if name in values else False if name == "is_readable" else None


def connect(host, port, timeout):
    connection = sockets.socket()
    connection.settimeout(timeout)
    connection.connect((host, port))
    return connection


class Stream:
    """Implements `httpcore.NetworkStream`."""

    def __init__(self, connection):
        self._connection = connection

    def read(self, max_bytes, timeout=None):
        self._connection.settimeout(timeout)
        return httpcore_exceptions("Read", lambda: self._connection.recv(max_bytes))

    def write(self, buffer, timeout=None):
        self._connection.settimeout(timeout)
        httpcore_exceptions("Write", lambda: self._connection.sendall(buffer))

    def close(self):
        self._connection.close()

    def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        self._connection._start_tls(server_hostname)
        return self

    def get_extra_info(self, info_name):
        return info(self._connection, info_name)


class Backend:
    """Implements `httpcore.NetworkBackend`."""

    def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        return Stream(connect(host, port, timeout))

    def connect_unix_socket(self, path, timeout=None, socket_options=None):
        raise OSError("a sandbox has no sockets of the system")

    def sleep(self, seconds):
        sys.modules["time"].sleep(seconds)


class AsyncStream(Stream):
    """Implements `httpcore.AsyncNetworkStream`. While it waits for a response, other tasks of the loop continue."""

    async def read(self, max_bytes, timeout=None):
        connection = self._connection
        connection.settimeout(timeout)
        begun = httpcore_exceptions("Read", connection.begin_reading)
        loop = asyncio.get_running_loop()
        while (piece := httpcore_exceptions("Read", lambda: connection.recv_now(max_bytes))) is None:
            ready = loop.ready(connection.subject())
            if not begun:
                await ready
                continue
            try:
                await asyncio.wait_for(ready, timeout)
            except TimeoutError:
                httpcore_exceptions("Read", late)
        return piece

    async def write(self, buffer, timeout=None):
        super().write(buffer, timeout)

    async def aclose(self):
        self.close()

    async def start_tls(self, ssl_context, server_hostname=None, timeout=None):
        return super().start_tls(ssl_context, server_hostname, timeout)


def late():
    raise TimeoutError("timed out")


class AsyncBackend(Backend):
    """Implements `httpcore.AsyncNetworkBackend`."""

    async def connect_tcp(self, host, port, timeout=None, local_address=None, socket_options=None):
        return AsyncStream(connect(host, port, timeout))

    async def connect_unix_socket(self, path, timeout=None, socket_options=None):
        raise OSError("a sandbox has no sockets of the system")

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


def httpcore_sync(module):
    module.SyncBackend = Backend


def httpcore_auto(module):
    module.AutoBackend = AsyncBackend


HOOKS = {"urllib3.connection": urllib3, "httpcore._backends.sync": httpcore_sync, "httpcore._backends.auto": httpcore_auto}


class Hooks:
    """A finder that patches a few modules after the usual finders have found them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        mend = HOOKS.get(name)
        if mend is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                mend(module)

            spec.loader.exec_module = exec_module
        return spec


def install():
    urllib_()
    sys.meta_path.insert(0, Hooks)
