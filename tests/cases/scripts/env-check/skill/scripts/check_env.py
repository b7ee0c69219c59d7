#!/usr/bin/env python3
"""Check that every variable of an example file is set, in the environment or a .env file."""
import argparse
import os
import re
import shlex
import sys

LINE = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$")


def parse(path):
    values = {}
    with open(path) as f:
        for n, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            m = LINE.match(line)
            if not m:
                print(f"{path}:{n}: ignored: {line}")
                continue
            words = shlex.split(m.group(2), comments=True)
            values[m.group(1)] = (words[0] if words else "", "# required" in line)
    return values


def mask(value):
    return value if len(value) < 4 else value[:2] + "•" * (len(value) - 2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("example")
    ap.add_argument("--dotenv")
    args = ap.parse_args()
    example = parse(args.example)
    dotenv = parse(args.dotenv) if args.dotenv and os.path.exists(args.dotenv) else {}

    missing = []
    for name, (default, required) in example.items():
        if os.environ.get(name):
            print(f"{name:<14} environment  {mask(os.environ[name])}")
        elif name in dotenv:
            print(f"{name:<14} {args.dotenv:<12} {mask(dotenv[name][0])}")
        elif default and not required:
            print(f"{name:<14} default      {default}")
        else:
            print(f"{name:<14} MISSING{' (required)' if required else ''}")
            missing.append(name)
    print("HOME" in os.environ, os.getenv("NOT_SET_ANYWHERE", "nein"), os.environ.get("LANGUAGE"))
    if missing:
        sys.exit(3)


if __name__ == "__main__":
    main()
