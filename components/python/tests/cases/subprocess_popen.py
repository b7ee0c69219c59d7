import os
import select
import subprocess
import sys
import tempfile
from subprocess import PIPE, Popen, TimeoutExpired

PY = sys.executable
COPY = [PY, "-c", "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"]


def py(code, **options):
    return Popen([PY, "-c", code], **options)


print("-- both ways at once")
process = Popen(COPY, stdin=PIPE, stdout=PIPE)
out, err = process.communicate(b"x" * 3_000_000)
print(len(out), err, process.returncode)

print("-- lines while it runs")
with py("import sys\nfor i in range(3): print(i, flush=True); sys.stdin.readline()", stdin=PIPE, stdout=PIPE, text=True, bufsize=1) as process:
    for line in process.stdout:
        print("line", line.strip(), process.poll())
        process.stdin.write("next\n")
print(process.returncode)

print("-- one into the other")
first = py("for i in range(1000): print(i)", stdout=PIPE)
second = py("import sys; print(sum(int(line) for line in sys.stdin))", stdin=first.stdout, stdout=PIPE, text=True)
first.stdout.close()
print(second.communicate(), first.wait())

print("-- an early end")
first = py("import sys\ntry:\n    while True: print('y' * 1000)\nexcept BrokenPipeError:\n    sys.stdout = None\n    sys.exit(7)", stdout=PIPE)
print(first.stdout.readline()[:3])
first.stdout.close()
print(first.wait())

print("-- signals")
for stop in (Popen.terminate, Popen.kill):
    process = py("import time; time.sleep(100)")
    print(process.poll())
    stop(process)
    print(process.wait(), process.poll(), process.returncode)
process = py("import time; time.sleep(100)")
try:
    process.wait(0.05)
except TimeoutExpired as error:
    print(error.timeout)
os.kill(process.pid, 9)
print(os.waitstatus_to_exitcode(os.waitpid(process.pid, 0)[1]))

print("-- read in part, then the rest, after a timeout")
process = py("import time; print('a', flush=True); time.sleep(1); print('b')", stdout=PIPE, text=True, bufsize=0)
print(process.stdout.readline())
try:
    process.communicate(timeout=0.1)
except TimeoutExpired:
    print("not yet")
print(process.communicate(), process.returncode)

print("-- files")
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "file")
    with open(path, "w") as file:
        file.write("head\n")
        file.flush()
        subprocess.run([PY, "-c", "print('one')"], stdout=file)
        subprocess.run([PY, "-c", "print('two'); import sys; print('three', file=sys.stderr)"], stdout=file, stderr=subprocess.STDOUT)
    print(sorted(open(path).read().split()))
    with open(path) as file:
        print(subprocess.check_output([PY, "-c", "import sys; print(sys.stdin.read().upper().split()[0])"], stdin=file))
    with open(path, "wb") as file:
        process = py("import time; time.sleep(0.2); print('late')", stdout=file)
    print(process.wait(), open(path).read())
    with open(path, "ab") as file:
        subprocess.run([PY, "-c", "print('more')"], stdout=file)
    print(open(path).read())
with tempfile.TemporaryFile() as file:
    subprocess.run(COPY, input=b"through" * 30000, stdout=file)
    print(file.tell() in (0, 210000), file.seek(0), len(file.read()))

print("-- descriptors")
reader, writer = os.pipe()
process = py("print('piped')", stdout=writer)
os.close(writer)
with os.fdopen(reader) as file:
    print(file.read(), process.wait())
process = py("import time; time.sleep(0.3); print('now', flush=True)", stdout=PIPE)
turns = 0
while not select.select([process.stdout], [], [], 0.05)[0]:
    turns += 1
print(turns > 0, os.read(process.stdout.fileno(), 100)[:3], process.wait())

print("-- nobody reads")
process = py("", stdin=PIPE)
process.wait()
try:
    process.stdin.write(b"x" * 100_000)
    process.stdin.flush()
except BrokenPipeError as error:
    print("EPIPE", error.errno)
