#!/usr/bin/env python3
"""Write a table of contents between <!-- toc --> and <!-- /toc --> of Markdown files."""

from __future__ import annotations

import argparse
import re
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path

HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
MARKED = re.compile(r"(<!-- toc -->\n)(.*?)(<!-- /toc -->)", re.DOTALL)


@dataclass(frozen=True)
class Heading:
    level: int
    title: str
    slug: str


def slugify(title: str, seen: dict[str, int]) -> str:
    """GitHub's way: letters of any script stay, spaces become dashes, repeated ones are numbered."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
    slug = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LN").replace(" ", "-")
    number = seen.get(slug, 0)
    seen[slug] = number + 1
    return f"{slug}-{number}" if number else slug


def headings(text: str) -> list[Heading]:
    found, seen, fence = [], {}, None
    for line in text.splitlines():
        if m := FENCE.match(line):
            fence = None if fence == m[1][0] else fence or m[1][0]
        elif fence is None and (m := HEADING.match(line)):
            found.append(Heading(len(m[1]), m[2], slugify(m[2], seen)))
    return found


def render(found: list[Heading], most: int) -> str:
    top = min((h.level for h in found), default=1)
    return "".join(f"{'  ' * (h.level - top)}- [{h.title}](#{h.slug})\n" for h in found if h.level <= most)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--max-level", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()

    if not args.path.exists():
        print(f"❌ {args.path} not found", file=sys.stderr)
        return 1
    files = sorted(args.path.rglob("*.md")) if args.path.is_dir() else [args.path]
    changed = 0
    for file in files:
        text = file.read_text()
        if not MARKED.search(text):
            print(f"– {file.relative_to(args.path.parent)}: no marker")
            continue
        found = [h for h in headings(text) if h.level > 1]
        toc = render(found, args.max_level)
        new = MARKED.sub(lambda m: m[1] + toc + m[3], text)
        print(f"{'✓' if new == text else '✎'} {file.as_posix()}: {len(found)} headings")
        print(toc, end="")
        if new != text:
            changed += 1
            if args.write:
                file.write_text(new)
    print(f"{changed} of {len(files)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
