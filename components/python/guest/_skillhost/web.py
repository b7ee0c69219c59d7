"""HTTP requests over `wasi:http`: the one way out of a sandbox. The host checks each request, sends it, and verifies certificates."""

import errno
import os
import socket

from componentize_py_types import Err, Ok
from wit_world.imports import monotonic_clock, outgoing_handler, poll, streams, types

PIECE = 1 << 16
METHODS = {name.upper(): getattr(types, f"Method_{name.capitalize()}") for name in "get head post put delete options patch".split()}
# Of one connection, or the sender's own: a request that has them is refused.
NOT_SENT = frozenset(
    """connection expect host http2-settings keep-alive proxy-authenticate proxy-authentication-info proxy-authorization proxy-connection
    te trailer transfer-encoding upgrade""".split()
)


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


class Exchange:
    """One request and its response. `origin` is (is it https, host, port)."""

    def __init__(self, origin, method, target, headers, connect_timeout, first_byte_timeout):
        self.origin = origin
        self.stream = self.incoming = self.source = None
        fields = call(types.Fields.from_list, [(name, value) for name, value in headers if name.lower() not in NOT_SENT], of=self)
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

    def response(self):
        """(status, headers) when it is there, else none.

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
            self.incoming = answered.consume()
        self.source = self.incoming.stream()
        return status, headers

    def read(self, size):
        """A piece of the response's body; empty at its end; none when there is nothing yet.

        # Raises
        Cut, OSError
        """
        try:
            return self.source.read(min(size, PIECE)) or None
        except Err as stopped:
            reason = stopped.value
        if isinstance(reason, streams.StreamError_Closed):
            return b""
        code = types.http_error_code(reason.value)
        if code is None or isinstance(code, types.ErrorCode_HttpProtocolError | types.ErrorCode_ConnectionTerminated):
            raise Cut
        raise meaning(code, self.origin)

    def close(self):
        for name in ("source", "incoming", "stream", "body", "future"):
            handle = getattr(self, name, None)
            setattr(self, name, None)
            if handle is not None:
                drop(handle)


def call(function, *args, of):
    try:
        return function(*args)
    except Err as refused:
        reason = refused.value
    if isinstance(reason, types.HeaderError_Forbidden | types.HeaderError_InvalidSyntax | types.HeaderError_Immutable | None):
        raise ValueError(f"not a request that HTTP can carry: {function.__name__.replace('_', ' ')} of {args[0]!r}")
    raise meaning(reason, of.origin)


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
        return unconnected(OSError(errno.EAGAIN, "the limit `http-requests` or `http-concurrent` is reached"))
    if kind == "HttpRequestBodySize":
        return OSError(errno.EFBIG, f"the request's body is over the limit `http-request-body`, {value} bytes")
    if kind == "HttpResponseBodySize":
        return OSError(errno.EFBIG, f"the response's body is over the limit `http-response-body`, {value} bytes")
    if "HeaderSectionSize" in kind:
        return OSError(errno.EMSGSIZE, f"a head of over {value} bytes")
    if kind in ("ConnectionTerminated", "HttpResponseIncomplete", "HttpProtocolError"):
        return reset("Connection reset by peer")
    return OSError(errno.EIO, str(value or kind))
