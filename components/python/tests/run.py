"""Runs each script of `cases/` as `python3` does, in the sandbox, and compares what it prints and how it ends.

    python3 components/python/tests/run.py --skillhost PATH [--component target/components/python.wasm] [NAME...]
    python3 components/python/tests/run.py --native python3.14 [NAME...]

A case is NAME.py with its wishes in comments at its head, and NAME.expected:

    # argv: a 'b c'         arguments, split as a shell does
    # stdin: "text\\n"       a JSON string; without it standard input is at its end
    # run: -m NAME          what stands in place of the script's name on the command line: options, `-c CODE`, `-m MODULE`, `-`
    # env: A=1              a variable
    # stderr: yes           standard error is compared too
    # differs: yes          two runs print different things, and neither is compared with anything else
    # sandbox: why          native CPython does otherwise; what is expected was written by hand

`BLESS=1` writes what is expected: from native CPython, or for the cases marked `sandbox` from skillhost.
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

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
ROOT = HERE.parent.parent.parent
SKILL = """---
name: python-cases
description: Runs the cases of the Python runtime.
allowed-tools: Read Write
metadata:
  component: python.wasm
---
"""
# CPython calls itself deeper than other programs do before it says RecursionError.
POLICY = """limits: {{ stack: 32MiB }}
default:
  allow: [Read, Write]
  mounts:
    - {{ host: {packages}, guest: {guest}, mode: read }}
"""
PACKAGES = ROOT / "target/components/python-packages"
PACKAGES_IN_GUEST = "/usr/lib/python3.14/site-packages"
BLESS = os.environ.get("BLESS") == "1"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--skillhost", metavar="PATH", help="the host")
    how.add_argument("--native", metavar="PYTHON", help="a native CPython instead, to see that the cases say what it does")
    parser.add_argument("--component", type=pathlib.Path, default=ROOT / "target/components/python.wasm")
    parser.add_argument("names", nargs="*", help="only these cases")
    args = parser.parse_args()
    cases = sorted(CASES.glob("*.py"))
    unknown = set(args.names) - {case.stem for case in cases}
    if unknown:
        sys.exit(f"error: no such case: {', '.join(sorted(unknown))}")
    failed = ran = 0
    with tempfile.TemporaryDirectory() as folder:
        host = Native(args.native) if args.native else Sandboxed(args.skillhost, args.component, pathlib.Path(folder))
        for case in cases:
            wishes = read_wishes(case)
            if (args.names and case.stem not in args.names) or (args.native and "sandbox" in wishes):
                continue
            ran += 1
            failed += not check(case, wishes, host, pathlib.Path(folder))
    print(f"{ran - failed} of {ran} cases as expected")
    sys.exit(1 if failed or not ran else 0)


OURS = {"PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC", "PYTHONUTF8": "1"}


class Native:
    def __init__(self, python):
        self.python = python

    def command(self, words, workspace, variables):
        given = dict(variable.split("=", 1) for variable in variables)
        return [self.python, *words], {**os.environ, **OURS, **given, "PYTHONPATH": str(PACKAGES)}


class Sandboxed:
    def __init__(self, skillhost, component, folder):
        self.skillhost = str(pathlib.Path(skillhost).resolve())
        self.skill, self.audit = folder / "python-cases", folder / "audit.jsonl"
        self.skill.mkdir()
        (self.skill / "SKILL.md").write_text(SKILL)
        shutil.copy(component, self.skill / "python.wasm")
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY.format(packages=json.dumps(str(PACKAGES)), guest=PACKAGES_IN_GUEST))

    def command(self, words, workspace, variables):
        options = [f"--workspace={workspace}", f"--audit={self.audit}", f"--policy={self.policy}"]
        options += [f"--env={variable}" for variable in [f"PYTHONPATH={PACKAGES_IN_GUEST}", *variables]]
        return [self.skillhost, "run", *options, str(self.skill), "--", *words], None


def read_wishes(case):
    wishes = {}
    for line in case.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"# (argv|stdin|run|env|stderr|differs|sandbox): (.*)", line)
        if not match:
            break
        wishes[match[1]] = match[2]
    return wishes


def check(case, wishes, host, folder):
    got, complaint = run(case, wishes, host, folder)
    file = case.with_suffix(".expected")
    if "differs" in wishes:
        again, _ = run(case, wishes, host, folder)
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


def run(case, wishes, host, folder):
    """What a case is compared by, and its standard error."""
    workspace = folder / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    shutil.copytree(CASES, workspace, ignore=shutil.ignore_patterns("*.expected", "__pycache__"))
    words = [*shlex.split(wishes.get("run", case.name)), *shlex.split(wishes.get("argv", ""))]
    command, environment = host.command(words, workspace, shlex.split(wishes.get("env", "")))
    given = json.loads(wishes.get("stdin", '""')).encode()
    done = subprocess.run(command, input=given, capture_output=True, cwd=workspace, env=environment, timeout=120)
    got = f"exit {done.returncode}\n" + text(done.stdout)
    if wishes.get("stderr") == "yes":
        got += "--- stderr\n" + text(done.stderr)
    # Where the folder lies natively. In the sandbox it is called so.
    return got.replace(str(workspace), "/workspace"), text(done.stderr)


def text(output):
    """As text that any editor shows and no checkout changes."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in output.decode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main()
