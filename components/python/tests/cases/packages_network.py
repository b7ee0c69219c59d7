# env: NO_PROXY=*
import asyncio
import urllib.parse

import anyio
import attrs
import certifi
import charset_normalizer
import h11
import httpx
import idna
import networkx
import packaging.requirements
import packaging.version
import pyrsistent
import requests
import requests.adapters
import six
import typing_extensions
import urllib3
import urllib3.util

request = requests.Request("POST", "https://api.example.test/a b?x=1", params={"q": ["é", "2"]}, json={"k": [1]}, auth=("u", "p"), headers={"X-A": "b"})
prepared = requests.Session().prepare_request(request)
print(prepared.method, prepared.url, prepared.body, prepared.headers["Authorization"], prepared.headers["X-A"])
print(requests.Request("POST", "http://e.test/", files={"f": ("n.txt", b"data")}).prepare().headers["Content-Type"][:30])


class Canned(requests.adapters.BaseAdapter):
    def send(self, request, **options):
        response = requests.Response()
        response.status_code, response.url, response.request = (404 if "missing" in request.url else 200), request.url, request
        response._content, response.encoding = b'{"ok": true}', "utf-8"
        return response

    def close(self):
        pass


session = requests.Session()
session.mount("mock://", Canned())
print(session.get("mock://x/y").json())
try:
    session.get("mock://x/missing").raise_for_status()
except requests.HTTPError as error:
    print(error)

transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"path": request.url.path, "q": dict(request.url.params)}))
with httpx.Client(transport=transport, base_url="https://e.test") as client:
    print(client.get("/a", params={"b": "c"}).json())


async def both():
    async with httpx.AsyncClient(transport=transport) as client:
        answers = await asyncio.gather(client.get("https://e.test/1"), client.post("https://e.test/2", data={"x": "y"}))
        return [answer.json()["path"] for answer in answers]


print(asyncio.run(both()))


async def limited():
    with anyio.move_on_after(0.01) as scope:
        await anyio.sleep(30)
    return scope.cancelled_caught


print(anyio.run(limited))

print(urllib3.util.parse_url("http://user@h.test:81/p?q#f"), urllib3.util.Retry(3, backoff_factor=0.1).total)
print(idna.encode("bücher.example"), idna.decode("xn--bcher-kva.example"), certifi.where().endswith("cacert.pem"))
print(charset_normalizer.from_bytes("Les élèves étaient très fatigués après la leçon.".encode("latin-1")).best().encoding)
print(packaging.version.Version("1.10") > packaging.version.Version("1.9rc1"), packaging.requirements.Requirement("a[b]>=1; python_version>'3'").specifier)
print(h11.Connection(h11.CLIENT).send(h11.Request(method="GET", target="/", headers=[("Host", "e.test")])))


@attrs.define
class Point:
    x: int = attrs.field(validator=attrs.validators.instance_of(int))
    y: list = attrs.Factory(list)


print(Point(1, [2]), Point(1) == Point(1), attrs.asdict(Point(3)))
try:
    Point("1")
except TypeError as error:
    print(error.args[0])

graph = networkx.Graph()
graph.add_weighted_edges_from([("a", "b", 1), ("b", "c", 2), ("a", "c", 9), ("d", "e", 1)])
print(networkx.shortest_path(graph, "a", "c", weight="weight"), networkx.number_connected_components(graph))
print(list(networkx.topological_sort(networkx.DiGraph([(1, 2), (2, 3), (1, 3)]))), networkx.density(graph))
print({node: round(rank, 3) for node, rank in networkx.degree_centrality(graph).items()})
print(networkx.node_link_data(networkx.path_graph(2)))
print(pyrsistent.pmap({"a": 1}).set("b", 2) == pyrsistent.pmap({"b": 2, "a": 1}), pyrsistent.pvector([1, 2]).append(3))
print(six.PY3, six.moves.urllib.parse is urllib.parse or six.moves.urllib.parse.quote("a b"), typing_extensions.get_origin(list[int]))
