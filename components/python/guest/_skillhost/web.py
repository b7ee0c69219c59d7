"""HTTP requests, the only way out of a sandbox. The host checks each request, sends it, and verifies certificates.

A complete request takes one call of the host (`send`). Longer requests, and those that must not block, go through `wasi:http`.
"""

import errno
import os
import socket

from componentize_py_types import Err, Ok
from wit_world.imports import monotonic_clock, outgoing_handler, poll, streams, types, web

PIECE = 1 << 16
METHODS = {name.upper(): getattr(types, f"Method_{name.capitalize()}") for name in "get head post put delete options patch".split()}


class Timeout(Exception):
    """The timeout of a wait passed."""


class ConnectionCut(Exception):
    """The server closed the connection in the middle of its response."""


def drop(handle):
    handle.__exit__(None, None, None)


def nanoseconds(seconds):
    return None if seconds is None else max(1, int(seconds * 1e9))


def wait(subjects, timeout):
    """Waits until one of the resources is ready, and returns the ready ones. The timeout is in seconds, or None.

    # Raises
    Timeout
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
        raise Timeout
    return [index for index in ready if index < len(subjects)]


def send(origin, method, target, headers, body, connect_timeout, first_byte_timeout):
    """Sends a request with a body of at most one piece, and waits for the response. `origin` is (is it https, host, port).

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
        return Response(origin, answer.status, answer.headers, [] if answer.rest is None else [answer.rest], answer.body)
    if isinstance(reason, web.Failure_Malformed):
        raise uncarried(reason.value)
    raise meaning(reason.value, origin)


class Exchange:
    """A request that is written in pieces. `origin` is (is it https, host, port)."""

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
        """Returns the number of bytes of the body that can be written at once."""
        try:
            return self.stream.check_write()
        except Err:
            # The body is not accepted any more: the response has the reason.
            return None

    def write(self, data, timeout):
        """Writes all of the bytes, unless the response arrives first.

        # Raises
        Timeout, OSError
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
        """Completes the body of the request."""
        drop(self.stream)
        self.stream = None
        body, self.body = self.body, None
        try:
            types.OutgoingBody.finish(body, None)
        except Err:
            # The body is too long or too short, or not wanted any more. The response has the reason.
            pass

    def answer(self):
        """Returns the response if it has arrived, otherwise None.

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
        return Response(self.origin, status, headers, [incoming.stream(), incoming])

    def close(self):
        for name in ("stream", "body", "future"):
            handle = getattr(self, name, None)
            setattr(self, name, None)
            if handle is not None:
                drop(handle)


class Response:
    """A response, whose body is read as it arrives: first the part that came with the head, then from the first of the host's handles, if
    there is one.
    """

    def __init__(self, origin, status, headers, handles, begun=b""):
        self.origin, self.status, self.headers = origin, status, headers
        self.handles, self.begun = handles, begun

    def read(self, size):
        """Reads a piece of the body, of the given size or as it came with the head. Empty at the end; None if nothing has arrived yet.

        # Raises
        ConnectionCut, OSError
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
            raise ConnectionCut
        raise meaning(code, self.origin)

    def subject(self):
        """Returns the resource to wait for before `read` returns more."""
        return self.handles[0]

    def close(self):
        """Closes the connection. Nothing can be read afterwards."""
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
    """Marks an error as raised before there was a connection. Through `clients`, libraries that distinguish this get their own exception."""
    error.unconnected = True
    return error


def meaning(code, origin):
    """Returns the exception that users of a socket expect."""
    import ssl

    _, host, port = origin
    kind = type(code).__name__.removeprefix("ErrorCode_")
    value = getattr(code, "value", None)
    if kind == "InternalError" and str(value).startswith("denied: "):
        # The host's own message: the rule, and the line that would allow the request.
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
