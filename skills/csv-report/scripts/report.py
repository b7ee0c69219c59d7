"""Renders a profile as an HTML report: one file without scripts, for light and dark screens and for printing."""

from html import escape

import charts

LEVELS = {"serious": "Serious", "warning": "Warning", "note": "Note"}

STYLE = """
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --line: #dde1e7; --text: #1b2330; --soft: #566073; --bar: #3b6fb6; --bar-soft: #d5e1f1;
  --serious: #b3261e; --warning: #8a5a00; --note: #2f5d95; }
@media (prefers-color-scheme: dark) { :root {
  --page: #12161c; --card: #1b2129; --line: #323b47; --text: #e6eaf0; --soft: #a3adbb; --bar: #7aa7e0; --bar-soft: #2b3b50;
  --serious: #ff9a91; --warning: #e8b45a; --note: #9dc0ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
p { margin: 0; }
.soft { color: var(--soft); }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--card); padding: .5rem 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1.5rem 0 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .75rem 1rem; }
.tiles dt { color: var(--soft); font-size: .85rem; }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums; }
.findings { list-style: none; margin: 0; padding: 0; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
.findings li { display: flex; gap: .9rem; padding: .55rem 1rem; border-top: 1px solid var(--line); }
.findings li:first-child { border-top: 0; }
.level { flex: none; width: 4.6rem; font-weight: 600; }
.level-serious { color: var(--serious); } .level-warning { color: var(--warning); } .level-note { color: var(--note); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
.scroll:focus-visible, a:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: .85rem; padding: .25rem 0; }
th, td { text-align: left; padding: .4rem .9rem; vertical-align: middle; }
td.number, th.number { text-align: right; white-space: nowrap; }
.overview thead th { color: var(--soft); font-size: .85rem; font-weight: 600; }
.overview tbody tr { border-top: 1px solid var(--line); }
.overview tbody th { font-weight: 600; }
.overview td.short { min-width: 14rem; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: .2em; }
.columns { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1rem; align-items: stretch; }
.column { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.1rem; scroll-margin-top: 1rem; break-inside: avoid; }
.column > header { display: flex; justify-content: space-between; align-items: baseline; gap: 1rem; padding: 0; margin-bottom: .75rem; }
.type { flex: none; color: var(--soft); font-size: .85rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(7.2rem, 1fr)); gap: .4rem 1rem; margin: .9rem 0 0; }
.figures dt { color: var(--soft); font-size: .8rem; }
.figures dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
details { margin-top: .75rem; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; }
details table { font-size: .9rem; margin-top: .25rem; }
details th, details td { padding: .15rem .5rem .15rem 0; overflow-wrap: anywhere; }
details th { font-weight: 400; }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
svg .bar { fill: var(--bar); } svg .track { fill: var(--bar-soft); } svg .axis { stroke: var(--line); } svg .middle { fill: var(--bar-soft); }
svg text { fill: var(--soft); } svg .median { stroke: var(--text); stroke-width: 1.5; } svg .value { fill: var(--text); }
.filled { display: inline-block; width: 5rem; height: .5rem; border-radius: .25rem; background: var(--bar-soft); margin-right: .5rem; overflow: hidden; }
.filled i { display: block; height: 100%; background: var(--bar); }
footer { padding: 2rem 1.25rem 3rem; font-size: .85rem; color: var(--soft); }
@media print { body { background: none; } .column, .scroll, .tiles div, .findings { border-color: #bbb; } .skip { display: none; } }
"""


def render(profile, title) -> str:
    columns = profile["columns"]
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        '<a class="skip" href="#columns">Skip to the columns</a>',
        "<header>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(described(profile, title))}</p>',
        tiles(profile),
        "</header>",
        "<main>",
        findings(profile),
        overview(profile),
        '<h2 id="columns">Columns</h2>',
        '<div class="columns">',
        *(card(number, column, profile["rows"]) for number, column in enumerate(columns, 1)),
        "</div>",
        "</main>",
        '<footer><p>Quantiles are interpolated. Outliers lie more than 3 interquartile ranges outside the middle half. '
        "Missing: empty fields, NA, N/A, NaN, null, none.</p></footer>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def described(profile, title) -> str:
    separators = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    by = separators.get(profile["delimiter"], profile["delimiter"])
    text = f"{size(profile['bytes'])}, separated by {by}"
    return text if title == profile["name"] else f"{profile['name']}: {text}"


