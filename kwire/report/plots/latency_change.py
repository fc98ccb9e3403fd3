"""Plot of latency before and after: a row of two lines for each API, on one logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.report import formats
from kwire.report.colours import class_of
from kwire.report.diff import LatencyChange
from kwire.report.markup import Markup, join, tag
from kwire.report.plots.bars import DIAMOND, SLOWEST, draw_latency_legend, labelled_row, latency_points
from kwire.report.plots.scale import Scale, latency_scale
from kwire.report.plots.svg import draw_legend, draw_svg
from kwire.report.row_types import LatencyRow

LINE_HEIGHT = 15
HEIGHT = 2 * LINE_HEIGHT + 2
RADIUS = 4


def plot_latency_changes(rows: Sequence[LatencyChange]) -> Markup:
    """The rows, with axis and legend."""
    latencies = [latency for row in rows for latency in (row.before, row.after) if latency]
    scale = latency_scale([us for latency in latencies for us in latency_points(latency).values()])
    lines = []
    for row in rows:
        parts = scale.grid(HEIGHT)
        for line_number, (name, latency) in enumerate((("before", row.before), ("after", row.after))):
            if latency is not None:
                parts.append(_line(name, latency, scale, line_number))
        change = _describe_change(row)
        lines.append(labelled_row(row.api, change, draw_svg(f"{row.api}: {change}", *parts, height=HEIGHT)))
    axis = tag("li", scale.x_axis(), class_="axis")
    names = {name for latency in latencies for name in latency_points(latency)}
    legend = draw_legend([("before", class_of("before")), ("after", class_of("amount"))])
    return join(tag("ul", axis, *lines, class_="rows"), legend, draw_latency_legend(names))


def _describe_change(row: LatencyChange) -> str:
    if row.before is None or row.after is None:
        return "only after" if row.before is None else "only before"
    if row.ratio is None:
        return "too few requests for p95"
    return f"\N{MULTIPLICATION SIGN} {row.ratio:.3g} at p95"


def _line(name: str, row: LatencyRow, scale: Scale, line_number: int) -> Markup:
    y = LINE_HEIGHT // 2 + 1 + line_number * LINE_HEIGHT
    points = latency_points(row)
    title = f"{name}: {', '.join(f'{mark} {formats.span(us)}' for mark, us in points.items())}"
    x = {mark: scale.x(us) for mark, us in points.items()}
    first = next(iter(x.values()))
    parts = [tag("title", title), tag("line", class_="reach", x1=first, x2=x[SLOWEST], y1=y, y2=y)]
    if "p95" in x:
        parts.append(tag("line", class_="usual", x1=first, x2=x["p95"], y1=y, y2=y))
    parts.append(tag("line", class_="mark max", x1=x[SLOWEST], x2=x[SLOWEST], y1=y - 5, y2=y + 5))
    if "p99" in x:
        parts.append(tag("svg", tag("path", class_="mark p99", d=DIAMOND), x=x["p99"], y=y, overflow="visible"))
    parts += [tag("circle", class_=f"mark {mark}", cx=x[mark], cy=y, r=RADIUS) for mark in ("p95", "p50") if mark in x]
    return tag("g", *parts, class_=f"pair {name}")
