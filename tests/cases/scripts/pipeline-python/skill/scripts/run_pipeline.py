#!/usr/bin/env python3
"""Runs the steps of a pipeline, each a Python script of its own, with pipes between them."""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def step(name, *args, data=None, env=None):
    """Returns (exit code, stdout, stderr)."""
    command = [sys.executable, str(HERE / "steps" / f"{name}.py"), *args]
    done = subprocess.run(command, input=data, capture_output=True, text=True, env={**os.environ, **(env or {})})
    return done.returncode, done.stdout, done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--keep-going", action="store_true")
    args = parser.parse_args()

    with open(args.file) as f:
        text = f.read()
    code, out, err = step("clean", "--lower", data=text, env={"CLEAN_MARK": "→"})
    print("clean:", code, repr(out), repr(err))
    code, counted, err = step("count", data=out)
    print("count:", code, json.loads(counted), err.strip())

    # What a step writes next to its output stays apart from it.
    code, out, err = step("fail", "7")
    print("fail:", code, repr(out), err.splitlines()[-1])
    if code and not args.keep_going:
        return code

    try:
        subprocess.run([sys.executable, "-c", "import sys; sys.exit('stop')"], check=True, stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError as e:
        print("check:", e.returncode)
    out = subprocess.check_output([sys.executable, "-m", "json.tool", "--compact"], input=b'{"b": [1, 2], "a": "\xc3\xbc"}')
    print("json.tool:", out.decode("unicode_escape" if b"\\u" in out else "utf-8").strip())

    # Two at once, one the other's input.
    first = subprocess.Popen([sys.executable, "-c", "for i in range(5): print(i * i)"], stdout=subprocess.PIPE)
    second = subprocess.Popen([sys.executable, "-c", "import sys; print(sum(map(int, sys.stdin)))"], stdin=first.stdout, stdout=subprocess.PIPE, text=True)
    first.stdout.close()
    print("piped:", second.communicate()[0].strip(), first.wait(), second.returncode)

    try:
        subprocess.run(["no-such-program-here"])
    except FileNotFoundError as e:
        print("missing:", e.errno, e.filename)
    with open("out.txt", "w") as f:
        subprocess.run([sys.executable, "-c", "print('into a file'); import os; print(os.getcwd() == %r)" % os.getcwd()], stdout=f)
    print(subprocess.run(["python3", "-c", "import sys; print(sys.argv[1:])", "a b", "ü", ""], capture_output=True, text=True).stdout, end="")
    return 4


if __name__ == "__main__":
    sys.exit(main())
