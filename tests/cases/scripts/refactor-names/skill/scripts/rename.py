#!/usr/bin/env python3
"""Renames identifiers in a source tree; shows the diff first."""
import argparse
import collections
import difflib
import fnmatch
import glob
import os
import re
import sys


def camel_to_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root")
    parser.add_argument("--pattern", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--include", action="append")
    parser.add_argument("--apply", action="store_true")
    args = parser.parse_args()
    try:
        pattern = re.compile(rf"(?<!\w)(?:{args.pattern})(?!\w)")
    except re.error as e:
        print(f"✗ {e.msg} at {e.pos}", file=sys.stderr)
        return 2

    hits = collections.Counter()
    for path in sorted(glob.glob(os.path.join(args.root, "**", "*"), recursive=True)):
        if not os.path.isfile(path) or not any(fnmatch.fnmatch(os.path.basename(path), g) for g in args.include or ["*"]):
            continue
        with open(path, newline="") as f:
            text = f.read()

        def replace(match):
            hits[match.group()] += 1
            return match.expand(args.to)

        new, count = pattern.subn(replace, text)
        if not count:
            continue
        sys.stdout.writelines(difflib.unified_diff(text.splitlines(True), new.splitlines(True), f"a/{path}", f"b/{path}"))
        if args.apply:
            with open(path, "w", newline="") as f:
                f.write(new)
    for name, n in hits.most_common():
        print(f"{name:<12} {camel_to_snake(name):<12} {n}×")
    print([m.span() for m in re.finditer(r"\bgetUser\b", "getUser, getUsers, x.getUser")], re.split(r"([,;])\s*", "a, b;c"))
    print(re.sub(r"(\w+) (\w+)", r"\2 \1", "hallo welt"), re.findall(r"(?i)ß|ss", "Straße STRASSE"), re.escape("a.b*c"))
    print(re.match(r"(?P<y>\d{4})-(?P<m>\d\d)", "2024-10").groupdict(), bool(re.fullmatch(r"[\w.+-]+@[\w-]+\.[\w.]+", "zoë@exämple.org")))
    print(re.compile(r"""(\d+)   # Zahl
                         \s*(€|EUR)""", re.X).findall("12 €, 7EUR, 8 USD"))
    return 0 if hits else 1


if __name__ == "__main__":
    sys.exit(main())
