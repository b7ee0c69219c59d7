# 300 MB go through a program in memory that does not grow. Natively, the size of the process is asked of the system.
import os
import subprocess
import sys
import threading

SIZE, PIECE = 300_000_000, 1_000_000
COUNT = "import sys\ntotal = 0\nwhile data := sys.stdin.buffer.read(1 << 16): total += len(data)\nprint(total)"
process = subprocess.Popen([sys.executable, "-c", COUNT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
piece = bytes(range(256)) * (PIECE // 256 + 1)
piece = piece[:PIECE]
for _ in range(SIZE // PIECE):
    process.stdin.write(piece)
print(process.communicate()[0])

process = subprocess.Popen([sys.executable, "-c", f"import sys\nfor _ in range({SIZE // PIECE}): sys.stdout.buffer.write(b'x' * {PIECE})"], stdout=subprocess.PIPE)
print(sum(len(data) for data in iter(lambda: process.stdout.read(PIECE), b"")), process.wait())
