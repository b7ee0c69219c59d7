# Threads on both sides of a program, as scripts start them so that pipes do not fill up.
import queue
import subprocess
import sys
import threading
from subprocess import PIPE

ECHO = [sys.executable, "-c", "import sys\nfor line in sys.stdin: print(line.strip() * 1000)"]

got = []
process = subprocess.Popen(ECHO, stdin=PIPE, stdout=PIPE, text=True)
thread = threading.Thread(target=lambda: got.extend(process.stdout))
thread.start()
for i in range(300):
    process.stdin.write(f"{i}\n")
process.stdin.close()
thread.join()
print("a reader:", len(got), process.wait())


def feed():
    for i in range(300):
        process.stdin.write(f"{i}\n")
    process.stdin.close()


process = subprocess.Popen(ECHO, stdin=PIPE, stdout=PIPE, text=True)
thread = threading.Thread(target=feed)
thread.start()
print("a writer:", len(process.stdout.read()), process.wait())
thread.join()

lines = queue.Queue()


def read(file, name):
    for line in file:
        lines.put((name, line))


process = subprocess.Popen(
    [sys.executable, "-c", "import sys\nfor i in range(3000): print('o' * 100); print('e' * 100, file=sys.stderr)"],
    stdout=PIPE, stderr=PIPE, text=True,
)
threads = [threading.Thread(target=read, args=args) for args in ((process.stdout, "o"), (process.stderr, "e"))]
for thread in threads:
    thread.start()
code = process.wait()
for thread in threads:
    thread.join()
print("two readers:", lines.qsize(), code)
