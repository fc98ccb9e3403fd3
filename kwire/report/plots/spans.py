"""Plots of time spans, a row for each item: members of groups, connections, deliveries of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwire.report import formats
from kwire.report.markup import Markup, join, tag
from kwire.report.plots.bars import labelled_row
from kwire.report.plots.svg import draw_legend, draw_svg, percent
from kwire.report.plots.time_axis import TimeScale

BAR_ROW_HEIGHT = 14
BAR_HEIGHT = 10
# A bar narrower than this part of the plot is too small for its text.
TEXT_WIDTH_MIN_PERCENT = 4.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One span in a line: `kind` selects its colour, `row` its row within the line, `text` is written on it."""

    start_us: int
    end_us: int
    kind: str
    tooltip: str
    row: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the plot, with one or more rows of bars."""

    name: str
    value: str
    bars: Sequence[Bar]


def plot_spans(lines: Sequence[Line], classes: Mapping[str, str]) -> Markup:
    """A row of bars for each line on a common time scale; the legend has the kinds that occur."""
    scale = TimeScale.over(us for line in lines for bar in line.bars for us in (bar.start_us, bar.end_us))
    rows = [labelled_row(line.name, line.value, _draw_line(line, scale, classes)) for line in lines]
    kinds = {bar.kind for line in lines for bar in line.bars}
    swatches = draw_legend([(kind, class_) for kind, class_ in classes.items() if kind in kinds])
    return join(tag("ul", *rows, scale.axis(), class_="rows"), swatches)


def _draw_line(line: Line, scale: TimeScale, classes: Mapping[str, str]) -> Markup:
    row_count = max((bar.row for bar in line.bars), default=0) + 1
    height = row_count * BAR_ROW_HEIGHT + 4
    parts = scale.grid(height)
    for bar in line.bars:
        y = bar.row * BAR_ROW_HEIGHT + 4
        title = tag("title", f"{bar.tooltip}, {formats.span(max(bar.end_us - bar.start_us, 0))}")
        class_ = f"mark {classes[bar.kind]}"
        parts.append(scale.bar(bar.start_us, bar.end_us, title, y=y, height=BAR_HEIGHT, class_=class_))
        left, right = scale.position(bar.start_us), scale.position(bar.end_us)
        if bar.text and right - left >= TEXT_WIDTH_MIN_PERCENT:
            x = percent((left + right) / 2)
            parts.append(tag("text", bar.text, class_="word", x=x, y=y + BAR_HEIGHT - 1, text_anchor="middle"))
    return draw_svg(f"{line.name}: {line.value}", *parts, height=height)
