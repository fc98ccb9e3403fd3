"""A heat map: a row for each item, a cell for each time bin, darker for higher values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwire.report.markup import Markup, join, tag
from kwire.report.model import Timeline
from kwire.report.plots.bars import labelled_row
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.plots.time_axis import TimeScale

CELL_HEIGHT = 14
# Number of shades: more could not be distinguished.
SHADES = 5


@dataclass(frozen=True, slots=True)
class HeatRow:
    """One row: values by time bin, and a summary of them as text."""

    name: str
    value: str
    cells: Mapping[int, int]


def plot_heat_map(
    rows: Sequence[HeatRow], spans: Timeline, *, format_value: Callable[[int], str], class_: str
) -> Markup:
    """The map, with a legend of its shades. Args: format_value: a value as text. spans: gives the time bins."""
    top = max((value for row in rows for value in row.cells.values()), default=0) or 1
    scale = TimeScale(spans.start_us, spans.start_us + spans.bins * spans.step_us)
    lines = []
    for row in rows:
        parts = [tag("rect", class_="track", x="0", y=2, width="100%", height=CELL_HEIGHT)]
        for index, value in sorted(row.cells.items()):
            if value and index < spans.bins:
                title, cell_class = tag("title", format_value(value)), f"mark {class_} shade{shade_number(value, top)}"
                x, width = percent(100 * index / spans.bins), percent(94 / spans.bins)
                parts.append(tag("rect", title, class_=cell_class, x=x, y=2, width=width, height=CELL_HEIGHT))
        lines.append(labelled_row(row.name, row.value, draw_svg(f"{row.name}: {row.value}", *parts, height=18)))
    return join(tag("ul", *lines, scale.axis(), class_="rows"), _legend(top, format_value, class_))


def shade_number(value: int, top: int) -> int:
    """The number of the shade, 1 to `SHADES`, of a value above 0."""
    return max(1, -(-value * SHADES // top))


def _legend(top: int, format_value: Callable[[int], str], class_: str) -> Markup:
    values = sorted({-(-top * index // SHADES) for index in range(1, SHADES + 1)})
    classes = [f"{class_} shade{shade_number(value, top)}" for value in values]
    return draw_legend([(f"up to {format_value(value)}", shade) for value, shade in zip(values, classes, strict=True)])
