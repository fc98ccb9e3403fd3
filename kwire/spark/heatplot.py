"""A heat map: a row for each thing, a cell for each span of time, the darker the more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwire.spark.markup import Markup, join, tag
from kwire.spark.model import Timeline
from kwire.spark.rowplots import named_row
from kwire.spark.svg import drawing, percent
from kwire.spark.timescale import TimeScale

CELL_HEIGHT = 14
# Steps of darkness: more cannot be told apart.
SHADES = 5


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row: values by span of time, and what is said of the whole."""

    name: str
    value: str
    cells: Mapping[int, int]


def heat(rows: Sequence[HeatRow], spans: Timeline, *, told: Callable[[int], str], class_: str) -> Markup:
    """The map, with a legend of its shades. Args: told: a value in words. spans: gives the spans of time."""
    top = max((value for row in rows for value in row.cells.values()), default=0) or 1
    scale = TimeScale(spans.start_us, spans.start_us + spans.bins * spans.step_us)
    lines = []
    for row in rows:
        cells = [
            tag(
                "rect",
                tag("title", told(value)),
                class_=f"mark {class_} shade{shade(value, top)}",
                x=percent(100 * index / spans.bins),
                y=2,
                width=percent(94 / spans.bins),
                height=CELL_HEIGHT,
            )
            for index, value in sorted(row.cells.items())
            if value and index < spans.bins
        ]
        track = tag("rect", class_="track", x="0", y=2, width="100%", height=CELL_HEIGHT)
        lines.append(named_row(row.name, row.value, drawing(f"{row.name}: {row.value}", track, *cells, height=18)))
    return join(tag("ul", *lines, scale.axis(), class_="rows"), _legend(top, told, class_))


def shade(value: int, top: int) -> int:
    """Which of the shades, 1 to `SHADES`, a value has; anything above nothing can be seen."""
    return max(1, -(-value * SHADES // top))


def _legend(top: int, told: Callable[[int], str], class_: str) -> Markup:
    steps = sorted({-(-top * index // SHADES) for index in range(1, SHADES + 1)})
    items = []
    for value in steps:
        mark = tag("rect", class_=f"{class_} shade{shade(value, top)}", width=10, height=10, rx=2)
        items.append(
            tag("li", tag("svg", mark, width=10, height=10, aria_hidden="true"), tag("span", f"up to {told(value)}"))
        )
    return tag("ul", *items, class_="legend")
