# server: yes
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request

BASE = os.environ["SERVER"]
open_ = urllib.request.urlopen

answer = open_(BASE + "/echo?a=1&b=%20")
print(answer.status, answer.reason, answer.headers["X-Custom-Header"], answer.headers.get_content_type(), answer.url == BASE + "/echo?a=1&b=%20")
print([name for name in answer.headers if name in ("X-Custom-Header", "ETag", "Content-Type", "Content-Length")])
print(json.load(answer))
request = urllib.request.Request(BASE + "/echo", data=b"hello", headers={"X-Test": "told"}, method="PUT")
print(json.load(open_(request)))
print(json.load(open_(BASE + "/echo", data=urllib.parse.urlencode({"a": "b c"}).encode())))
print(open_(BASE + "/redirect").url == BASE + "/echo?from=redirect")
for path in ("/missing", "/broken"):
    try:
        open_(BASE + path)
    except urllib.error.HTTPError as error:
        print("HTTPError", error.code, error.reason, error.read())
for line in open_(BASE + "/stream"):
    print(line)
print(len(open_(BASE + "/big").read()))
for work in (lambda: open_(BASE + "/silent", timeout=1).read(), lambda: open_(BASE + "/stalled", timeout=1).read()):
    try:
        work()
    except TimeoutError as error:
        print(type(error).__name__, error)
# The head does not wait for the body.
with open_(BASE + "/stalled", timeout=1) as answer:
    print(answer.status, answer.read(4))
try:
    open_(BASE + "/cut").read()
except http.client.IncompleteRead as error:
    print(error)
try:
    open_(os.environ["CLOSED"])
except urllib.error.URLError as error:
    print(error)

connection = http.client.HTTPConnection(BASE.removeprefix("http://"), timeout=10)
for _ in range(2):
    connection.request("POST", "/echo", body=iter([b"ab", b"cd"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    print(json.load(connection.getresponse())["body"])
connection.request("HEAD", "/echo")
answer = connection.getresponse()
print(answer.status, answer.read(), int(answer.headers["Content-Length"]) > 0)
connection.request("DELETE", "/echo", body=b"x" * 3_000_000)
print(json.load(connection.getresponse())["length"])
connection.request("GET", "/nothing")
answer = connection.getresponse()
print(answer.status, answer.reason, answer.read())
connection.close()
print(urllib.request.urlretrieve(BASE + "/big", "big.bin")[0], os.path.getsize("big.bin"))
