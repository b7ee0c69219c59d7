"""HTTP requests, the one way out of a sandbox. The host checks each request, sends it, and verifies certificates.

A request that is there with all of its body is one call of the host (`send`). What is longer, or not to be waited for, goes over `wasi:http`.
"""

import errno
import os
import socket

from componentize_py_types import Err, Ok
from wit_world.imports import monotonic_clock, outgoing_handler, poll, streams, types, web

PIECE = 1 << 16
METHODS = {name.upper(): getattr(types, f"Method_{name.capitalize()}") for name in "get head post put delete options patch".split()}


class Late(Exception):
    """A wait's timeout is over."""


class Cut(Exception):
    """The server went away in the middle of its response."""


def drop(handle):
    handle.__exit__(None, None, None)


def nanoseconds(seconds):
    return None if seconds is None else max(1, int(seconds * 1e9))


def wait(subjects, timeout):
    """Until one of the resources is ready; returns which are. Timeout in seconds, or none.

    # Raises
    Late
    """
    pollables = [subject.subscribe() for subject in subjects]
    if timeout is not None:
        pollables.append(monotonic_clock.subscribe_duration(nanoseconds(timeout)))
    try:
        ready = poll.poll(pollables)
    finally:
        for pollable in pollables:
            drop(pollable)
    if ready == [len(subjects)]:
        raise Late
    return [index for index in ready if index < len(subjects)]


def send(origin, method, target, headers, body, connect_timeout, first_byte_timeout):
    """Sends a request with its body, of at most a piece, and waits for the answer. `origin` is (is it https, host, port).

    # Raises
    OSError, ValueError
    """
    https, _, _ = origin
    times = nanoseconds(connect_timeout), nanoseconds(first_byte_timeout)
    try:
        answer = web.send(web.Request(https, authority(origin), method, target, headers, body, *times))
    except Err as refused:
        reason = refused.value
    else:
        return Answer(origin, answer.status, answer.headers, [] if answer.rest is None else [answer.rest], answer.body)
    if isinstance(reason, web.Failure_Malformed):
        raise uncarried(reason.value)
    raise meaning(reason.value, origin)


class Exchange:
    """A request that is written piece by piece. `origin` is (is it https, host, port)."""

    def __init__(self, origin, method, target, headers, connect_timeout, first_byte_timeout):
        self.origin = origin
        self.stream = None
        fields = call(types.Fields.from_list, headers, of=self)
        request = types.OutgoingRequest(fields)
        https, _, _ = origin
        call(request.set_method, METHODS[method]() if method in METHODS else types.Method_Other(method), of=self)
        call(request.set_scheme, types.Scheme_Https() if https else types.Scheme_Http(), of=self)
        call(request.set_authority, authority(origin), of=self)
        call(request.set_path_with_query, target, of=self)
        options = types.RequestOptions()
        options.set_connect_timeout(nanoseconds(connect_timeout))
        options.set_first_byte_timeout(nanoseconds(first_byte_timeout))
        self.body = request.body()
        self.future = call(outgoing_handler.handle, request, options, of=self)
        self.stream = self.body.write()

    def room(self):
        """How many bytes of the body can be written at once."""
        try:
            return self.stream.check_write()
        except Err:
            # Nobody takes more: why, says the response.
            return None

    def write(self, data, timeout):
        """Writes all of it, unless the response is there before.

        # Raises
        Late, OSError
        """
        view = memoryview(data)
        while view:
            room = self.room()
            if room is None:
                return
            if room:
                try:
                    self.stream.write(bytes(view[:room]))
                except Err:
                    return
                view = view[room:]
            else:
                wait([self.stream], timeout)

    def end(self):
        """The request's body is complete."""
        drop(self.stream)
        self.stream = None
        body, self.body = self.body, None
        try:
            types.OutgoingBody.finish(body, None)
        except Err:
            # A body that is too long or too short; or nobody wants it any more. The response says which.
            pass

    def answer(self):
        """The answer when it is there, else none.

        # Raises
        OSError
        """
        answer = self.future.get()
        if answer is None:
            return None
        answer = answer.value
        if not isinstance(answer, Ok):
            raise meaning(answer.value, self.origin)
        with answer.value as answered:
            status = answered.status()
            with answered.headers() as fields:
                headers = fields.entries()
            incoming = answered.consume()
        return Answer(self.origin, status, headers, [incoming.stream(), incoming])

    def close(self):
        for name in ("stream", "body", "future"):
            handle = getattr(self, name, None)
            setattr(self, name, None)
            if handle is not None:
                drop(handle)


