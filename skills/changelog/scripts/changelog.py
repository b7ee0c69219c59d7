#!/usr/bin/env python3
"""Converts a log of conventional commits to a section of a changelog. Called by `changelog.sh`."""

import argparse
import subprocess
import sys
from pathlib import Path

import commits
import markdown

HERE = Path(__file__).resolve().parent


def main() -> int:
    args = parse_args()
    log = read_log(args)
    found = commits.without_reverted(commits.parse(log))
    for commit in found:
        if commit.kind is None:
            print(f"warning: {commit.id[:8] or 'a commit'}: not a conventional commit: {commit.subject}", file=sys.stderr)

    if args.next:
        if args.after is None:
            return wrong("--next needs --after: the version before")
        version = commits.next_version(args.after, found)
        if version is None:
            print(f"nothing to release after {args.after}", file=sys.stderr)
            return 1
        print(version)
        return 0

    section = markdown.section(args.version, args.date, found, args.repo, args.all)
    if section is None:
        print("nothing to release", file=sys.stderr)
        return 1
    if args.output is None:
        print(section, end="")
        return 0

    before = args.output.read_text(encoding="utf-8") if args.output.exists() else ""
    after = markdown.insert(before, args.version, section)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(after, encoding="utf-8")
    print(f"{args.output}: {'replaced' if markdown.has(before, args.version) else 'added'} {args.version}", flush=True)
    return subprocess.run(["bash", str(HERE / "lint.sh"), str(args.output)]).returncode


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--log", help="the output of `git log`; - is standard input")
    source.add_argument("--fragments", type=Path)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--version")
    wanted.add_argument("--next", action="store_true")
    parser.add_argument("--after", metavar="VERSION")
    parser.add_argument("--date", default="unreleased")
    parser.add_argument("--repo", metavar="URL")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    for version in filter(None, (args.version, args.after)):
        if commits.VERSION.fullmatch(version) is None:
            parser.error(f"{version!r} is not a version such as 1.5.0")
    return args


def read_log(args) -> str:
    if args.fragments is not None:
        collected = subprocess.run(["bash", str(HERE / "collect.sh"), str(args.fragments)], stdout=subprocess.PIPE, text=True, encoding="utf-8")
        if collected.returncode != 0:
            sys.exit(2)
        return collected.stdout
    if args.log == "-":
        return sys.stdin.read()
    try:
        return Path(args.log).read_text(encoding="utf-8")
    except OSError as error:
        sys.exit(wrong(str(error)))


def wrong(message) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
