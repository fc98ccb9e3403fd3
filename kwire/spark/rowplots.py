"""Plots with one row for each thing: latency lines, bars, and bars divided by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.row_types import LatencyRow
from kwire.spark.svg import anchor, drawing, percent
from kwire.spark.svg import legend as swatches

Place = Callable[[int], float]

ROW_HEIGHT = 20
BAR_HEIGHT = 12
MIDDLE = ROW_HEIGHT // 2

# Space at both ends of the logarithmic axis, percent, so that the marks there are not cut.
PAD = 1.5

DIAMOND = "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"


def latency(rows: Sequence[LatencyRow]) -> Markup:
    """One line for each API on a logarithmic scale, with marks for p50, p95, p99 and the slowest."""
    low = math.floor(math.log10(max(1, min(row.p50_us for row in rows))))
    high = max(low + 1, math.ceil(math.log10(max(1, *(row.max_us for row in rows)))))

    def place(us: int) -> float:
        """Where a time stands on the scale."""
        return PAD + (100 - 2 * PAD) * (math.log10(max(us, 10**low)) - low) / (high - low)

    decades = [10**power for power in range(low, high + 1)]
    grid = [_vertical(place(us)) for us in decades]
    labels = [
        tag("text", formats.span(us), x=percent(place(us)), y=12, text_anchor=anchor(index, len(decades)))
        for index, us in enumerate(decades)
    ]
    axis = tag("li", tag("svg", *labels, width="100%", height=16, aria_hidden="true"))
    lines = [
        named_row(row.api, formats.plural(row.requests, "request"), _latency_line(row, grid, place)) for row in rows
    ]
    return join(tag("ul", axis, *lines, class_="rows"), _latency_legend())


def bars(rows: Sequence[tuple[str, int]], *, class_: str) -> Markup:
    """A bar for each label, on one scale."""
    top = max((value for _, value in rows), default=0) or 1
    return tag("ul", *(_bar(label, value, top, class_) for label, value in rows), class_="rows")


def mix(rows: Sequence[tuple[str, Mapping[str, int]]], classes: Mapping[str, str], *, noun: str = "record") -> Markup:
    """A bar of full width for each label, divided by kind; the legend names the kinds that occur."""
    lines = [
        named_row(label, formats.plural(sum(parts.values()), noun), _divided(label, parts, classes))
        for label, parts in rows
    ]
    seen = [(kind, class_) for kind, class_ in classes.items() if any(parts.get(kind) for _, parts in rows)]
    return join(tag("ul", *lines, class_="rows"), swatches(seen))


def named_row(label: str, value: str, plot: Markup) -> Markup:
    """One row of a plot: what it is about, its value in words, and its drawing."""
    head = tag("div", tag("span", label, class_="name"), tag("span", value, class_="value"), class_="label")
    return tag("li", head, plot)


def _latency_line(row: LatencyRow, grid: Sequence[Markup], place: Place) -> Markup:
    points = {"p50": row.p50_us, "p95": row.p95_us, "p99": row.p99_us, "max": row.max_us}
    told = ", ".join(f"{name} {formats.span(us)}" for name, us in points.items())
    start, ends = percent(place(row.p50_us)), [percent(place(us)) for us in (row.p95_us, row.max_us)]
    parts = [
        *grid,
        tag("line", class_="reach", x1=start, x2=ends[1], y1=MIDDLE, y2=MIDDLE),
        tag("line", class_="usual", x1=start, x2=ends[0], y1=MIDDLE, y2=MIDDLE),
        *(_point(name, us, place) for name, us in reversed(points.items())),
    ]
    return drawing(f"{row.api}: {told}", *parts, height=ROW_HEIGHT)


def _point(name: str, us: int, place: Place) -> Markup:
    x, told = percent(place(us)), tag("title", f"{name} {formats.span(us)}")
    if name == "max":
        return tag("line", told, class_="mark max", x1=x, x2=x, y1=MIDDLE - 7, y2=MIDDLE + 7)
    if name == "p99":
        # A nested drawing, since a path cannot be placed by percentages itself.
        return tag("svg", tag("path", told, class_="mark p99", d=DIAMOND), x=x, y=MIDDLE, overflow="visible")
    return tag("circle", told, class_=f"mark {name}", cx=x, cy=MIDDLE, r=5)


def _latency_legend() -> Markup:
    marks = {
        "half were faster (p50)": tag("circle", class_="p50", cx=7, cy=7, r=5),
        "p95": tag("circle", class_="p95", cx=7, cy=7, r=5),
        "p99": tag("path", class_="p99", d="M7 1.5L12.5 7L7 12.5L1.5 7Z"),
        "slowest": tag("line", class_="max", x1=7, x2=7, y1=0, y2=14),
    }
    items = [
        tag("li", tag("svg", mark, width=14, height=14, aria_hidden="true"), tag("span", name))
        for name, mark in marks.items()
    ]
    return tag("ul", *items, class_="legend")


def _vertical(x: float) -> Markup:
    return tag("line", class_="grid", x1=percent(x), x2=percent(x), y1="0", y2=ROW_HEIGHT)


def _bar(label: str, value: int, top: int, class_: str) -> Markup:
    # A bar too short to see would read as zero.
    width = percent(max(100 * value / top, 0.6) if value else 0)
    bar = tag("rect", class_=f"mark {class_}", x="0", y=4, width=width, height=BAR_HEIGHT, rx=2)
    return named_row(
        label, formats.count(value), drawing(f"{label}: {formats.count(value)}", _track(), bar, height=ROW_HEIGHT)
    )


def _divided(label: str, parts: Mapping[str, int], classes: Mapping[str, str]) -> Markup:
    whole, at = sum(parts.values()), 0.0
    drawn, told = [_track()], []
    for kind, class_ in classes.items():
        if value := parts.get(kind, 0):
            told.append(f"{kind} {formats.count(value)} ({formats.share(value, whole)})")
            width = 100 * value / whole
            title = tag("title", told[-1])
            x, wide = percent(at), percent(width)
            drawn.append(tag("rect", title, class_=f"mark {class_}", x=x, y=4, width=wide, height=BAR_HEIGHT))
            at += width
    return drawing(f"{label}: {', '.join(told) or 'nothing'}", *drawn, height=ROW_HEIGHT)


def _track() -> Markup:
    return tag("rect", class_="track", x="0", y=4, width="100%", height=BAR_HEIGHT, rx=2)