class Answer:
    """A response, whose body is read as it comes: first what came with the head, then from the first of the host's handles, if it has any."""

    def __init__(self, origin, status, headers, handles, begun=b""):
        self.origin, self.status, self.headers = origin, status, headers
        self.handles, self.begun = handles, begun

    def read(self, size):
        """A piece of the body, of that size or as it came with the head; empty at its end; none when there is nothing yet.

        # Raises
        Cut, OSError
        """
        if self.begun:
            piece, self.begun = self.begun, b""
            return piece
        if not self.handles:
            return b""
        try:
            return self.handles[0].read(min(size, PIECE)) or None
        except Err as stopped:
            reason = stopped.value
        if isinstance(reason, streams.StreamError_Closed):
            return b""
        code = types.http_error_code(reason.value)
        if code is None or isinstance(code, types.ErrorCode_HttpProtocolError | types.ErrorCode_ConnectionTerminated):
            raise Cut
        raise meaning(code, self.origin)

    def subject(self):
        """What to wait for before `read` gives more."""
        return self.handles[0]

    def close(self):
        """Ends the connection. Nothing more is to be read."""
        handles, self.handles, self.begun = self.handles, [], b""
        for handle in handles:
            drop(handle)


def call(function, *args, of):
    try:
        return function(*args)
    except Err as refused:
        reason = refused.value
    if isinstance(reason, types.HeaderError_Forbidden | types.HeaderError_InvalidSyntax | types.HeaderError_Immutable | None):
        raise uncarried(f"{function.__name__.replace('_', ' ')} of {args[0]!r}")
    raise meaning(reason, of.origin)


def uncarried(what):
    return ValueError(f"not a valid HTTP request: {what}")


def authority(origin):
    https, host, port = origin
    name = f"[{host}]" if ":" in host else host
    return name if port == (443 if https else 80) else f"{name}:{port}"


def reset(text):
    return ConnectionResetError(errno.ECONNRESET, text)


def unconnected(error):
    """Marks that it never came to a connection: libraries that tell this apart are told by `clients`."""
    error.unconnected = True
    return error


def meaning(code, origin):
    """The exception that a socket's user expects."""
    import ssl

    _, host, port = origin
    kind = type(code).__name__.removeprefix("ErrorCode_")
    value = getattr(code, "value", None)
    if kind == "InternalError" and str(value).startswith("denied: "):
        # The host's own words: which rule, and what would allow it.
        return unconnected(PermissionError(errno.EACCES, f"the sandbox may not reach {authority(origin)}: {value.removeprefix('denied: ')}"))
    if kind in ("DnsError", "DnsTimeout", "DestinationNotFound"):
        return unconnected(socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {host}"))
    if kind == "ConnectionRefused":
        return unconnected(ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
    if kind in ("DestinationUnavailable", "DestinationIpUnroutable"):
        return unconnected(OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH)))
    if kind == "ConnectionTimeout":
        return unconnected(TimeoutError("timed out"))
    if kind in ("ConnectionReadTimeout", "ConnectionWriteTimeout", "HttpResponseTimeout"):
        return TimeoutError("timed out")
    if kind == "TlsCertificateError":
        whom = f"the host does not trust {authority(origin)}, and no script can change that"
        why = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {whom}"
        return unconnected(ssl.SSLCertVerificationError(1, why))
    if kind.startswith("Tls"):
        return unconnected(ssl.SSLError(1, f"[SSL] the handshake with {authority(origin)} failed"))
    if kind == "ConnectionLimitReached":
        return unconnected(OSError(errno.EAGAIN, "the limit `http-requests` or `http-concurrent` was hit"))
    if kind == "HttpRequestBodySize":
        return OSError(errno.EFBIG, f"the request's body exceeds the limit `http-request-body`, {value} bytes")
    if kind == "HttpResponseBodySize":
        return OSError(errno.EFBIG, f"the response's body exceeds the limit `http-response-body`, {value} bytes")
    if "HeaderSectionSize" in kind:
        return OSError(errno.EMSGSIZE, f"the head has more than {value} bytes")
    if kind in ("ConnectionTerminated", "HttpResponseIncomplete", "HttpProtocolError"):
        return reset("Connection reset by peer")
    return OSError(errno.EIO, str(value or kind))
