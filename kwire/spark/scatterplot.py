"""Points: one thing against another, on scales that may be logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kwire.spark.markup import Markup, join, tag
from kwire.spark.svg import anchor, drawing, legend, percent

TOP = 14
PLOT_HEIGHT = 200
HEIGHT = TOP + PLOT_HEIGHT + 24
PAD = 1.5
RADIUS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """One mark; `kind` gives its colour, `told` what a reader who points at it sees."""

    x: float
    y: float
    kind: str
    told: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Values between `low` and `high`, which stand for 0 and 1; equal ratios look equal where it is logarithmic."""

    low: float
    high: float
    is_log: bool
    ticks: Sequence[float]
    label: Callable[[float], str]

    def place(self, value: float) -> float:
        """Where a value stands, 0 to 1; one outside stands at the edge."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def decades(values: Sequence[float], label: Callable[[float], str], *, low_min: float, holds: float) -> Scale:
    """A logarithmic scale by powers of ten that holds the values and `holds`; what is below `low_min` stands there."""
    low = math.floor(math.log10(max(low_min, min([*values, holds]))))
    high = max(low + 1, math.ceil(math.log10(max([*values, holds, low_min]))))
    ticks = [10.0**power for power in range(low, high + 1)]
    while len(ticks) > 6:
        ticks = ticks[::2]
    return Scale(10.0**low, 10.0**high, True, ticks, label)


def scatter(
    points: Sequence[Point],
    x: Scale,
    y: Scale,
    *,
    title: str,
    classes: Mapping[str, str],
    line: tuple[float, str] | None,
) -> Markup:
    """The points, over a grid. Args: line: a value of y that matters, and its name."""
    height = {tick: TOP + PLOT_HEIGHT * (1 - y.place(tick)) for tick in y.ticks}
    parts = [tag("line", class_="grid", x1="0", x2="100%", y1=at, y2=at) for at in height.values()]
    if line is not None:
        at = TOP + PLOT_HEIGHT * (1 - y.place(line[0]))
        parts.append(tag("line", class_="limit", x1="0", x2="100%", y1=at, y2=at))
        parts.append(tag("text", line[1], class_="limit-name", x="2", y=at - 6))
    for point in points:
        across = percent(PAD + (100 - 2 * PAD) * x.place(point.x))
        up = TOP + PLOT_HEIGHT * (1 - y.place(point.y))
        class_ = f"mark point {classes[point.kind]}"
        parts.append(tag("circle", tag("title", point.told), class_=class_, cx=across, cy=up, r=RADIUS))
    for index, tick in enumerate(x.ticks):
        across = percent(PAD + (100 - 2 * PAD) * x.place(tick))
        parts.append(tag("text", x.label(tick), x=across, y=HEIGHT - 8, text_anchor=anchor(index, len(x.ticks))))
    labels = [tag("text", y.label(tick), x="100%", y=at + 4, text_anchor="end") for tick, at in height.items()]
    scale = tag("svg", *labels, width="100%", height=HEIGHT, aria_hidden="true")
    seen = {point.kind for point in points}
    swatches = legend([(kind, class_) for kind, class_ in classes.items() if kind in seen])
    return join(tag("div", scale, drawing(title, *parts, height=HEIGHT), class_="scaled broad"), swatches)
