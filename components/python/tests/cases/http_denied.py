# server: yes
# sandbox: natively nothing is denied
import http.client
import http.server
import os
import smtplib
import socket
import ssl
import urllib.error
import urllib.request


def told(work):
    try:
        print(work())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


told(lambda: urllib.request.urlopen("https://example.com/x"))
told(lambda: urllib.request.urlopen("http://127.0.0.1:9/x"))
told(lambda: http.client.HTTPSConnection("api.example.com", 8443).request("GET", "/") or "sent")
connection = http.client.HTTPSConnection("api.example.com", 8443, context=ssl._create_unverified_context())
connection.request("GET", "/")
told(connection.getresponse)
proxy = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
told(lambda: proxy.open(os.environ["SERVER"] + "/echo"))
told(lambda: smtplib.SMTP("127.0.0.1", 25))
told(lambda: http.server.HTTPServer(("127.0.0.1", 8000), None))
told(lambda: socket.create_server(("", 8000)))
told(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53)))
told(lambda: socket.gethostbyname("example.com"))
told(lambda: socket.create_connection(("127.0.0.1", 9)).sendall(b"\x00\x01 not HTTP"))


def asked(place, header, body=b""):
    """A connection that has asked for `/echo`."""
    host, _, port = place.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(f"PUT /echo HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n{header}\r\n\r\n".encode() + body)
    return connection


told(lambda: asked(os.environ["SERVER"], "a b: c").recv(1))
# What has failed is not tried again, whoever asks, and however long it was.
for length in (0, 100_000):
    with asked(os.environ["CLOSED"], "a: b", b"x" * length) as connection:
        for _ in range(2):
            told(lambda: connection.recv(1))
