"""Draws bar charts as inline SVG. The page sets the colours by class; each chart has a title and a description for screen readers."""

from html import escape

import report

WIDTH = 420
# The histogram: bars from TOP to BASE, a box for the middle half and the axis below.
TOP, BASE, BOX, HEIGHT = 14, 130, 138, 168


def histogram(name, title, about, data, marks=None) -> str:
    """Draws vertical bars; with marks (lower quartile, median, upper quartile), also a box below them."""
    edges, counts = data["edges"], data["counts"]
    most = max(counts)
    slot = WIDTH / len(counts)
    gap = 1 if slot > 4 else 0
    shapes = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{BASE}" y2="{BASE}"/>']
    for place, count in enumerate(counts):
        if count:
            tall = max(1.5, (BASE - TOP) * count / most)
            shapes.append(
                f'<rect class="bar" x="{place * slot + gap / 2:.2f}" y="{BASE - tall:.2f}" width="{slot - gap:.2f}" height="{tall:.2f}">'
                f"<title>{escape(report.figure(edges[place]))} to {escape(report.figure(edges[place + 1]))}: {count:,}</title></rect>"
            )
    peak = f"{most:,}"
    x = clamped((counts.index(most) + 0.5) * slot, peak)
    shapes.append(f'<text class="value" x="{x:.2f}" y="{TOP - 4}" text-anchor="middle">{peak}</text>')
    if data["left_out"]:
        shapes.append(f'<text x="{WIDTH}" y="{TOP - 4}" text-anchor="end">{data["left_out"]:,} far away, not shown</text>')
    if marks:
        shapes += box(marks, edges)
    labels = HEIGHT - 6 if marks else BASE + 18
    shapes += ticks(edges, slot, labels)
    return svg(name, title, about, labels + 6, shapes)


def box(marks, edges):
    reach = edges[-1] - edges[0]
    low, middle, high = (WIDTH * (mark - edges[0]) / reach for mark in marks)
    yield f'<rect class="track" x="{low:.2f}" y="{BOX}" width="{max(1, high - low):.2f}" height="8" rx="2"><title>middle half</title></rect>'
    yield f'<line class="median" x1="{middle:.2f}" x2="{middle:.2f}" y1="{BOX - 2}" y2="{BOX + 10}"/>'


def ticks(edges, slot, y):
    """Draws evenly spaced labels below the axis, as many as fit."""
    texts = [report.figure(edge) for edge in edges]
    every = max(1, -int(-(max(map(wide, texts)) + 14) // slot))
    free = 0
    for place in range(0, len(edges), every):
        x = clamped(place * slot, texts[place])
        if x - wide(texts[place]) / 2 >= free:
            yield f'<text x="{x:.2f}" y="{y}" text-anchor="middle">{escape(texts[place])}</text>'
            free = x + wide(texts[place]) / 2 + 8


def wide(text) -> float:
    """Returns the approximate width of a text of digits in the font of the charts."""
    return 6.8 * len(text)


def clamped(x, text) -> float:
    """Returns the centre of a text that stays inside the picture."""
    return min(max(x, wide(text) / 2), WIDTH - wide(text) / 2)


def bars(name, title, about, rows, total) -> str:
    """Draws horizontal bars, each with its label above it and its share at the end."""
    most = max(count for _, count in rows)
    pitch, shapes = 30, []
    for place, (label, count) in enumerate(rows):
        y = place * pitch
        long = max(1.5, WIDTH * count / most)
        shapes.append(f'<text class="value" x="0" y="{y + 12}">{escape(report.clip(label, 48))}</text>')
        shapes.append(f'<text x="{WIDTH}" y="{y + 12}" text-anchor="end">{count:,} · {report.share(count, total)}</text>')
        shapes.append(f'<rect class="track" x="0" y="{y + 17}" width="{WIDTH}" height="6" rx="3"/>')
        shapes.append(f'<rect class="bar" x="0" y="{y + 17}" width="{long:.2f}" height="6" rx="3"/>')
    return svg(name, title, about, len(rows) * pitch, shapes)


def svg(name, title, about, height, shapes) -> str:
    head = (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-title {name}-about">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-about">{escape(about)}</desc>'
    )
    return "\n".join([head, *shapes, "</svg>"])
