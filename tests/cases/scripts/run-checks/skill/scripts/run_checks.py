#!/usr/bin/env python3
"""Runs checks over a project, each in a process of its own, and reports which failed."""
import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHECKS = {
    ".py": [sys.executable, "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])"],
    ".json": [sys.executable, "-m", "json.tool"],
}


def check(path):
    command = [*CHECKS[path.suffix], str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return {"file": str(path), "ok": False, "why": "timeout"}
    why = done.stderr.strip().splitlines()[-1].split(":")[0] if done.returncode else ""
    return {"file": str(path), "ok": done.returncode == 0, "code": done.returncode, "why": why}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--report")
    args = parser.parse_args()
    files = sorted(p for p in args.root.rglob("*") if p.suffix in CHECKS)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(check, files))
    for result in results:
        print("✅" if result["ok"] else "❌", result["file"], result["why"])
    if args.report:
        with open(args.report, "w") as f:
            json.dump(results, f, indent=2)
    return int(not all(r["ok"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
