#!/usr/bin/env python3
"""Extracts text, metadata and outline from PDF files."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys

try:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError
except ImportError:
    print("error: the package pypdf is missing: pip install -r requirements.txt", file=sys.stderr)
    sys.exit(2)

# Characters of context before and after a match.
CONTEXT = 60
POINTS_PER_MM = 72 / 25.4
# Ligatures, which users do not type in a search.
LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"})


class UsageError(Exception):
    """The file or an option is not valid."""


def main(argv=None) -> int:
    # pypdf warns of every small defect of a file; serious ones raise an exception.
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    args = parse_args(argv)
    try:
        reader = open_pdf(args.file, args.password)
        return args.verb(reader, args)
    except (UsageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    except PyPdfError as error:
        print(f"error: {args.file}: damaged or not a PDF: {error}", file=sys.stderr)
    return 2


def parse_args(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("file", help="the PDF file")
    common.add_argument("--password", help="password of an encrypted file")
    common.add_argument("--json", action="store_true", help="print JSON")
    ranged = argparse.ArgumentParser(add_help=False)
    ranged.add_argument("--pages", default="1-", help="pages, such as 1-3,7 [all]")

    info = verbs.add_parser("info", parents=[common], help="show pages, metadata and outline")
    info.set_defaults(verb=show_info)
    text = verbs.add_parser("text", parents=[common, ranged], help="extract the text, page by page")
    text.add_argument("--layout", action="store_true", help="keep columns and tables in place")
    text.set_defaults(verb=show_text)
    find = verbs.add_parser("find", parents=[common, ranged], help="find a text")
    find.add_argument("text", help="the text to find")
    find.add_argument("--regex", action="store_true", help="treat the text as a regular expression")
    find.set_defaults(verb=show_found)
    return parser.parse_args(argv)


def open_pdf(path, password) -> PdfReader:
    reader = PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(password or ""):
        raise UsageError(f"{path}: encrypted; --password opens it" if password is None else f"{path}: the password is wrong")
    return reader


def show_info(reader, args) -> int:
    metadata = {key.lstrip("/").lower(): str(value) for key, value in sorted((reader.metadata or {}).items())}
    sizes = {}
    for page in reader.pages:
        size = (round(float(page.mediabox.width) / POINTS_PER_MM), round(float(page.mediabox.height) / POINTS_PER_MM))
        sizes[size] = sizes.get(size, 0) + 1
    outline = list(outline_of(reader, reader.outline))
    if args.json:
        emit({
            "pages": len(reader.pages),
            "sizes_mm": [{"width": width, "height": height, "pages": count} for (width, height), count in sizes.items()],
            "metadata": metadata,
            "outline": [{"depth": depth, "title": title, "page": page} for depth, title, page in outline],
        })
        return 0
    print(f"pages: {len(reader.pages)}")
    print("size: " + ", ".join(f"{width} x {height} mm ({count})" for (width, height), count in sizes.items()))
    for key, value in metadata.items():
        print(f"{key}: {value}")
    if outline:
        print("outline:")
        for depth, title, page in outline:
            print(f"  {'  ' * depth}{title}{f' (page {page})' if page else ''}")
    return 0


def outline_of(reader, entries, depth=0):
    """Yields each entry as depth, title and page. A nested list has the children of the entry before it."""
    for entry in entries:
        if isinstance(entry, list):
            yield from outline_of(reader, entry, depth + 1)
            continue
        number = reader.get_destination_page_number(entry)
        yield depth, " ".join(str(entry.title).split()), None if number is None or number < 0 else number + 1


def show_text(reader, args) -> int:
    pages = [(number, text_of(reader, number, args.layout)) for number in page_numbers(args.pages, len(reader.pages))]
    if args.json:
        emit({"pages": [{"page": number, "text": text} for number, text in pages]})
        return 0
    for place, (number, text) in enumerate(pages):
        print(f"{chr(10) if place else ''}--- page {number} ---")
        print(text or "(empty: no text on this page, perhaps a picture)")
    return 0


def show_found(reader, args) -> int:
    try:
        pattern = re.compile(args.text if args.regex else loose(args.text), re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}") from error
    found = []
    for number in page_numbers(args.pages, len(reader.pages)):
        text = " ".join(text_of(reader, number).split())
        for match in pattern.finditer(text):
            start, end = max(0, match.start() - CONTEXT), match.end() + CONTEXT
            context = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
            found.append({"page": number, "match": match.group(), "context": context})
    if args.json:
        emit({"found": found})
    else:
        for entry in found:
            print(f"page {entry['page']}: {entry['context']}")
        if not found:
            print("not found")
    return 0 if found else 1


def loose(text) -> str:
    return r"\s+".join(re.escape(word) for word in text.split())


def text_of(reader, number, layout=False) -> str:
    text = reader.pages[number - 1].extract_text(extraction_mode="layout" if layout else "plain")
    return "\n".join(line.rstrip() for line in text.translate(LIGATURES).splitlines()).strip("\n")


def page_numbers(ranges, last) -> list[int]:
    """Returns the page numbers of a text such as `1-3,7`, in its order."""
    numbers = []
    for part in ranges.split(","):
        match = re.fullmatch(r"\s*(\d*)\s*(-?)\s*(\d*)\s*", part)
        if not match or not (match[1] or match[3]):
            raise UsageError(f"--pages: {part.strip()!r} is neither a page nor a range such as 2-5")
        start = int(match[1] or 1)
        end = int(match[3] or last) if match[2] else start
        if not 1 <= start <= end:
            raise UsageError(f"--pages: {part.strip()} names no page")
        if start > last or (match[3] and end > last):
            raise UsageError(f"--pages: {part.strip()}: the file has {last} page{'' if last == 1 else 's'}")
        numbers += range(start, end + 1)
    return numbers


def emit(value) -> None:
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
    print()


if __name__ == "__main__":
    sys.exit(main())