def tiles(profile) -> str:
    cells = profile["rows"] * len(profile["columns"])
    rows = [
        ("Rows", f"{profile['rows']:,}"),
        ("Columns", f"{len(profile['columns']):,}"),
        ("Missing values", share(profile["missing_cells"], cells)),
        ("Duplicate rows", f"{profile['duplicate_rows']:,}"),
        ("Ragged rows", f"{profile['ragged_rows']:,}"),
    ]
    return '<dl class="tiles">' + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in rows) + "</dl>"


def findings(profile) -> str:
    if not profile["findings"]:
        return "<h2>Findings</h2>\n<p>Nothing looks wrong.</p>"
    items = [
        f'<li><span class="level level-{entry["level"]}">{LEVELS[entry["level"]]}</span><span>{escape(entry["text"])}</span></li>'
        for entry in profile["findings"]
    ]
    return "\n".join(["<h2>Findings</h2>", '<ul class="findings">', *items, "</ul>"])


def overview(profile) -> str:
    rows = []
    for number, column in enumerate(profile["columns"], 1):
        filled = 100 * column["count"] / profile["rows"] if profile["rows"] else 0
        rows.append(
            f'<tr><th scope="row"><a href="#column-{number}">{escape(column["name"])}</a></th><td>{column["type"]}</td>'
            f'<td class="number"><span class="filled" aria-hidden="true"><i style="width:{filled:.4g}%"></i></span>{share(column["count"], profile["rows"])}</td>'
            f'<td class="number">{column["distinct"]:,}</td><td class="short">{escape(in_short(column))}</td></tr>'
        )
    return "\n".join([
        "<h2>Overview</h2>",
        '<div class="scroll" tabindex="0" role="region" aria-label="Overview of the columns"><table class="overview">',
        '<thead><tr><th scope="col">Column</th><th scope="col">Type</th><th scope="col" class="number">Filled</th>'
        '<th scope="col" class="number">Distinct</th><th scope="col">In short</th></tr></thead>',
        "<tbody>",
        *rows,
        "</tbody></table></div>",
    ])


def in_short(column) -> str:
    """Describes the column in a phrase."""
    kind = column["type"]
    if kind in ("integer", "number"):
        return f"{figure(column['min'])} to {figure(column['max'])}, median {figure(column['quantiles']['p50'])}"
    if kind in ("date", "time"):
        return f"{column['min']} to {column['max']}"
    if kind == "boolean":
        return f"true in {share(column['true'], column['count'] - column['invalid'])}"
    if kind == "text":
        first = column["top"][0]
        if column["distinct"] == 1:
            return f"always {clip(first['value'], 40)}"
        if scattered(column) or first["count"] == 1:
            return characters(column)
        return f"most often {clip(first['value'], 40)} ({share(first['count'], column['count'])})"
    return ""


def characters(column) -> str:
    shortest, longest = column["length"]["min"], column["length"]["max"]
    return f"{shortest:,} characters" if shortest == longest else f"{shortest:,} to {longest:,} characters"


def scattered(column) -> bool:
    """Whether nearly all values are different, so that none is frequent."""
    return column["distinct"] > column["count"] / 2 and column["distinct"] > 10


def card(number, column, rows) -> str:
    parts = [
        f'<article class="column" id="column-{number}" aria-labelledby="name-{number}">',
        f'<header><h3 id="name-{number}">{escape(column["name"])}</h3><span class="type">{column["type"]}</span></header>',
        chart(number, column),
        figures(column, rows),
        table_of_values(column),
        "</article>",
    ]
    return "\n".join(part for part in parts if part)


