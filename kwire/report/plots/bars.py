"""Plots with one row for each item: latency lines, bars, and stacked bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kwire.report import formats
from kwire.report.markup import Markup, join, tag
from kwire.report.plots.scale import Scale, latency_scale
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.row_types import LatencyRow

ROW_HEIGHT = 20
BAR_HEIGHT = 12
MIDDLE = ROW_HEIGHT // 2

DIAMOND = "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"


def plot_latency(rows: Sequence[LatencyRow]) -> Markup:
    """One line for each API on a logarithmic scale, with marks for p50, p95, p99 and the slowest."""
    scale = latency_scale([us for row in rows for us in (row.p50_us, row.max_us)])
    lines = [labelled_row(row.api, formats.plural(row.requests, "request"), _latency_line(row, scale)) for row in rows]
    return join(tag("ul", tag("li", scale.x_axis()), *lines, class_="rows"), _latency_legend())


def plot_bars(rows: Sequence[tuple[str, int]], *, class_: str) -> Markup:
    """A bar for each label, on a common scale."""
    top = max((value for _, value in rows), default=0) or 1
    return tag("ul", *(_bar(label, value, top, class_) for label, value in rows), class_="rows")


def plot_stacked_bars(
    rows: Sequence[tuple[str, Mapping[str, int]]], classes: Mapping[str, str], *, noun: str = "record"
) -> Markup:
    """A bar of full width for each label, divided by kind; the legend has the kinds that occur."""
    lines = [
        labelled_row(label, formats.plural(sum(parts.values()), noun), _stacked_bar(label, parts, classes))
        for label, parts in rows
    ]
    entries = [(kind, class_) for kind, class_ in classes.items() if any(parts.get(kind) for _, parts in rows)]
    return join(tag("ul", *lines, class_="rows"), draw_legend(entries))


def labelled_row(label: str, value: str, plot: Markup) -> Markup:
    """One row of a plot: its label, its value as text, and its drawing."""
    head = tag("div", tag("span", label, class_="name"), tag("span", value, class_="value"), class_="label")
    return tag("li", head, plot)


def _latency_line(row: LatencyRow, scale: Scale) -> Markup:
    points = {"p50": row.p50_us, "p95": row.p95_us, "p99": row.p99_us, "max": row.max_us}
    description = ", ".join(f"{name} {formats.span(us)}" for name, us in points.items())
    p50, p95, slowest = map(scale.x, (row.p50_us, row.p95_us, row.max_us))
    parts = [
        *scale.grid(ROW_HEIGHT),
        tag("line", class_="reach", x1=p50, x2=slowest, y1=MIDDLE, y2=MIDDLE),
        tag("line", class_="usual", x1=p50, x2=p95, y1=MIDDLE, y2=MIDDLE),
        *(_point(name, us, scale.x(us)) for name, us in reversed(points.items())),
    ]
    return draw_svg(f"{row.api}: {description}", *parts, height=ROW_HEIGHT)


def _point(name: str, us: int, x: str) -> Markup:
    title = tag("title", f"{name} {formats.span(us)}")
    if name == "max":
        return tag("line", title, class_="mark max", x1=x, x2=x, y1=MIDDLE - 7, y2=MIDDLE + 7)
    if name == "p99":
        # A nested drawing, since a path cannot be placed by percentages itself.
        return tag("svg", tag("path", title, class_="mark p99", d=DIAMOND), x=x, y=MIDDLE, overflow="visible")
    return tag("circle", title, class_=f"mark {name}", cx=x, cy=MIDDLE, r=5)


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


def _bar(label: str, value: int, top: int, class_: str) -> Markup:
    # A bar that is too short to see would be read as zero.
    width = percent(max(100 * value / top, 0.6) if value else 0)
    bar = tag("rect", class_=f"mark {class_}", x="0", y=4, width=width, height=BAR_HEIGHT, rx=2)
    count = formats.count(value)
    return labelled_row(label, count, draw_svg(f"{label}: {count}", _track(), bar, height=ROW_HEIGHT))


def _stacked_bar(label: str, parts: Mapping[str, int], classes: Mapping[str, str]) -> Markup:
    total, x_percent = sum(parts.values()), 0.0
    rects, descriptions = [_track()], []
    for kind, class_ in classes.items():
        if value := parts.get(kind, 0):
            descriptions.append(f"{kind} {formats.count(value)} ({formats.share(value, total)})")
            width = 100 * value / total
            title = tag("title", descriptions[-1])
            x, width_percent = percent(x_percent), percent(width)
            rects.append(tag("rect", title, class_=f"mark {class_}", x=x, y=4, width=width_percent, height=BAR_HEIGHT))
            x_percent += width
    return draw_svg(f"{label}: {', '.join(descriptions) or 'nothing'}", *rects, height=ROW_HEIGHT)


def _track() -> Markup:
    return tag("rect", class_="track", x="0", y=4, width="100%", height=BAR_HEIGHT, rx=2)
