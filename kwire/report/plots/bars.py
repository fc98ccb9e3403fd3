"""Plots with one row for each item: latency lines, bars, and stacked bars."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kwire.report import formats
from kwire.report.markup import Markup, join, tag
from kwire.report.plots.scale import Scale, latency_scale
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.row_types import LatencyRow

ROW_HEIGHT = 20
BAR_HEIGHT = 12
MIDDLE = ROW_HEIGHT // 2

# The name of the mark at the maximum.
SLOWEST = "slowest"
DIAMOND = "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"


def plot_latency(rows: Sequence[LatencyRow]) -> Markup:
    """One line for each API on a logarithmic scale, with marks for the slowest and for percentiles."""
    scale = latency_scale([us for row in rows for us in latency_points(row).values()])
    lines = [labelled_row(row.api, formats.plural(row.requests, "request"), _latency_line(row, scale)) for row in rows]
    names = {name for row in rows for name in latency_points(row)}
    axis = tag("li", scale.x_axis(), class_="axis")
    return join(tag("ul", axis, *lines, class_="rows"), draw_latency_legend(names))


def plot_bars(rows: Sequence[tuple[str, int]], *, class_: str) -> Markup:
    """A bar for each label, on a common scale."""
    top = max((value for _, value in rows), default=0) or 1
    return tag("ul", *(_bar(label, value, top, class_) for label, value in rows), class_="rows")


def plot_stacked_bars(
    rows: Sequence[tuple[str, Mapping[str, int]]],
    classes: Mapping[str, str],
    *,
    nouns: tuple[str, str] = ("record", "records"),
) -> Markup:
    """A bar of full width for each label, divided by kind; the legend has the kinds that occur."""
    lines = [
        labelled_row(label, formats.plural(sum(parts.values()), *nouns), _stacked_bar(label, parts, classes))
        for label, parts in rows
    ]
    entries = [(kind, class_) for kind, class_ in classes.items() if any(parts.get(kind) for _, parts in rows)]
    return join(tag("ul", *lines, class_="rows"), draw_legend(entries))


def labelled_row(label: str, value: str, plot: Markup) -> Markup:
    """One row of a plot: its label, its value as text, and its drawing."""
    head = tag("div", tag("span", label, class_="name"), tag("span", value, class_="value"), class_="label")
    return tag("li", head, plot)


def _latency_line(row: LatencyRow, scale: Scale) -> Markup:
    points = latency_points(row)
    description = ", ".join(f"{name} {formats.span(us)}" for name, us in points.items())
    first = scale.x(next(iter(points.values())))
    parts = [
        *scale.grid(ROW_HEIGHT),
        tag("line", class_="reach", x1=first, x2=scale.x(row.max_us), y1=MIDDLE, y2=MIDDLE),
        *(_point(name, us, scale.x(us)) for name, us in reversed(points.items())),
    ]
    if "p95" in points:
        usual = tag("line", class_="usual", x1=first, x2=scale.x(points["p95"]), y1=MIDDLE, y2=MIDDLE)
        parts.insert(len(scale.ticks) + 1, usual)
    return draw_svg(f"{row.api}: {description}", *parts, height=ROW_HEIGHT)


def latency_points(row: LatencyRow) -> dict[str, int]:
    """The marks of a latency: the percentiles for which there are enough requests, and the slowest."""
    percentiles = {name: us for name, us in row.shown_percentiles.items() if us is not None}
    return {**percentiles, SLOWEST: row.max_us}


def _point(name: str, us: int, x: str) -> Markup:
    title = tag("title", f"{name} {formats.span(us)}")
    if name == SLOWEST:
        return tag("line", title, class_="mark max", x1=x, x2=x, y1=MIDDLE - 7, y2=MIDDLE + 7)
    if name == "p99":
        # A nested drawing, since a path cannot be placed by percentages itself.
        return tag("svg", tag("path", title, class_="mark p99", d=DIAMOND), x=x, y=MIDDLE, overflow="visible")
    return tag("circle", title, class_=f"mark {name}", cx=x, cy=MIDDLE, r=5)


def draw_latency_legend(names: Collection[str]) -> Markup:
    """The legend of these marks of a latency."""
    marks = {
        "p50": ("half were faster (p50)", tag("circle", class_="p50", cx=7, cy=7, r=5)),
        "p95": ("p95", tag("circle", class_="p95", cx=7, cy=7, r=5)),
        "p99": ("p99", tag("path", class_="p99", d="M7 1.5L12.5 7L7 12.5L1.5 7Z")),
        SLOWEST: (SLOWEST, tag("line", class_="max", x1=7, x2=7, y1=0, y2=14)),
    }
    items = [
        tag("li", tag("svg", mark, width=14, height=14, aria_hidden="true"), tag("span", description))
        for name, (description, mark) in marks.items()
        if name in names
    ]
    return tag("ul", *items, class_="legend marks")


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
