#!/usr/bin/env python3
"""Merge JSON configuration files; later ones win, environment variables APP_A__B and --set win over all."""

import argparse
import json
import os
import sys
from functools import reduce


def load(path):
    if path == "-":
        return json.load(sys.stdin)
    with open(path) as f:
        return json.load(f)


def merge(a, b):
    """b over a. None removes a key."""
    if not isinstance(a, dict) or not isinstance(b, dict):
        return b
    out = dict(a)
    for key, value in b.items():
        if value is None:
            out.pop(key, None)
        elif key in out:
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def parse_value(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def nested(path, value):
    return reduce(lambda inner, key: {key: inner}, reversed(path), value)


def from_environment(prefix="APP_"):
    for name in sorted(os.environ):
        if name.startswith(prefix):
            path = name[len(prefix):].lower().split("__")
            yield nested(path, parse_value(os.environ[name]))


def flatten(value, prefix=""):
    if isinstance(value, dict):
        for key in value:
            yield from flatten(value[key], f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("files", nargs="+")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    p.add_argument("--output", "-o")
    p.add_argument("--indent", type=int, default=2)
    args = p.parse_args(argv)

    layers = []
    for path in args.files:
        try:
            layers.append(load(path))
        except (OSError, json.JSONDecodeError) as e:
            print(f"error: {path}: {e}", file=sys.stderr)
            return 2
    layers += list(from_environment())
    for item in args.sets:
        key, sep, value = item.partition("=")
        if not sep:
            p.error(f"--set {item}: KEY=VALUE expected")
        layers.append(nested(key.split("."), parse_value(value)))

    merged = reduce(merge, layers, {})
    text = json.dumps(merged, indent=args.indent, sort_keys=True)
    if args.output:
        with open(args.output, "w") as f:
            print(text, file=f)
    for key, value in flatten(merged):
        print(f"{key} = {value!r}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
