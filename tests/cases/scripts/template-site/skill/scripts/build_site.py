#!/usr/bin/env python3
"""Builds a small site from Markdown pages and the template of this skill."""
import argparse
import html
import os
import re
import shutil
import sys
from pathlib import Path
from string import Template
from typing import NamedTuple

ASSETS = Path(os.environ.get("CLAUDE_SKILL_DIR", Path(__file__).resolve().parents[1])) / "assets"


class Page(NamedTuple):
    name: str
    meta: dict
    text: str


def read(path):
    head, _, text = path.read_text().partition("\n\n")
    return Page(path.stem, dict(line.split(": ", 1) for line in head.splitlines()), text)


def markdown(text):
    paragraphs = []
    for block in re.split(r"\n{2,}", text.strip()):
        block = html.escape(block, quote=False)
        block = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", block)
        block = re.sub(r"`([^`]+)`", r"<code>\1</code>", block)
        paragraphs.append(f"<p>{block}</p>")
    return "\n".join(paragraphs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=Path)
    parser.add_argument("--out", type=Path, default=Path("site"))
    parser.add_argument("--var", action="append", default=[], help="NAME=VALUE")
    args = parser.parse_args()
    variables = {"site": "Küche", **{k: html.escape(v) for k, _, v in (v.partition("=") for v in args.var)}}

    template = Template((ASSETS / "page.html").read_text())
    pages = sorted((read(p) for p in args.pages.glob("*.md")), key=lambda p: int(p.meta.get("order", 99)))
    if args.out.exists():
        shutil.rmtree(args.out)
    args.out.mkdir()
    nav = " · ".join(f'<a href="{p.name}.html">{html.escape(p.meta["title"])}</a>' for p in pages)
    for page in pages:
        body = Template(markdown(page.text)).safe_substitute(variables)
        result = template.substitute(variables, title=page.meta["title"], nav=nav, body=body)
        target = args.out / f"{page.name}.html"
        target.write_text(result)
        print(f"✓ {target} ({len(result.encode())} bytes)")
    try:
        template.substitute(title="x")
    except KeyError as e:
        print(f"missing: {e}")


if __name__ == "__main__":
    main()
