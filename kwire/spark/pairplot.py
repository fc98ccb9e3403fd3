"""Latency before and after, a row of two lines for each API, on one logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kwire.spark import formats
from kwire.spark.changes import LatencyChange
from kwire.spark.markup import Markup, join, tag
from kwire.spark.row_types import LatencyRow
from kwire.spark.rowplots import DIAMOND, PAD, named_row
from kwire.spark.svg import anchor, drawing, legend, percent

LANE_HEIGHT = 15
HEIGHT = 2 * LANE_HEIGHT + 2
RADIUS = 4


def latencies(rows: Sequence[LatencyChange]) -> Markup:
    """The rows, their axis and their legend."""
    times = [us for row in rows for each in (row.before, row.after) if each for us in (each.p50_us, each.p99_us)]
    low = math.floor(math.log10(max(1, min(times))))
    high = max(low + 1, math.ceil(math.log10(max(1, *times))))

    def place(us: int) -> float:
        """Where a time stands on the scale."""
        return PAD + (100 - 2 * PAD) * (math.log10(max(us, 10**low)) - low) / (high - low)

    decades = [10**power for power in range(low, high + 1)]
    labels = [
        tag("text", formats.span(us), x=percent(place(us)), y=12, text_anchor=anchor(index, len(decades)))
        for index, us in enumerate(decades)
    ]
    axis = tag("li", tag("svg", *labels, width="100%", height=16, aria_hidden="true"), class_="axis")
    grid = [
        tag("line", class_="grid", x1=percent(place(us)), x2=percent(place(us)), y1="0", y2=HEIGHT) for us in decades
    ]
    lines = []
    for row in rows:
        parts = list(grid)
        for lane, (name, each) in enumerate((("before", row.before), ("after", row.after))):
            if each is not None:
                parts.append(_line(name, each, [place(us) for us in (each.p50_us, each.p95_us, each.p99_us)], lane))
        told = f"\N{MULTIPLICATION SIGN} {row.ratio:.3g} at p95" if row.ratio is not None else _only(row)
        lines.append(named_row(row.api, told, drawing(f"{row.api}: {told}", *parts, height=HEIGHT)))
    return join(tag("ul", axis, *lines, class_="rows"), legend([("before", "c4"), ("after", "c0")]))


def _only(row: LatencyChange) -> str:
    return "only after" if row.before is None else "only before"


def _line(name: str, row: LatencyRow, places: Sequence[float], lane: int) -> Markup:
    y = LANE_HEIGHT // 2 + 1 + lane * LANE_HEIGHT
    p50, p95, p99 = map(percent, places)
    told = f"{name}: p50 {formats.span(row.p50_us)}, p95 {formats.span(row.p95_us)}, p99 {formats.span(row.p99_us)}"
    parts = [
        tag("title", told),
        tag("line", class_="reach", x1=p50, x2=p99, y1=y, y2=y),
        tag("line", class_="usual", x1=p50, x2=p95, y1=y, y2=y),
        tag("svg", tag("path", class_="mark p99", d=DIAMOND), x=p99, y=y, overflow="visible"),
        tag("circle", class_="mark p95", cx=p95, cy=y, r=RADIUS),
        tag("circle", class_="mark p50", cx=p50, cy=y, r=RADIUS),
    ]
    return tag("g", *parts, class_=f"pair {name}")
