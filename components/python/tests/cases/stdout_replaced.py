import os
import subprocess
import sys

# What a program puts in place of stdout needs only `write`.
TEE = """
import sys
class Tee:
    def write(self, text):
        sys.__stdout__.write(text.upper())
"""
FLUSHED = "    def flush(self):\n        {}\n"
END = "sys.stdout = Tee()\nprint('text')\n"
PROGRAMS = {
    "flush": TEE + FLUSHED.format("pass") + END,
    "flush, and an exit code": TEE + FLUSHED.format("pass") + END + "sys.exit(3)",
    "no flush": TEE + END,
    "no flush, and an exit code": TEE + END + "sys.exit(3)",
    "a flush that fails": TEE + FLUSHED.format("raise ValueError") + END,
    "closed": TEE + "    closed = True\n" + END,
    "stderr without flush": TEE + "sys.stderr = Tee()\nprint('text')",
    "none": "import sys\nprint('text')\nsys.stdout = None\nprint('lost')\nsys.exit(4)",
    "text": "import io, sys\nsys.stdout = io.StringIO()\nprint('lost')",
    "another encoding": "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'latin-1')\nprint('\\xe4')",
}
os.environ.pop("PYTHONUNBUFFERED", None)
for name, program in PROGRAMS.items():
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    print(name, done.stdout, done.returncode)
    # The reader of its output has gone.
    process = subprocess.Popen([sys.executable, "-c", "input()\n" + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    process.communicate(b"\n")
    print(name, process.returncode)
