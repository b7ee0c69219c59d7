"""Profiles a table: types, statistics, distributions and findings."""

import math
import re
import statistics
from collections import Counter
from datetime import datetime, timedelta

MISSING = {"", "na", "n/a", "nan", "null", "none"}
BOOLEANS = {"true": True, "false": False, "yes": True, "no": False}
# The minimum share of a column's values that determines its type.
MAJORITY = 0.95
# Shares of the sorted values, for the table of quantiles.
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Levels of findings, the worst first.
LEVELS = ("serious", "warning", "note")
# The number of interquartile ranges beyond the middle half that makes a value an outlier.
FENCE = 3

# No leading zeros: such values are codes, for example postcodes.
INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)")
NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
DATE = re.compile(r"\d{4}([-/])\d\d\1\d\d")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?")


def profile(table, top=10, bins=24) -> dict:
    columns = [column(name, values, top, bins) for name, values in zip(table.header, table.columns)]
    result = {
        "name": table.name,
        "bytes": table.size,
        "delimiter": table.delimiter,
        "rows": len(table.columns[0]) if table.columns else 0,
        "duplicate_rows": table.duplicates,
        "ragged_rows": len(table.ragged),
        "missing_cells": sum(entry["missing"] for entry in columns),
        "columns": columns,
    }
    result["findings"] = sorted(findings(result, table.ragged), key=lambda entry: LEVELS.index(entry["level"]))
    return result


def column(name, raw, top, bins) -> dict:
    values = [value.strip() for value in raw]
    present = [value for value in values if value.lower() not in MISSING]
    kind, parsed = typed(present)
    counts = Counter(present)
    result = {
        "name": name,
        "type": kind,
        "count": len(present),
        "missing": len(values) - len(present),
        "invalid": len(present) - len(parsed),
        "distinct": len(counts),
    }
    # Sorted by count, then by value, so that the order is reproducible.
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top]
    result["top"] = [{"value": value, "count": count} for value, count in frequent]
    if kind in ("integer", "number"):
        result.update(numbers(parsed, bins, whole=kind == "integer"))
    elif kind in ("date", "time"):
        result.update(moments(parsed, bins))
    elif kind == "boolean":
        result["true"] = sum(parsed)
    elif kind == "text":
        lengths = [len(value) for value in present]
        result["length"] = {"min": min(lengths), "mean": round(statistics.fmean(lengths), 2), "max": max(lengths)}
    return result


def typed(present):
    """Returns the type of a column and its values of that type."""
    if not present:
        return "empty", []
    enough = MAJORITY * len(present)
    for kind, parse in PARSERS:
        # Most text columns are recognised after a few values.
        if sum(parse(value) is not None for value in present[:20]) < 10 and len(present) >= 20:
            continue
        parsed = [result for result in map(parse, present) if result is not None]
        if len(parsed) >= enough:
            return kind, parsed
    return "text", present


def parse_integer(text):
    return int(text) if INTEGER.fullmatch(text) and len(text) < 30 else None


def parse_number(text):
    if not NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def parse_date(text):
    return read_time(text.replace("/", "-")) if DATE.fullmatch(text) else None


def parse_time(text):
    return read_time(text.replace("Z", "+00:00")) if TIME.fullmatch(text) else parse_date(text)


def read_time(text):
    try:
        # Local time: a column is charted in its own time zone.
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


PARSERS = [
    ("boolean", lambda text: BOOLEANS.get(text.lower())),
    ("integer", parse_integer),
    ("number", parse_number),
    ("date", parse_date),
    ("time", parse_time),
]


def numbers(values, bins, whole) -> dict:
    values = sorted(values)
    quantiles = [quantile(values, share) for share in QUANTILES]
    low, high = quantiles[1], quantiles[3]
    reach = FENCE * (high - low)
    inside = [value for value in values if low - reach <= value <= high + reach] if reach else values
    # A few extreme values would squeeze all others into one bar.
    squeezed = values[-1] - values[0] > 3 * (inside[-1] - inside[0])
    return {
        "min": values[0],
        "max": values[-1],
        "mean": tidy(statistics.fmean(values)),
        "stdev": tidy(statistics.stdev(values)) if len(values) > 1 else 0,
        "sum": tidy(math.fsum(values)),
        "zeros": sum(value == 0 for value in values),
        "negative": sum(value < 0 for value in values),
        "outliers": len(values) - len(inside),
        "quantiles": {f"p{share * 100:g}": tidy(value) for share, value in zip(QUANTILES, quantiles)},
        "histogram": {**histogram(inside if squeezed else values, bins, whole), "left_out": len(values) - len(inside) if squeezed else 0},
    }


