import os
import subprocess
import sys

CLOSING = """
import errno, sys
sys.stdin.read()
try:
    with sys.stdout:
        print("x")
except BrokenPipeError as error:
    sys.exit(error.errno)
"""
# With it, print would already fail.
os.environ.pop("PYTHONUNBUFFERED", None)
for command in (["-m", "json.tool"], ["-c", CLOSING], ["-c", "print(input())"], ["-c", "import sys; print(input()); sys.exit(3)"]):
    program = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    # Before the program has anything to print: it waits for its input.
    program.stdout.close()
    program.communicate(b'"text"\n')
    print(command[0], program.returncode)
