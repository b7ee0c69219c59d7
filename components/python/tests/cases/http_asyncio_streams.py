# server: yes
import asyncio
import os
from urllib.parse import urlsplit

HOST, PORT = urlsplit(os.environ["SERVER"]).netloc.split(":")


async def get(path, more=""):
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{PORT}\r\n{more}Connection: close\r\n\r\n".encode())
    await writer.drain()
    status = await reader.readline()
    headers = {}
    while (line := (await reader.readline()).decode().strip()):
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    body = await (reader.readexactly(int(headers["content-length"])) if "content-length" in headers else reader.read())
    writer.close()
    await writer.wait_closed()
    return status, body


async def post(body):
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    writer.write(f"POST /echo HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
    for at in range(0, len(body), 5):
        writer.write(body[at : at + 5])
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200"), body in answer


async def refused():
    host, port = urlsplit(os.environ["CLOSED"]).netloc.split(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        print(await reader.read())
    except OSError as error:
        print(type(error).__name__)


async def main():
    print(await get("/missing"))
    answers = await asyncio.gather(get("/echo"), get("/nothing"), post(b"0123456789" * 4))
    print([answer[0] for answer in answers], answers[2])
    print(await asyncio.gather(*(get("/meet") for _ in range(4))))
    await refused()


asyncio.run(main())
