import os
import subprocess
import sys
import tempfile

PROGRAM = """
import atexit, helper, sys, weakref

class Tells:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("gone:", self.name, sys.is_finalizing())

def keeps_the_module_alive():
    return one

one = Tells("global")
loop = [Tells("in a cycle")]
loop.append(loop)
helper.kept = Tells("of another module")
unclosed = open("unclosed.txt", "w")
unclosed.write("written, and never closed")
weakref.finalize(one, print, "finalized")
atexit.register(print, "atexit")
print("end of the script")
"""

folder = tempfile.mkdtemp()
os.chdir(folder)
with open("program.py", "w") as file:
    file.write(PROGRAM)
open("helper.py", "w").close()
done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True)
lines = done.stdout.splitlines()
print(done.returncode, done.stderr, lines[:2], sorted(lines[2:]))
print(open("unclosed.txt").read())
done = subprocess.run([sys.executable, "-c", "import sys; f = open('x', 'w'); f.write('kept'); sys.exit(3)"])
print(done.returncode, open("x").read())
done = subprocess.run([sys.executable, "-c", "f = open('x', 'w'); f.write('kept too'); 1 / 0"], stderr=subprocess.DEVNULL)
print(done.returncode, open("x").read())
