#!/usr/bin/env python3
"""Turns a spreadsheet's CSV export into plain CSV: UTF-8, commas, ISO dates, dots in numbers."""
import argparse
import codecs
import csv
import io
import locale
import re
import sys
from datetime import datetime


def number(text):
    match = re.fullmatch(r"\s*(-?[\d.]+(?:,\d+)?)\s*(€|EUR)?\s*", text)
    return match[1].replace(".", "").replace(",", ".") if match else None


def when(text):
    for form in ("%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--encoding")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()

    with open(args.file, "rb") as f:
        raw = f.read()
    try:
        raw.decode()
    except UnicodeDecodeError as e:
        print(f"not UTF-8: {e.reason} at {e.start}, {raw[e.start:e.start + 3]!r}")
    try:
        open(args.file).read()
    except UnicodeDecodeError as e:
        print("open() reads", e.encoding)
    text = raw.decode(args.encoding or "utf-8", errors="replace")
    dialect = csv.Sniffer().sniff(text.splitlines()[0], delimiters=";,\t")
    print("dialect", repr(dialect.delimiter), repr(dialect.quotechar), csv.Sniffer().has_header(text))
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), dialect) if row]
    with open(args.out, "w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=["name", "preis", "datum"], lineterminator="\n")
        writer.writeheader()
        for name, price, date in rows[1:]:
            writer.writerow({"name": name, "preis": number(price) or "", "datum": when(date) or ""})
    with open(args.out) as f:
        for row in csv.DictReader(f):
            print(row)
    with codecs.open("utf16.txt", "w", "utf-16-le") as f:
        f.write("Größe €\n")
    with open("bom.txt", "w", encoding="utf-8-sig") as f:
        f.write("ä\n")
    print(open("bom.txt").read().encode("unicode_escape"), open("utf16.txt", "rb").read()[:4])
    print(sys.getdefaultencoding(), sys.stdout.encoding, sys.getfilesystemencoding(), locale.getpreferredencoding(False))
    for name in ("latin-1", "cp1252", "cp437", "utf-7", "idna", "shift_jis", "gb18030", "punycode"):
        try:
            print(name, "münchen".encode(name))
        except UnicodeEncodeError as e:
            print(name, "cannot", e.object[e.start])
    print("surrogate", "x\udcff".encode("utf-8", "surrogateescape"), "é".encode("ascii", "xmlcharrefreplace"), "naïve".encode("ascii", "ignore"))


if __name__ == "__main__":
    main()