def chart(number, column) -> str:
    name = column["name"]
    if "quantiles" in column:
        marks = (column["quantiles"]["p25"], column["quantiles"]["p50"], column["quantiles"]["p75"])
        about = f"{in_short(column)}; the middle half lies between {figure(marks[0])} and {figure(marks[2])}."
        if column["histogram"]["left_out"]:
            about += f" Not shown: {column['histogram']['left_out']:,} outliers."
        return charts.histogram(f"chart-{number}", f"Distribution of {name}", about, column["histogram"], marks)
    if "histogram" in column:
        return charts.histogram(f"chart-{number}", f"Rows over {name}", f"{in_short(column)}.", column["histogram"])
    if column["distinct"] > 1 and not scattered(column):
        rest = column["count"] - sum(entry["count"] for entry in column["top"])
        bars = [(entry["value"], entry["count"]) for entry in column["top"]] + ([("all others", rest)] if rest else [])
        return charts.bars(f"chart-{number}", f"Frequent values of {name}", f"{in_short(column)}.", bars, column["count"])
    return ""


def figures(column, rows) -> str:
    kind = column["type"]
    shown = [("distinct", f"{column['distinct']:,}")]
    if column["missing"]:
        shown.append(("missing", f"{column['missing']:,} ({share(column['missing'], rows)})"))
    if column["invalid"]:
        shown.append((f"not {kind}", f"{column['invalid']:,}"))
    if kind in ("integer", "number"):
        quantiles = [("median" if name == "p50" else f"{name[1:]}% are below", value) for name, value in column["quantiles"].items()]
        spread = [("mean", column["mean"]), ("deviation", column["stdev"]), ("sum", column["sum"])]
        shown += [(name, figure(value)) for name, value in [("minimum", column["min"]), *quantiles, ("maximum", column["max"]), *spread]]
        shown += [(name, f"{column[name]:,}") for name in ("zeros", "negative", "outliers") if column[name]]
    elif kind in ("date", "time"):
        shown += [("first", column["min"]), ("last", column["max"]), ("days between", f"{column['days']:,}")]
    elif kind == "text":
        shown.append(("length", characters(column)))
        if scattered(column):
            shown.append(("for example", ", ".join(clip(entry["value"], 40) for entry in column["top"][:3])))
    return '<dl class="figures">' + "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in shown) + "</dl>"


def table_of_values(column) -> str:
    """Lists the figures of a chart as text, for screen readers and for copying."""
    if "histogram" in column:
        edges, counts = column["histogram"]["edges"], column["histogram"]["counts"]
        rows = [(f"{figure(low)} to {figure(high)}", count) for low, high, count in zip(edges, edges[1:], counts) if count]
        head = ("Interval", "Rows")
    else:
        rows = [(clip(entry["value"], 80), entry["count"]) for entry in column["top"] if entry["count"] > 1]
        head = ("Value", "Rows")
    if not rows or scattered(column) and column["type"] == "text":
        return ""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td class="number">{count:,}</td></tr>' for name, count in rows)
    return (
        f'<details><summary>As a table</summary><table><thead><tr><th scope="col">{head[0]}</th>'
        f'<th scope="col" class="number">{head[1]}</th></tr></thead><tbody>{body}</tbody></table></details>'
    )


def figure(value) -> str:
    """Formats a number for reading: with digit groups and a reasonable precision."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{value:.4g}"
    magnitude = abs(value)
    if magnitude >= 1e15 or 0 < magnitude < 1e-4:
        return f"{value:.4g}"
    digits = 1 if magnitude >= 1000 else 2 if magnitude >= 10 else 4
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(part, whole) -> str:
    """Formats a percentage. Rounds neither to 0 nor to 100 unless exact."""
    if not whole or part == 0:
        return "0%"
    percent = 100 * part / whole
    if percent < 0.1:
        return "< 0.1%"
    if part < whole and percent > 99:
        return "> 99%"
    return f"{percent:.1f}%" if percent < 10 else f"{percent:.0f}%"


def size(count) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000


def clip(text, most) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
