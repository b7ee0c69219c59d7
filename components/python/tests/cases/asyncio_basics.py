import asyncio


async def work(name, seconds):
    await asyncio.sleep(seconds)
    print(name)
    return name


async def main():
    print(await asyncio.gather(work("slow", 0.02), work("fast", 0.0)))
    print(await asyncio.to_thread(lambda: "from a thread"))
    queue = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.put(1))
        task = group.create_task(queue.get())
    print(task.result())
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)
    except TimeoutError:
        print("timeout")
    semaphore = asyncio.Semaphore(1)
    async with semaphore:
        print([n async for n in numbers()])


async def numbers():
    for n in range(3):
        yield n
        await asyncio.sleep(0)


asyncio.run(main())
