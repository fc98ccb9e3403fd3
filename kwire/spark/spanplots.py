"""Plots of spans of time, a row for each thing: members of groups, connections, lives of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kwire.spark import formats
from kwire.spark.markup import Markup, join, tag
from kwire.spark.rowplots import named_row
from kwire.spark.svg import drawing, legend, percent
from kwire.spark.timescale import TimeScale

LANE_HEIGHT = 14
BAR_HEIGHT = 10
# A bar narrower than this part of the plot has no room for its word.
WORD_PERCENT = 4.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One span in a row: `kind` gives its colour, `told` what a reader who points at it sees, `word` stands on it."""

    start_us: int
    end_us: int
    kind: str
    told: str
    lane: int = 0
    word: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the plot."""

    name: str
    value: str
    bars: Sequence[Bar]


def spans(lines: Sequence[Line], classes: Mapping[str, str]) -> Markup:
    """A row of bars for each line on one scale of time; the legend names the kinds that occur."""
    scale = TimeScale.over(us for line in lines for bar in line.bars for us in (bar.start_us, bar.end_us))
    rows = [named_row(line.name, line.value, _drawn(line, scale, classes)) for line in lines]
    seen = {bar.kind for line in lines for bar in line.bars}
    swatches = legend([(kind, class_) for kind, class_ in classes.items() if kind in seen])
    return join(tag("ul", *rows, scale.axis(), class_="rows"), swatches)


def _drawn(line: Line, scale: TimeScale, classes: Mapping[str, str]) -> Markup:
    lanes = max((bar.lane for bar in line.bars), default=0) + 1
    height = lanes * LANE_HEIGHT + 4
    parts = scale.grid(height)
    for bar in line.bars:
        y = bar.lane * LANE_HEIGHT + 4
        title = tag("title", f"{bar.told}, {formats.span(max(bar.end_us - bar.start_us, 0))}")
        class_ = f"mark {classes.get(bar.kind, 'c4')}"
        parts.append(scale.bar(bar.start_us, bar.end_us, title, y=y, height=BAR_HEIGHT, class_=class_))
        left, right = scale.place(bar.start_us), scale.place(bar.end_us)
        if bar.word and right - left >= WORD_PERCENT:
            x = percent((left + right) / 2)
            parts.append(tag("text", bar.word, class_="word", x=x, y=y + BAR_HEIGHT - 1, text_anchor="middle"))
    return drawing(f"{line.name}: {line.value}", *parts, height=height)
