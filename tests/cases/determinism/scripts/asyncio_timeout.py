import asyncio
async def main():
    try:
        await asyncio.wait_for(asyncio.sleep(3600), 1800)
    except TimeoutError:
        print("late", asyncio.get_running_loop().time())
    child = await asyncio.create_subprocess_shell("sleep 5; echo done; date +%s", stdout=asyncio.subprocess.PIPE)
    print(await child.communicate(), child.pid)
asyncio.run(main())
