"""HTTP/1.1 as text: parses a client's request and builds the head of a response."""

import errno
import functools
import http

# Headers of one connection, or set by the sender itself: a request that contains them is refused.
NOT_SENT = frozenset(
    """connection expect host http2-settings keep-alive proxy-authenticate proxy-authentication-info proxy-authorization proxy-connection
    te trailer transfer-encoding upgrade""".split()
)
# Names whose capitalisation is not that of their words. `wasi:http` uses lower case only.
NAMES = {
    name.lower(): name
    for name in """ETag WWW-Authenticate X-XSS-Protection X-UA-Compatible X-DNS-Prefetch-Control DNT TE NEL SourceMap
    Content-MD5 P3P X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset X-RateLimit-Used X-RateLimit-Resource X-GitHub-Request-Id
    X-GitHub-Media-Type Sec-WebSocket-Accept""".split()
}
REASONS = {status.value: status.phrase for status in http.HTTPStatus}
LONGEST_HEAD = 64 << 10


class Chunks:
    """Decodes `Transfer-Encoding: chunked`."""

    def __init__(self):
        self.rest, self.left, self.state = bytearray(), 0, "size"

    def feed(self, data):
        self.rest += data
        out = bytearray()
        while self.state != "end":
            if self.state == "data":
                piece = self.rest[: self.left]
                del self.rest[: len(piece)]
                out += piece
                self.left -= len(piece)
                if self.left:
                    break
                self.state = "after"
                continue
            line, found, _ = self.rest.partition(b"\r\n")
            if not found:
                break
            del self.rest[: len(line) + 2]
            if self.state == "size":
                self.left = int(line.partition(b";")[0], 16)
                self.state = "data" if self.left else "trailers"
            elif self.state == "after":
                self.state = "size"
            elif not line:
                self.state = "end"
        return bytes(out)


class Request:
    """A request as written by the client, parsed as far as it has arrived."""

    def __init__(self):
        self.written = bytearray()
        self.head = None
        self.body, self.left, self.chunks = bytearray(), 0, None

    def complete(self):
        return self.head is not None and (self.chunks.state == "end" if self.chunks else not self.left)

    def feed(self, data):
        if self.head is None:
            self.written += data
            check_method(self.written)
            head, found, data = self.written.partition(b"\r\n\r\n")
            if not found:
                if len(head) > LONGEST_HEAD:
                    raise OSError(errno.EMSGSIZE, f"a head of over {LONGEST_HEAD} bytes")
                return
            self.read_head(head.decode("latin-1"))
        if self.chunks:
            self.body += self.chunks.feed(data)
        else:
            self.body += data[: self.left]
            self.left -= len(data[: self.left])

    def read_head(self, head):
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = []
        for line in lines:
            name, _, value = line.partition(":")
            known = name.lower()
            if known == "transfer-encoding":
                self.chunks = Chunks()
            if known in NOT_SENT:
                continue
            value = value.strip()
            if known == "content-length":
                self.left = int(value)
            headers.append((name, value.encode("latin-1")))
        self.head = method, target, headers


def check_method(written):
    word, found, _ = written[:32].partition(b" ")
    if not word.isalpha() or not (found or len(written) < 32):
        raise OSError(errno.EPROTONOSUPPORT, "only HTTP leaves the sandbox")


def head(status, headers, chunked):
    """Returns the head of a response."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}".encode()] + [shown(name).encode() + b": " + value for name, value in headers]
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


@functools.lru_cache(256)
def shown(name):
    return NAMES.get(name) or "-".join(word.capitalize() for word in name.split("-"))
