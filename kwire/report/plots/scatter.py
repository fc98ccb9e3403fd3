"""Scatter plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kwire.report.markup import Markup, join, tag
from kwire.report.plots.scale import Scale
from kwire.report.plots.svg import draw_legend, draw_svg

# Space for the name of a line above the highest tick.
TOP = 20
PLOT_HEIGHT = 200
HEIGHT = TOP + PLOT_HEIGHT + 24
RADIUS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One mark; `kind` selects its colour."""

    x: float
    y: float
    kind: str
    tooltip: str


class HorizontalScale(Protocol):
    """The x axis: positions of values, labels of ticks, and lines at them."""

    def x(self, value: float, /) -> str:
        """The position of a value along the axis."""

    def x_labels(self, y: float, /) -> list[Markup]:
        """The labels of the ticks, at this height."""

    def grid(self, height: float, /, *, top: float) -> list[Markup]:
        """Vertical lines at the ticks, from `top` to `height`."""


def plot_scatter(
    points: Sequence[Point],
    x: HorizontalScale,
    y: Scale,
    *,
    title: str,
    classes: Mapping[str, str],
    line: tuple[float, str] | None,
) -> Markup:
    """The points, over a grid. Args: line: the y value of a horizontal line, and its name."""
    height = {tick: TOP + PLOT_HEIGHT * (1 - y.position(tick)) for tick in y.ticks}
    parts = [tag("line", class_="grid", x1="0", x2="100%", y1=line_y, y2=line_y) for line_y in height.values()]
    parts += x.grid(TOP + PLOT_HEIGHT, top=TOP)
    if line is not None:
        line_y = TOP + PLOT_HEIGHT * (1 - y.position(line[0]))
        parts.append(tag("line", class_="limit", x1="0", x2="100%", y1=line_y, y2=line_y))
        parts.append(tag("text", line[1], class_="limit-name", x="2", y=line_y - 6))
    for point in points:
        cy = TOP + PLOT_HEIGHT * (1 - y.position(point.y))
        class_ = f"mark point {classes[point.kind]}"
        parts.append(tag("circle", tag("title", point.tooltip), class_=class_, cx=x.x(point.x), cy=cy, r=RADIUS))
    parts += x.x_labels(HEIGHT - 8)
    labels = [tag("text", y.label(tick), x="100%", y=line_y + 4, text_anchor="end") for tick, line_y in height.items()]
    scale = tag("svg", *labels, width="100%", height=HEIGHT, aria_hidden="true")
    kinds = {point.kind for point in points}
    swatches = draw_legend([(kind, class_) for kind, class_ in classes.items() if kind in kinds])
    return join(tag("div", scale, draw_svg(title, *parts, height=HEIGHT), class_="scaled broad"), swatches)
