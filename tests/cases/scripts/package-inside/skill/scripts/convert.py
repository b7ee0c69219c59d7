#!/usr/bin/env python3
"""Converts recipes. The work is done by the package `cook` beside this folder."""
import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "lib"))

import cook  # noqa: E402
from cook import formats  # noqa: E402
from cook.parsing import RecipeError, parse  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--to", action="append", choices=sorted(formats.ALL))
    parser.add_argument("--unit", choices=["metric", "us"], default="us")
    args = parser.parse_args()
    print(f"cook {cook.__version__} from {os.path.relpath(cook.__file__, ROOT)}; {cook.__name__}, {formats.__package__}")
    with open(args.file) as f:
        try:
            recipe = parse(f.read(), metric=args.unit == "metric")
        except RecipeError as error:
            print(error, file=sys.stderr)
            return 1
    for name in args.to or ["text"]:
        target = Path(args.file).with_suffix(formats.ALL[name].suffix)
        if name == "text":
            target = target.with_name("plain.txt")
        target.write_text(formats.ALL[name](recipe))
        print(target, len(target.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
