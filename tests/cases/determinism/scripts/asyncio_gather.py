import asyncio, random, time
order = []
async def work(name):
    for _ in range(3):
        await asyncio.sleep(random.random())
        order.append((name, asyncio.get_running_loop().time()))
async def main():
    await asyncio.gather(*(work(n) for n in "abcde"))
    done, pending = await asyncio.wait([asyncio.create_task(asyncio.sleep(n, n)) for n in (3, 1, 2)], return_when=asyncio.FIRST_COMPLETED)
    print([t.result() for t in done], len(pending))
asyncio.run(main())
print(order, time.time())
