"""Makes `order.txt` again: the functions of `python.wasm` that starts run, by name, in the order of their first call.

    python3 components/python/build/record_order.py [--skillhost target/release/skillhost]

Run it by hand on Linux, x86-64, when CPython or the pipeline has changed, then `cargo xtask python` again. It needs what that has made, a host, and
readelf. The host runs each start below with a breakpoint at the first byte of every function of the compiled component; what is called is
written down, and its breakpoint taken away.
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
# The most usual first: its functions lie closest together.
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
# Last: what is traced is a second run, whose scripts have been compiled.
STARTS["compiling"] = "\n".join(f"compile({code!r}, 'start', 'exec')" for code in STARTS.values())
TRACEME, CONT, PEEKUSER, POKEUSER, SYSCALL, SETOPTIONS = 0, 7, 3, 6, 24, 0x4200
SYSGOOD, CLONE, EXITKILL = 1, 8, 1 << 20
# Its place in the registers that <sys/user.h> lays out.
RIP = 16 * 8
# `__WALL`
ANY_THREAD = 0x40000000
BREAKPOINT = b"\xcc"


def main():
    record(__doc__, NAMES, STARTS, "py", 1, HERE / "order.txt")


def record(about, names, starts, extension, module, written):
    """Runs scripts, and writes down which functions of the component's main module, number `module`, they call."""
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
            # The first time each may compile: the component, and the script.
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            before = len(order)
            order.update(dict.fromkeys(names[index] for index in called(command, environment, len(names), module)))
            print(f"{name}: {len(order) - before} more functions")
    written.write_text("".join(f"{name}\n" for name in order))


def called(command, environment, count, module):
    """The numbers of the functions that a run of the host calls, of the component whose main module is number `module` and has `count` of them."""
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
    functions, waiting, result = {}, {}, []
    # Each system call stops it until the code is mapped, and then only the breakpoints do.
    go_on = SYSCALL
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        while True:
            thread, status = os.waitpid(-1, ANY_THREAD)
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                if thread == process:
                    break
                continue
            stopped, passed_on = os.WSTOPSIG(status), 0
            if stopped == signal.SIGTRAP | 0x80:
                if go_on == SYSCALL and (functions := mapped(process, count, module)):
                    go_on = CONT
                    for address in functions:
                        waiting[address] = os.pread(memory.fileno(), 1, address)
                        os.pwrite(memory.fileno(), BREAKPOINT, address)
            elif stopped == signal.SIGTRAP and status >> 16 == 0:
                address = ptrace(PEEKUSER, thread, RIP) - 1
                assert address in functions, f"a breakpoint that is none of ours at {address:#x}"
                if address in waiting:
                    os.pwrite(memory.fileno(), waiting.pop(address), address)
                    result.append(functions[address])
                ptrace(POKEUSER, thread, RIP, address)
            elif stopped not in (signal.SIGTRAP, signal.SIGSTOP):
                passed_on = stopped
            ptrace(go_on, thread, 0, passed_on)
    assert result, f"`{' '.join(command)}` has not run the component"
    return result


def mapped(process, count, module):
    """Address -> number of each function, once the process has mapped the component's code so that it can run."""
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
    assert max(functions.values()) + 1 == count, "not the component whose names these are"
    return functions


def ptrace(request, process, address=0, data=0):
    ctypes.set_errno(0)
    result = LIBC.ptrace(request, process, address, data)
    # What is read may be -1 too.
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace request {request}: {os.strerror(ctypes.get_errno())}")
    return result


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long

if __name__ == "__main__":
    sys.exit(main())