def quantile(ordered, share):
    """Interpolates between the two neighbouring values."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def histogram(ordered, bins, whole=False) -> dict:
    """Returns counts for intervals with round bounds. The last interval includes its upper bound."""
    low, high = ordered[0], ordered[-1]
    step = round_step((high - low) / bins)
    if whole:
        step = max(1, math.ceil(step))
    start = math.floor(low / step)
    count = max(1, math.floor(high / step) - start + 1)
    counts = [0] * count
    for value in ordered:
        counts[min(count - 1, max(0, math.floor(value / step) - start))] += 1
    return {"edges": [tidy((start + i) * step) for i in range(count + 1)], "counts": counts}


def round_step(width) -> float:
    """Returns the next round number: 1, 2, 2.5 or 5 times a power of ten."""
    if width <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(width))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= width * (1 - 1e-12))


def moments(values, bins) -> dict:
    first, last = min(values), max(values)
    edges = calendar_edges(first, last, bins)
    counts = [0] * (len(edges) - 1)
    place = 0
    for value in sorted(values):
        while place + 1 < len(counts) and value >= edges[place + 1]:
            place += 1
        counts[place] += 1
    return {
        "min": show_time(first),
        "max": show_time(last),
        "days": (last - first).days,
        "histogram": {"edges": [show_time(edge) for edge in edges], "counts": counts, "left_out": 0},
    }


def calendar_edges(first, last, bins) -> list:
    """Returns interval bounds in the smallest calendar unit that needs no more than this number of bars."""
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    for minutes in (1, 5, 15, 60, 180, 360, 720, 1440, 7 * 1440):
        step = timedelta(minutes=minutes)
        start = midnight - timedelta(days=midnight.weekday()) if minutes > 1440 else midnight
        start += (first - start) // step * step
        count = (last - start) // step + 1
        if count <= bins:
            return [start + i * step for i in range(count + 1)]
    for months in (1, 3, 12, 60, 120, 1200, 12000):
        ordinal = (first.year * 12 + first.month - 1) // months * months
        count = (last.year * 12 + last.month - 1 - ordinal) // months + 1
        if count <= bins or months == 12000:
            return [month_start(ordinal + i * months) for i in range(count + 1)]


def month_start(ordinal) -> datetime:
    year = ordinal // 12
    if year < 1 or year > 9999:
        return datetime.min if year < 1 else datetime.max
    return datetime(year, ordinal % 12 + 1, 1)


def show_time(value) -> str:
    return value.date().isoformat() if value.time() == datetime.min.time() else value.isoformat(sep=" ", timespec="seconds")


def tidy(number):
    """Rounds away the errors of floating-point arithmetic."""
    if isinstance(number, int):
        return number
    number = float(f"{number:.10g}")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def findings(profile, ragged):
    """Yields the findings that deserve attention."""
    rows = profile["rows"]
    if rows == 0:
        yield finding("serious", None, "the file has a header and no rows")
        return
    if ragged:
        where = ", ".join(map(str, ragged[:5])) + (", ..." if len(ragged) > 5 else "")
        noun = "row has" if len(ragged) == 1 else "rows have"
        yield finding("serious", None, f"{len(ragged):,} {noun} another number of fields than the header (line {where})")
    if profile["duplicate_rows"]:
        noun = "row is" if profile["duplicate_rows"] == 1 else "rows are"
        yield finding("warning", None, f"{profile['duplicate_rows']:,} {noun} an exact copy of an earlier one")
    for entry in profile["columns"]:
        name, count = entry["name"], entry["count"]
        if count == 0:
            yield finding("serious", name, f"{name}: every value is missing")
            continue
        if entry["invalid"]:
            noun = "value is" if entry["invalid"] == 1 else "values are"
            yield finding("serious", name, f"{name}: {entry['invalid']:,} {noun} no {entry['type']}")
        if entry["missing"] / rows >= 0.05:
            yield finding("warning", name, f"{name}: {entry['missing'] / rows:.0%} of the values are missing")
        if entry["distinct"] == 1 and rows > 1:
            yield finding("note", name, f"{name}: always {entry['top'][0]['value']}")
        if entry["distinct"] == rows and entry["type"] in ("text", "integer") and rows > 20:
            yield finding("note", name, f"{name}: every value is different, as in a key")
        if entry.get("outliers"):
            noun = "value lies" if entry["outliers"] == 1 else "values lie"
            yield finding("note", name, f"{name}: {entry['outliers']:,} {noun} far outside the middle half")


def finding(level, column_name, text) -> dict:
    return {"level": level, "column": column_name, "text": text}
