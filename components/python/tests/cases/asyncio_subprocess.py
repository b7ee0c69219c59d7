import asyncio
import sys
import time
from asyncio.subprocess import PIPE

PY = sys.executable


async def number(n):
    process = await asyncio.create_subprocess_exec(PY, "-c", f"import time; time.sleep(0.2); print({n})", stdout=PIPE)
    out, _ = await process.communicate()
    return out, process.returncode


async def ticks():
    for _ in range(3):
        await asyncio.sleep(0.05)
    return "ticked"


async def main():
    print(await asyncio.gather(*(number(n) for n in range(3))))

    process = await asyncio.create_subprocess_exec(
        PY, "-c", "import shutil, sys; shutil.copyfileobj(sys.stdin, sys.stdout); print('err', file=sys.stderr); sys.exit(3)",
        stdin=PIPE, stdout=PIPE, stderr=PIPE,
    )
    out, err = await process.communicate(b"in" * 100_000)
    print(len(out), err, process.returncode)

    process = await asyncio.create_subprocess_exec(PY, "-c", "for i in range(3): print(i, flush=True)", stdout=PIPE)
    async for line in process.stdout:
        print(line)
    print(await process.wait())

    process = await asyncio.create_subprocess_exec(PY, "-c", "import time; time.sleep(100)")
    try:
        await asyncio.wait_for(process.wait(), 0.3)
    except asyncio.TimeoutError:
        process.kill()
        print("timed out", await process.wait())

    process = await asyncio.create_subprocess_exec(PY, "-c", "import sys\nfor line in sys.stdin: print('got', line.strip(), flush=True)", stdin=PIPE, stdout=PIPE)
    for i in range(3):
        process.stdin.write(f"{i}\n".encode())
        await process.stdin.drain()
        print(await process.stdout.readline())
    process.stdin.close()
    print(await process.wait())

    process = await asyncio.create_subprocess_exec(PY, "-c", "import time; time.sleep(0.3)")
    print(await asyncio.gather(ticks(), process.wait()))
    print(await asyncio.to_thread(lambda: 5))
    try:
        await asyncio.create_subprocess_exec("no-such-program")
    except FileNotFoundError as error:
        print(error.errno)


asyncio.run(main())
