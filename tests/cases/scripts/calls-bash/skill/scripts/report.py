#!/usr/bin/env python3
"""Counts lines and TODOs of a source tree with the shell's tools, and makes a report of it."""
import json
import os
import subprocess
import sys
import tempfile

SCRIPTS = os.path.dirname(os.path.abspath(__file__))


def sh(command, **kwargs):
    return subprocess.run(command, shell=True, check=True, text=True, stdout=subprocess.PIPE, **kwargs).stdout


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    listing = subprocess.run(["bash", os.path.join(SCRIPTS, "count.sh"), root], capture_output=True, text=True)
    if listing.returncode != 0:
        print(listing.stderr, file=sys.stderr)
        return listing.returncode
    files = []
    for line in listing.stdout.splitlines():
        count, todos, path = line.split("\t")
        files.append({"path": path, "lines": int(count), "todos": int(todos)})
    print(json.dumps(files, indent=1))

    print(sh("grep -rn TODO . | sort", cwd=root), end="")
    print(sh("echo \"$GREETING, $(echo welt | tr a-z A-Z)\"", env={**os.environ, "GREETING": "Grüße"}), end="")
    print(sh("sort -n | tail -2", input="10\n9\n100\n1\n"), end="")

    bad = subprocess.run("echo out; echo err >&2; exit 9", shell=True, capture_output=True, text=True)
    print(bad.returncode, bad.stdout.strip(), bad.stderr.strip())
    merged = subprocess.run(["bash", "-c", "echo 1; echo 2 >&2; echo 3"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(merged.stdout.decode().split())

    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as f:
        f.write("set -e\nfalse\necho not reached\n")
    print("set -e:", subprocess.call(["bash", f.name]))
    os.unlink(f.name)

    process = subprocess.Popen(["bash", "-c", "while read -r x; do echo \"<$x>\"; done"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate("a\nb c\n")
    print(out.split("\n"), process.returncode)
    try:
        sh("exit 3")
    except subprocess.CalledProcessError as e:
        print(f"failed: {e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
