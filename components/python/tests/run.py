"""Runs each script of `cases/` in the sandbox, and compares its output and exit code with the expected ones.

    python3 components/python/tests/run.py --skillhost PATH [--programs target/components] [NAME...]
    python3 components/python/tests/run.py --native python3.14 [NAME...]

A case is NAME.py, with its settings in comments at its head, and NAME.expected:

    # argv: a 'b c'         arguments, split as a shell does
    # stdin: "text\\n"       a JSON string; by default standard input is empty
    # run: -m NAME          replaces the script's name on the command line: options, `-c CODE`, `-m MODULE`, `-`
    # env: A=1              an environment variable
    # server: yes           a web server runs at $SERVER, and nothing listens at $CLOSED
    # needs: NAME           a program or package that the case requires; without it the case is skipped
    # stderr: yes           standard error is compared, too
    # differs: yes          the output differs between runs and is not compared
    # sandbox: why          native CPython behaves differently; the expectation is written by hand

`BLESS=1` writes the expectations: from native CPython, or from skillhost for cases marked `sandbox`.
"""

import argparse
import difflib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from server import Server

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
ROOT = HERE.parent.parent.parent
SKILL = """---
name: python-cases
description: Runs the cases of the Python runtime.
allowed-tools: Read Write Bash WebFetch
---
"""
# Every command line of python3, in place of the skill's own script.
LAUNCHER = "import os, sys\n\nos.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
POLICY = """limits: { timeout: 10m, memory: 256MiB }
default:
  allow: [Read, Write, Bash]
  symlinks: true
"""
PACKAGES = ROOT / "target/components/python-packages"
BLESS = os.environ.get("BLESS") == "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--skillhost", metavar="PATH", help="the host")
    how.add_argument("--native", metavar="PYTHON", help="a native CPython instead, to see that the cases say what it does")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "target/components", help="the folder of built-in programs")
    parser.add_argument("names", nargs="*", help="only these cases")
    args = parser.parse_args()
    cases = sorted(CASES.glob("*.py"))
    unknown = set(args.names) - {case.stem for case in cases}
    if unknown:
        sys.exit(f"error: no such case: {', '.join(sorted(unknown))}")
    failed = ran = 0
    left_out = []
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        host = Native(args.native, folder) if args.native else Sandboxed(args.skillhost, args.programs, folder, server)
        for case in cases:
            wishes = read_wishes(case)
            if (args.names and case.stem not in args.names) or (args.native and "sandbox" in wishes):
                continue
            if "needs" in wishes and not host.has(wishes["needs"]):
                left_out.append(f"{case.stem} needs {wishes['needs']}")
                continue
            ran += 1
            failed += not check(case, wishes, host, pathlib.Path(folder), server)
    print(f"{ran - failed} of {ran} cases as expected" + "".join(f"\nleft out: {why}" for why in left_out))
    sys.exit(1 if failed or not ran else 0)


OURS = {"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "PYTHONUTF8": "1"}


class Native:
    def __init__(self, python, folder):
        self.python = python
        # A copy: start-up hooks of a machine's Python may change packages where they lie.
        self.packages = shutil.copytree(PACKAGES, folder / "packages")

    def has(self, name):
        done = subprocess.run([self.python, "-c", f"import {name}"], stderr=subprocess.DEVNULL)
        return shutil.which(name) is not None or done.returncode == 0

    def command(self, words, workspace, variables):
        given = dict(variable.split("=", 1) for variable in variables)
        return [self.python, *words], {**os.environ, **OURS, **given, "PYTHONPATH": str(self.packages)}


class Sandboxed:
    def __init__(self, skillhost, programs, folder, server):
        self.skillhost, self.programs, self.server = str(pathlib.Path(skillhost).resolve()), programs.resolve(), server
        self.skill, self.audit = folder / "python-cases", folder / "audit.jsonl"
        (self.skill / "scripts").mkdir(parents=True)
        (self.skill / "SKILL.md").write_text(SKILL)
        (self.skill / "scripts/launch.py").write_text(LAUNCHER)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def has(self, name):
        facts = [json.loads(file.read_text()) for file in self.programs.glob("*.json")]
        # The list of packages is no program.
        programs = [name for fact in facts if isinstance(fact, dict) for name in fact.get("programs", [])]
        return name in programs or (self.programs / "python-packages" / name).exists()

    def command(self, words, workspace, variables):
        options = [f"--workspace={workspace}", f"--audit={self.audit}", f"--policy={self.policy}", f"--programs={self.programs}"]
        options += [f"--env={variable}" for variable in variables]
        options += [f"--allow=WebFetch({url})" for url in (self.server.url, self.server.closed)]
        return [self.skillhost, "run", *options, str(self.skill), "--", *words], None


def read_wishes(case):
    wishes = {}
    for line in case.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"# (argv|stdin|run|env|server|needs|stderr|differs|sandbox): (.*)", line)
        if not match:
            break
        wishes[match[1]] = match[2]
    return wishes


def check(case, wishes, host, folder, server):
    got, complaint = run(case, wishes, host, folder, server)
    file = case.with_suffix(".expected")
    if "differs" in wishes:
        again, _ = run(case, wishes, host, folder, server)
        differ = all(one != other for one, other in zip(got.splitlines()[1:], again.splitlines()[1:]))
        if got.startswith("exit 0\n") and got.count("\n") > 1 and differ:
            return True
        print(f"--- {case.stem}: these two runs should have nothing in common\n{got}{again}{complaint}")
        return False
    if BLESS and (isinstance(host, Native) or "sandbox" in wishes):
        file.write_text(got, encoding="utf-8")
    expected = file.read_text(encoding="utf-8") if file.is_file() else ""
    if got == expected:
        return True
    print(f"--- {case.stem}")
    print("".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "expected", "got")))
    if wishes.get("stderr") != "yes":
        print(complaint)
    return False


def run(case, wishes, host, folder, server):
    """Returns the text by which a case is compared, and its standard error."""
    workspace = folder / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(CASES, workspace, ignore=shutil.ignore_patterns("*.expected", "__pycache__"))
    words = [*shlex.split(wishes.get("run", case.name)), *shlex.split(wishes.get("argv", ""))]
    variables = shlex.split(wishes.get("env", ""))
    if "server" in wishes:
        variables += [f"SERVER={server.url}", f"CLOSED={server.closed}"]
    command, environment = host.command(words, workspace, variables)
    given = json.loads(wishes.get("stdin", '""')).encode()
    done = subprocess.run(command, input=given, capture_output=True, cwd=workspace, env=environment, timeout=900)
    got = f"exit {done.returncode}\n" + text(done.stdout)
    if wishes.get("stderr") == "yes":
        got += "--- stderr\n" + text(done.stderr)
    # Where the folder lies natively, and what the ports are this time. In the sandbox the folder is called so.
    for name, stands_for in ((str(workspace), "/workspace"), (server.url, "SERVER"), (server.closed, "CLOSED")):
        got = got.replace(name, stands_for)
    return got, text(done.stderr)


def text(output):
    """Converts bytes to text that editors display and checkouts do not change."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in output.decode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main()
