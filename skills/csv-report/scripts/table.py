"""Reads a CSV file into columns of text."""

import csv
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path

DELIMITERS = ",;\t|"
# The part of the file that is used to detect the delimiter.
SAMPLE = 64 * 1024


class NotATable(Exception):
    """The file is not valid CSV; the message says why."""


@dataclass
class Table:
    name: str
    size: int
    delimiter: str
    header: list
    # One list of fields per column, all of the same length.
    columns: list
    # Numbers of the lines with too few or too many fields.
    ragged: list = field(default_factory=list)
    duplicates: int = 0


def read(file, delimiter=None, encoding="utf-8-sig") -> Table:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    name = "standard input" if file == "-" else Path(file).name
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise NotATable(f"{name}: byte {error.start} is not {encoding}; try --encoding latin-1") from error
    except LookupError as error:
        raise NotATable(str(error)) from error
    if "\0" in text:
        raise NotATable(f"{name}: holds NUL characters, so it is no CSV file; UTF-16 is read with --encoding utf-16")
    if delimiter is None:
        delimiter = guess_delimiter(text[:SAMPLE])
    elif len(delimiter) != 1:
        raise NotATable(f"a delimiter is one character, not {delimiter!r}")
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = next((row for row in rows if row), None)
    if header is None:
        raise NotATable(f"{name}: empty")
    return fill(Table(name, len(raw), delimiter, names(header), [[] for _ in header]), rows)


def fill(table, rows) -> Table:
    width = len(table.header)
    seen = set()
    for row in rows:
        if not row:
            continue
        if len(row) != width:
            table.ragged.append(rows.line_num)
            row = (row + [""] * width)[:width]
        key = tuple(row)
        table.duplicates += key in seen
        seen.add(key)
        for column, value in zip(table.columns, row):
            column.append(value)
    return table


def guess_delimiter(sample) -> str:
    """Returns the delimiter that splits the first lines into the same, largest number of fields."""
    lines = [line for line in sample.splitlines()[:20] if line.strip()]
    if len(sample) == SAMPLE and len(lines) > 1:
        lines.pop()

    def score(candidate):
        widths = [len(row) for row in csv.reader(lines, delimiter=candidate)]
        if not widths or widths[0] < 2:
            return (0, 0)
        return (sum(width == widths[0] for width in widths), widths[0])

    return max(DELIMITERS, key=score)


def names(header) -> list:
    """Returns the names of the header, none empty and without duplicates."""
    taken = {}
    result = []
    for number, name in enumerate(header, 1):
        name = " ".join(name.split()) or f"column {number}"
        taken[name] = taken.get(name, 0) + 1
        result.append(name if taken[name] == 1 else f"{name} ({taken[name]})")
    return result
