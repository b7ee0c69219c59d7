# server: yes
# needs: httpx
import asyncio
import os

import httpx

BASE = os.environ["SERVER"]
answer = httpx.get(BASE + "/echo", params={"a": 1})
print(answer.status_code, answer.reason_phrase, answer.json(), answer.headers["etag"], answer.http_version)
print(httpx.post(BASE + "/echo", json={"a": 1}).json()["body"])
with httpx.Client(base_url=BASE, follow_redirects=True) as client:
    print(client.get("/redirect").url.path, client.get("/missing").status_code)
    with client.stream("GET", "/stream") as answer:
        for line in answer.iter_lines():
            print(line)
    print(len(client.get("/big").content))
    print(client.put("/echo", content=(b"q" * 10_000 for _ in range(50))).json()["length"])


def told(url, **options):
    try:
        httpx.get(url, **options)
    except httpx.HTTPError as error:
        print(type(error).__name__)


told(BASE + "/silent", timeout=1)
told(os.environ["CLOSED"])
told(BASE + "/cut")


async def main():
    async with httpx.AsyncClient(base_url=BASE) as client:
        print([answer.text for answer in await asyncio.gather(*(client.get("/meet") for _ in range(4)))])
        async with client.stream("GET", "/stream") as answer:
            async for line in answer.aiter_lines():
                print(line)
        for url, options in ((BASE + "/silent", {"timeout": 1}), (os.environ["CLOSED"], {})):
            try:
                await client.get(url, **options)
            except httpx.HTTPError as error:
                print(type(error).__name__)
        print((await client.post("/echo", content=b"x" * 300_000)).json()["length"])


asyncio.run(main())
