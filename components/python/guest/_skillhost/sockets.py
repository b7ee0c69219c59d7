"""A `socket` that supports only HTTP/1.1, so that all clients above it work unchanged.

It parses the request that a client writes and passes it to the host (`web`), then produces the host's response as HTTP/1.1 for the
client to read. A body of unknown length is written in chunks, so that each piece is passed on as it arrives. Nothing is sent before the
request is complete or its body longer than one piece: only then the client's timeout for the response is known. If the client then only
waits, one call of the host does everything.
"""

import errno
import io
import os
import socket as stdlib
import time

from . import names, web, wire


NO_LISTENING = "programs of a sandbox cannot listen for connections, not even for each other: pass data through pipes or files"


def refused(what):
    return PermissionError(errno.EACCES, what)


class socket:
    """A stream socket. `connect` only stores the address; see the module's documentation."""

    __module__ = "socket"

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        self.family = stdlib.AF_INET if family == -1 else family
        self.type = stdlib.SOCK_STREAM if type == -1 else type
        self.proto = 0 if proto == -1 else proto
        self.timeout = DEFAULT_TIMEOUT
        self._peer, self._tls, self._server_name = None, False, None
        self._request, self._exchange, self._answer = wire.Request(), None, None
        self._chunked, self._ended, self._failed = False, False, False
        self._replay, self._connect_timeout = memoryview(b""), None
        self._files, self._closed = 0, False

    # Settings and queries that have no meaning here.

    def settimeout(self, seconds):
        if seconds is not None and seconds < 0:
            raise ValueError("Timeout value out of range")
        self.timeout = seconds

    def gettimeout(self):
        return self.timeout

    def setblocking(self, blocking):
        self.timeout = None if blocking else 0.0

    def getblocking(self):
        return self.timeout != 0.0

    def setsockopt(self, *args):
        pass

    def getsockopt(self, level, name, size=0):
        return bytes(size) if size else self.type if name == getattr(stdlib, "SO_TYPE", 3) else 0

    def set_inheritable(self, inheritable):
        pass

    def fileno(self):
        return -1

    def getpeername(self):
        if self._peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer

    def getsockname(self):
        return ("127.0.0.1", 0)

    def shutdown(self, how):
        pass

    # Operations that a sandbox does not have.

    def bind(self, address):
        if address[1]:
            raise refused(NO_LISTENING)

    def listen(self, backlog=0):
        raise refused(NO_LISTENING)

    accept = listen

    def sendto(self, *args):
        raise refused("the sandbox allows only HTTP, no datagrams")

    recvfrom = recvmsg = sendmsg = sendto

    # The connection.

    def connect(self, address):
        if self.type & 15 != stdlib.SOCK_STREAM or self.family not in (stdlib.AF_INET, stdlib.AF_INET6):
            raise refused("the sandbox allows only HTTP: no datagrams, and no sockets of the system")
        self._peer, self._connect_timeout = address, self.timeout

    def connect_ex(self, address):
        try:
            self.connect(address)
        except OSError as error:
            return error.errno
        return 0

    def _start_tls(self, server_name):
        self._tls, self._server_name = True, server_name
        return self

    def _origin(self):
        host, port = self.getpeername()[:2]
        return self._tls, host.decode() if isinstance(host, bytes) else host, port

    def sendall(self, data, flags=0):
        if self._closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        view = memoryview(data).cast("B")
        for at in range(0, len(view), web.PIECE):
            self._take(bytes(view[at : at + web.PIECE]))

    def send(self, data, flags=0):
        self.sendall(data)
        return memoryview(data).nbytes

    def sendfile(self, file, offset=0, count=None):
        if offset:
            file.seek(offset)
        sent = 0
        while piece := file.read(web.PIECE if count is None else min(web.PIECE, count - sent)):
            self.sendall(piece)
            sent += len(piece)
        return sent

    def _take(self, data):
        if self._request.complete():
            if self._answer is None:
                raise OSError(errno.EPIPE, "the sandbox sends one request at a time")
            # The client has its response and sends another request.
            self._drop()
            self._request, self._answer, self._ended = wire.Request(), None, False
        self._request.feed(data)
        if len(self._request.body) > web.PIECE:
            self._start(None)
            self._pass_on()

    def _start(self, first_byte_timeout):
        if self._exchange is None:
            self._exchange = web.Exchange(*self._asked(), self._connect_timeout, first_byte_timeout)

    def _asked(self):
        """Returns the destination and the content of the request."""
        method, target, headers = self._request.head
        origin = self._origin()
        if method == "CONNECT":
            raise OSError(errno.EPROTONOSUPPORT, "no proxies in a sandbox: the host sends the requests itself")
        if "://" in target:
            where, _, path = target.partition("://")[2].partition("/")
            if where.rpartition("@")[2] not in (web.authority(origin), f"{origin[1]}:{origin[2]}"):
                raise OSError(errno.EPROTONOSUPPORT, "no proxies in a sandbox: the host sends the requests itself")
            target = "/" + path
        return origin, method, target, headers

    def _pass_on(self):
        body, self._request.body = self._request.body, bytearray()
        try:
            self._exchange.write(body, self.timeout)
        except web.Timeout:
            raise TimeoutError("timed out") from None

    def _finish_request(self):
        if self._request.head is None or not self._request.complete():
            raise OSError(errno.EPROTONOSUPPORT, "the sandbox allows only HTTP, in which the client sends first")
        self._start(self.timeout)
        if self._exchange.stream is not None:
            self._pass_on()
            self._exchange.end()

    def _can_ask(self):
        """Whether the request is complete and no part of it is sent."""
        return self._exchange is None and self._answer is None and self._request.complete() and not self._request.chunks

    def _ask(self):
        """Sends the request and waits for its response."""
        self._begin(lambda: web.send(*self._asked(), bytes(self._request.body), self._connect_timeout, self.timeout))

    def _answered(self):
        """Whether the response has begun."""
        self._begin(self._exchange.answer)
        return self._answer is not None

    def _begin(self, take):
        """Begins to read the response, if it has arrived."""
        # A failed request is not repeated.
        self._failed = True
        answer = self._answer = take()
        self._failed = False
        if answer is None:
            return
        method, _, _ = self._request.head
        bodiless = method == "HEAD" or answer.status in (204, 304)
        self._chunked = not bodiless and "content-length" not in dict(answer.headers)
        self._replay = memoryview(wire.head(answer.status, answer.headers, self._chunked))

    def recv_now(self, size):
        """Returns what can be read without waiting, or None."""
        if self._answer is None and not self._answered():
            return None
        if not self._replay:
            if self._ended:
                return b""
            try:
                piece = self._answer.read(web.PIECE if self._chunked else size)
            except web.ConnectionCut:
                # As natively: the connection ends before the client has received what the head or the chunks announced.
                self._drop()
                return b""
            if piece is None:
                return None
            if not piece:
                self._drop()
            self._replay = memoryview(b"%x\r\n%s\r\n" % (len(piece), piece) if self._chunked else piece)
        piece = bytes(self._replay[:size])
        self._replay = self._replay[size:]
        return piece

    def can_be_answered(self):
        """Whether a complete request has been written."""
        return self._request.complete()

    def begin_reading(self):
        """Sends the rest of the request. Returns whether the timeout has to be enforced here.

        The host waits for the response and distinguishes connecting from responding, unless the request was started before its timeout
        was known.
        """
        begun = self._answer is not None or self._exchange is not None
        if self._answer is None:
            self._finish_request()
        return begun

    def subject(self):
        """Returns the resource to wait for before `recv_now` returns more."""
        return self._exchange.future if self._answer is None else self._answer.subject()

    def recv(self, size, flags=0):
        if self._closed and not self._files:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._failed:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        if self._can_ask():
            self._ask()
        limit = self.timeout if self.begin_reading() else None
        until = None if limit is None else time.monotonic() + limit
        while (piece := self.recv_now(size)) is None:
            try:
                web.wait([self.subject()], None if until is None else max(0, until - time.monotonic()))
            except web.Timeout:
                raise TimeoutError("timed out") from None
        return piece

    def recv_into(self, buffer, size=0, flags=0):
        view = memoryview(buffer).cast("B")
        piece = self.recv(size or len(view))
        view[: len(piece)] = piece
        return len(piece)

    read, write = recv, send

    def makefile(self, mode="r", buffering=None, *, encoding=None, errors=None, newline=None):
        self._files += 1
        raw = File(self, mode)
        if buffering == 0:
            return raw
        size = io.DEFAULT_BUFFER_SIZE if buffering in (None, -1) else buffering
        if raw.readable() and raw.writable():
            binary = io.BufferedRWPair(raw, raw, size)
        else:
            binary = io.BufferedReader(raw, size) if raw.readable() else io.BufferedWriter(raw, size)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    def _drop(self):
        self._ended = True
        for held in (self._answer, self._exchange):
            if held is not None:
                held.close()
        self._exchange = None

    def _release(self):
        if self._closed and not self._files:
            if self._request.complete() and self._exchange is None and self._answer is None and not self._failed:
                # Nobody reads the response, but the request is sent anyway.
                self._files = 1
                try:
                    self.recv(1)
                except OSError:
                    pass
                self._files = 0
            self._drop()

    def close(self):
        if not self._closed:
            self._closed = True
            self._release()

    def detach(self):
        self.close()
        return -1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # The attributes that `ssl` adds to a socket.

    def getpeercert(self, binary_form=False):
        if binary_form:
            return b""
        _, host, _ = self._origin()
        return {"subject": ((("commonName", host),),), "subjectAltName": (("DNS", host),)}

    def version(self):
        return "TLSv1.3"

    def cipher(self):
        return ("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128)

    def selected_alpn_protocol(self):
        return None

    def do_handshake(self, block=False):
        pass

    def pending(self):
        return len(self._replay)

    def unwrap(self):
        return self


class File(io.RawIOBase):
    """Implements `makefile`."""

    def __init__(self, owner, mode):
        self._owner, self.mode = owner, mode

    def readable(self):
        return "r" in self.mode or "w" not in self.mode

    def writable(self):
        return "w" in self.mode

    def readinto(self, buffer):
        return self._owner.recv_into(buffer)

    def write(self, data):
        return self._owner.send(data)

    def fileno(self):
        return -1

    def close(self):
        if not self.closed:
            super().close()
            self._owner._files -= 1
            self._owner._release()


DEFAULT_TIMEOUT = None


def setdefaulttimeout(seconds):
    global DEFAULT_TIMEOUT
    DEFAULT_TIMEOUT = seconds


def install():
    for name, number in names.NUMBERS.items():
        if not hasattr(stdlib, name):
            setattr(stdlib, name, number)
    stdlib.socket = stdlib.SocketType = socket
    stdlib.getaddrinfo = names.getaddrinfo
    stdlib.gethostbyname = stdlib.gethostbyname_ex = stdlib.gethostbyaddr = names.no_lookup
    stdlib.setdefaulttimeout, stdlib.getdefaulttimeout = setdefaulttimeout, lambda: DEFAULT_TIMEOUT
    if not hasattr(stdlib, "has_dualstack_ipv6"):
        stdlib.has_dualstack_ipv6 = lambda: False
