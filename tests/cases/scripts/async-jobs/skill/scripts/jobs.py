#!/usr/bin/env python3
"""Runs jobs side by side, so many at a time, with a timeout for each."""
import argparse
import asyncio
import json
import sys
from contextlib import asynccontextmanager


class JobFailed(Exception):
    pass


@asynccontextmanager
async def slot(semaphore, name):
    async with semaphore:
        try:
            yield
        finally:
            pass


async def run(job, semaphore, timeout):
    async with slot(semaphore, job["name"]):
        await asyncio.wait_for(asyncio.sleep(job["ms"] / 1000), timeout)
        if job.get("fails"):
            raise JobFailed(f"{job['name']} ✗")
        return job["name"], job["ms"]


async def producer(queue, jobs):
    for job in jobs:
        await queue.put(job["name"])
        await asyncio.sleep(0)
    await queue.put(None)


async def consumer(queue):
    seen = []
    while (name := await queue.get()) is not None:
        seen.append(name.upper())
    return seen


async def countdown(n):
    while n:
        yield n
        n -= 1
        await asyncio.sleep(0)


def blocking(n):
    return sum(range(n))


async def main(args):
    with open(args.file) as f:
        jobs = json.load(f)
    semaphore = asyncio.Semaphore(args.parallel)
    results = await asyncio.gather(*(run(job, semaphore, 0.5) for job in jobs), return_exceptions=True)
    failures = 0
    for job, result in zip(jobs, results):
        if isinstance(result, Exception):
            failures += 1
            print(f"{job['name']:<10} {type(result).__name__} {result}")
        else:
            print(f"{job['name']:<10} {result}")

    queue = asyncio.Queue(maxsize=2)
    _, seen = await asyncio.gather(producer(queue, jobs), consumer(queue))
    print(seen, [n async for n in countdown(3)])

    print(await asyncio.to_thread(blocking, 1000), await asyncio.get_running_loop().run_in_executor(None, blocking, 10))
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, event.set)
    await event.wait()

    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled", task.cancelled())
    done, pending = await asyncio.wait([asyncio.create_task(asyncio.sleep(t, t)) for t in (0.01, 30)], timeout=0.2)
    print([t.result() for t in done], len(pending))
    for t in pending:
        t.cancel()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(10))
            group.create_task(run({"name": "in der Gruppe", "ms": 1, "fails": True}, semaphore, 1))
    except* JobFailed as e:
        print("group:", [str(x) for x in e.exceptions])
    return 3 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--parallel", type=int, default=4)
    sys.exit(asyncio.run(main(parser.parse_args())))
