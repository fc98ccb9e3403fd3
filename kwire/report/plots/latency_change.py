"""Plot of latency before and after: a row of two lines for each API, on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.report import formats
from kwire.report.diff import LatencyChange
from kwire.report.markup import Markup, join, tag
from kwire.report.plots.bars import DIAMOND, labelled_row
from kwire.report.plots.scale import Scale, latency_scale
from kwire.report.plots.svg import draw_legend, draw_svg
from kwire.report.row_types import LatencyRow

LINE_HEIGHT = 15
HEIGHT = 2 * LINE_HEIGHT + 2
RADIUS = 4


def plot_latency_changes(rows: Sequence[LatencyChange]) -> Markup:
    """The rows, with axis and legend."""
    latencies = [latency for row in rows for latency in (row.before, row.after) if latency]
    scale = latency_scale([us for latency in latencies for us in (latency.p50_us, latency.p99_us)])
    lines = []
    for row in rows:
        parts = scale.grid(HEIGHT)
        for line_number, (name, latency) in enumerate((("before", row.before), ("after", row.after))):
            if latency is not None:
                parts.append(_line(name, latency, scale, line_number))
        change = f"\N{MULTIPLICATION SIGN} {row.ratio:.3g} at p95" if row.ratio is not None else _presence(row)
        lines.append(labelled_row(row.api, change, draw_svg(f"{row.api}: {change}", *parts, height=HEIGHT)))
    axis = tag("li", scale.x_axis(), class_="axis")
    return join(tag("ul", axis, *lines, class_="rows"), draw_legend([("before", "c4"), ("after", "c0")]))


def _presence(row: LatencyChange) -> str:
    return "only after" if row.before is None else "only before"


def _line(name: str, row: LatencyRow, scale: Scale, line_number: int) -> Markup:
    y = LINE_HEIGHT // 2 + 1 + line_number * LINE_HEIGHT
    p50, p95, p99 = map(scale.x, (row.p50_us, row.p95_us, row.p99_us))
    title = f"{name}: p50 {formats.span(row.p50_us)}, p95 {formats.span(row.p95_us)}, p99 {formats.span(row.p99_us)}"
    parts = [
        tag("title", title),
        tag("line", class_="reach", x1=p50, x2=p99, y1=y, y2=y),
        tag("line", class_="usual", x1=p50, x2=p95, y1=y, y2=y),
        tag("svg", tag("path", class_="mark p99", d=DIAMOND), x=p99, y=y, overflow="visible"),
        tag("circle", class_="mark p95", cx=p95, cy=y, r=RADIUS),
        tag("circle", class_="mark p50", cx=p50, cy=y, r=RADIUS),
    ]
    return tag("g", *parts, class_=f"pair {name}")
