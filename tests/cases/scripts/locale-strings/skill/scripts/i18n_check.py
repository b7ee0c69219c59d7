#!/usr/bin/env python3
"""Compare translation files with their source: missing and extra keys, placeholders, broken files."""
import argparse
import json
import os
import string
import sys
from pathlib import Path


def flatten(tree, prefix=()):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flatten(value, (*prefix, key))
        else:
            yield ".".join((*prefix, key)), value


def placeholders(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def check(source, other):
    for key in source.keys() - other.keys():
        yield "fehlt", key, source[key]
    for key in other.keys() - source.keys():
        yield "zu viel", key, other[key]
    for key in source.keys() & other.keys():
        if placeholders(source[key]) != placeholders(other[key]):
            yield "Platzhalter", key, f"{sorted(placeholders(source[key]))} ≠ {sorted(placeholders(other[key]))}"
        elif source[key] == other[key]:
            yield "gleich", key, source[key]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", default="en")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--strict", action="store_true")
    args = parser.parse_args()
    order = os.environ.get("LANG_ORDER", "").split(":")

    def load(path):
        with open(path) as f:
            return dict(flatten(json.load(f)))

    source = load(args.folder / f"{args.source}.json")
    files = [p for p in args.folder.iterdir() if p.suffix == ".json" and p.stem != args.source]
    files.sort(key=lambda p: order.index(p.stem) if p.stem in order else len(order))
    lines, worst = ["# Übersetzungen", ""], 0
    for path in files:
        try:
            other = load(path)
        except json.JSONDecodeError as e:
            print(f"{path.name}: Zeile {e.lineno}, Spalte {e.colno}: {e.msg}")
            worst = 2
            continue
        found = sorted(check(source, other))
        done = 1 - sum(kind == "fehlt" for kind, *_ in found) / len(source)
        print(f"{path.name}: {done:.0%}")
        lines += [f"## {path.stem}: {done:.0%}", "", *(f"- {kind}: `{key}` – {what}" for kind, key, what in found), ""]
        worst = max(worst, int(bool(found) and args.strict))
    if args.report:
        args.report.parent.mkdir(exist_ok=True)
        print("\n".join(lines), file=open(args.report, "w"))
    print("{0!r:>12}|{name:*^9}|{n:+08.2f}".format("ä", name="mitte", n=2.5))
    return worst


if __name__ == "__main__":
    sys.exit(main())
