"""A web server on the loopback interface for the cases that need one, with all the ways in which servers misbehave."""

import gzip
import http.server
import json
import socket
import threading

# As many requests as are to be there at once before any of `/meet` is answered.
TOGETHER = 4


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Cases/1", ""
    together = threading.Barrier(TOGETHER)
    stopped = threading.Event()

    def log_message(self, *args):
        pass

    def answer(self):
        body = self.read_body()
        path = self.path.partition("?")[0]
        if path in ("/echo", "/login"):
            told = {"method": self.command, "path": self.path, "length": len(body), "body": body[:50].decode("latin-1")}
            told |= {"type": self.headers.get("Content-Type"), "test": self.headers.get("X-Test")}
            told |= {"authorization": self.headers.get("Authorization")} if path == "/login" else {}
            headers = {"Content-Type": "application/json; charset=utf-8", "X-Custom-Header": "Yes", "ETag": '"a"'}
            self.send(200, json.dumps(told).encode(), headers)
        elif path == "/redirect":
            self.send(302, b"", {"Location": "/echo?from=redirect"})
        elif path == "/missing":
            self.send(404, b"nothing here")
        elif path == "/broken":
            self.send(500, b"broken")
        elif path == "/nothing":
            self.send_response(204)
            self.end_headers()
        elif path == "/big":
            self.send(200, b"x" * 5_000_000)
        elif path == "/gzip":
            self.send(200, gzip.compress(b"unpacked"), {"Content-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"})
        elif path == "/meet":
            try:
                self.together.wait(60)
                self.send(200, b"met")
            except threading.BrokenBarrierError:
                self.send(500, b"alone")
        elif path == "/stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for n in range(5):
                self.wfile.write(b"7\r\nline %d\n\r\n" % n)
            self.wfile.write(b"0\r\n\r\n")
        elif path == "/silent":
            self.stopped.wait()
        elif path in ("/cut", "/stalled"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"part")
            self.wfile.flush()
            if path == "/stalled":
                self.stopped.wait()
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = answer

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send(self, status, body, headers={}):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """Runs as long as the program. `url` is its own address; nothing listens at `closed`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        # Bound and not listening: no other program gets the port meanwhile.
        self.bound = socket.socket()
        self.bound.bind(("127.0.0.1", 0))
        self.closed = f"http://127.0.0.1:{self.bound.getsockname()[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        # A client that has had enough hangs up.
        pass
