"""Updates `order.txt`, the names of the functions of `python.wasm` that starts run, in the order of their first calls.

    python3 components/python/build/record_order.py [--skillhost target/release/skillhost]

Run it by hand on Linux, x86-64, when CPython or the build has changed, and then run `cargo xtask python` again. It requires the output of that
command, a host, and readelf. The host runs each of the starts below with a breakpoint at every function of the compiled component. Each call
of a function is recorded once, and then the breakpoint is removed.
"""

import argparse
import ctypes
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
NAMES = ROOT / "target/python/names.txt"
SKILL = "---\nname: starts\ndescription: What programs do first.\nallowed-tools: Read Write Bash\n---\n"
# The most common start comes first, because its functions become adjacent.
STARTS = {
    "hello": 'print("hi")',
    "modules": "import argparse, collections, json, os, pathlib, re, sys\nprint(sys.argv, os.getcwd(), pathlib.Path(__file__).name)",
    "arguments": """
import argparse
parser = argparse.ArgumentParser(description="A program.")
parser.add_argument("input", nargs="?", default="-")
parser.add_argument("--count", type=int, default=3)
print(parser.parse_args([]), parser.format_help())
""",
    "data": """
import csv, io, json, re
from datetime import date
from pathlib import Path
from collections import Counter, defaultdict
Path("/tmp/x.csv").write_text("name,size\\na,1\\nb,2.5\\n")
with open("/tmp/x.csv", newline="", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
sums = defaultdict(float)
for row in sorted(rows, key=lambda row: row["name"]):
    sums[row["name"].upper()] += float(row["size"])
text = json.dumps({"rows": rows, "sums": sums, "n": [1, 2.5, None, True], "of": str(date(2026, 1, 2))}, indent=2)
Path("/tmp/x.json").write_text(text)
print(json.loads(Path("/tmp/x.json").read_text()) == json.loads(text), re.findall(r"(\\w+)=(\\d+)", "a=1 b=2"), Counter("hello").most_common(2))
csv.writer(out := io.StringIO()).writerows([[1, "a,b"]])
print(out.getvalue(), f"{sum(sums.values()):.2f}")
""",
    "subprocess": 'import subprocess\nprint(subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout)',
    "web": """
import urllib.request, urllib.error, urllib.parse
try:
    urllib.request.urlopen(urllib.request.Request("http://localhost:1/?" + urllib.parse.urlencode({"q": "a b"}), headers={"Accept": "*/*"}))
except (OSError, urllib.error.URLError) as error:
    print(error)
""",
    "failure": 'import sys\ntry:\n    {}["x"]\nexcept KeyError as error:\n    print(f"error: {error}", file=sys.stderr)\nraise ValueError("a traceback")',
}
# Compiles explicitly, and last: only the second run of each start is traced, whose script is already compiled.
STARTS["compiling"] = "\n".join(f"compile({code!r}, 'start', 'exec')" for code in STARTS.values())
TRACEME, CONT, PEEKUSER, POKEUSER, SYSCALL, SETOPTIONS = 0, 7, 3, 6, 24, 0x4200
SYSGOOD, CLONE, EXITKILL = 1, 8, 1 << 20
# The offset of the register in the structure of <sys/user.h>.
RIP = 16 * 8
# `__WALL`
ANY_THREAD = 0x40000000
BREAKPOINT = b"\xcc"


def main():
    record(__doc__, NAMES, STARTS, "py", 1, HERE / "order.txt")


def record(about, names, starts, extension, module, output):
    """Runs scripts, and writes the functions of the component's main module, number `module`, that they call to `output`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skillhost", metavar="PATH", type=pathlib.Path, default=ROOT / "target/release/skillhost", help="the host")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    arguments = parser.parse_args()
    names, order = names.read_text().splitlines(), {}
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / "starts/scripts").mkdir(parents=True)
        (home / "starts/SKILL.md").write_text(SKILL)
        environment = {"HOME": folder, "PATH": os.environ["PATH"], "SKILLHOST_PROGRAMS": str(arguments.programs.resolve())}
        for name, code in starts.items():
            script = f"scripts/{name}.{extension}"
            (home / "starts" / script).write_text(code)
            command = [str(arguments.skillhost.resolve()), "run", str(home / "starts"), script]
            # The first run may compile the component and the script.
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            before = len(order)
            order.update(dict.fromkeys(names[index] for index in called(command, environment, len(names), module)))
            print(f"{name}: {len(order) - before} more functions")
    output.write_text("".join(f"{name}\n" for name in order))


def called(command, environment, count, module):
    """Returns the indices of the functions of module number `module`, which has `count` of them, that a run of the host calls."""
    process = os.fork()
    if process == 0:
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(quiet, descriptor)
        ptrace(TRACEME, 0)
        os.execve(command[0], command, environment)
    os.waitpid(process, 0)
    ptrace(SETOPTIONS, process, 0, SYSGOOD | CLONE | EXITKILL)
    ptrace(SYSCALL, process)
    functions, breakpoints, result = {}, {}, []
    # The process stops at each system call until the code is mapped, and then only at breakpoints.
    resume = SYSCALL
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        while True:
            thread, status = os.waitpid(-1, ANY_THREAD)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if thread == process:
                    break
                continue
            stop_signal, forwarded = os.WSTOPSIG(status), 0
            if stop_signal == signal.SIGTRAP | 0x80:
                if resume == SYSCALL and (functions := mapped(process, count, module)):
                    resume = CONT
                    for address in functions:
                        breakpoints[address] = os.pread(memory.fileno(), 1, address)
                        os.pwrite(memory.fileno(), BREAKPOINT, address)
            elif stop_signal == signal.SIGTRAP and status >> 16 == 0:
                address = ptrace(PEEKUSER, thread, RIP) - 1
                assert address in functions, f"unknown breakpoint at {address:#x}"
                if address in breakpoints:
                    os.pwrite(memory.fileno(), breakpoints.pop(address), address)
                    result.append(functions[address])
                ptrace(POKEUSER, thread, RIP, address)
            elif stop_signal not in (signal.SIGTRAP, signal.SIGSTOP):
                forwarded = stop_signal
            ptrace(resume, thread, 0, forwarded)
    assert result, f"`{' '.join(command)}` has not run the component"
    return result


def mapped(process, count, module):
    """Returns the index of the function at each address, or nothing until the process has mapped the component's code."""
    with open(f"/proc/{process}/maps") as maps:
        found = re.search(r"^(\w+)-\w+ r-xp (\w+) \S+ \S+ +(\S+\.cwasm)$", maps.read(), re.MULTILINE)
    if not found:
        return {}
    symbols = subprocess.run(["readelf", "-SsW", found[3]], capture_output=True, text=True, check=True).stdout
    text = int(re.search(r" \.text +PROGBITS +\w+ (\w+)", symbols)[1], 16)
    start = int(found[1], 16) - int(found[2], 16) + text
    functions = {}
    for value, index in re.findall(r": (\w+) .* FUNC .* wasm\[" + str(module) + r"\]::function\[(\d+)\]", symbols):
        functions[start + int(value, 16)] = int(index)
    assert max(functions.values()) + 1 == count, "the names belong to another component"
    return functions


def ptrace(request, process, address=0, data=0):
    ctypes.set_errno(0)
    result = LIBC.ptrace(request, process, address, data)
    # A value that was read may also be -1.
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace request {request}: {os.strerror(ctypes.get_errno())}")
    return result


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long

if __name__ == "__main__":
    sys.exit(main())
