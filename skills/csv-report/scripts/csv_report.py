#!/usr/bin/env python3
"""Profiles a CSV file and writes an HTML report with charts."""

import argparse
import json
import sys
from pathlib import Path

import profiling
import report
import table


def main(argv=None) -> int:
    args = parse_args(argv)
    try:
        data = table.read(args.file, delimiter=args.delimiter, encoding=args.encoding)
    except (OSError, table.NotATable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    profile = profiling.profile(data, top=args.top, bins=args.bins)

    target = args.output
    if target is None and not args.json:
        target = Path("stdin.report.html" if args.file == "-" else Path(args.file).stem + ".report.html")
    if target is not None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(report.render(profile, title=args.title or data.name), encoding="utf-8")
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2

    if args.json:
        json.dump(profile, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        print(summary(profile))
        print(f"\nreport: {target}")
    return 0


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the CSV file; - reads standard input")
    parser.add_argument("-o", "--output", type=Path, help="path of the report [FILE.report.html]")
    parser.add_argument("--title", help="heading of the report [the file's name]")
    parser.add_argument("--top", type=positive, default=10, help="number of frequent values per column [10]")
    parser.add_argument("--bins", type=positive, default=24, help="maximum number of bars per histogram [24]")
    parser.add_argument("--delimiter", help="the field delimiter [detected]")
    parser.add_argument("--encoding", default="utf-8-sig", help="the character encoding [utf-8]")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args(argv)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def summary(profile) -> str:
    """Returns the summary to print."""
    lines = [f"{profile['name']}: {profile['rows']:,} rows, {len(profile['columns'])} columns"]
    width = max((len(column["name"]) for column in profile["columns"]), default=0)
    for column in profile["columns"]:
        lines.append(f"  {column['name']:<{width}}  {column['type']:<8}  {report.in_short(column)}".rstrip())
    if profile["findings"]:
        lines.append("findings:")
        lines += [f"  - {finding['text']}" for finding in profile["findings"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
