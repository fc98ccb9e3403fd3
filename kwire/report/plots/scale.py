"""Scales of plots, linear or logarithmic, that map values to positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kwire.report import formats
from kwire.report.markup import Markup, tag
from kwire.report.plots.svg import percent, tick_anchor

# Space at both ends of the x axis, percent, so that the marks there are not cut.
PAD = 1.5


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from `low` to `high`, linear or logarithmic."""

    low: float
    high: float
    is_log: bool
    ticks: Sequence[float]
    label: Callable[[float], str]

    def position(self, value: float) -> float:
        """The position of a value, 0 to 1; values outside the scale are at its edge."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def x(self, value: float) -> str:
        """The position of a value along the x axis."""
        return percent(PAD + (100 - 2 * PAD) * self.position(value))

    def x_labels(self, y: float) -> list[Markup]:
        """The labels of the ticks along the x axis."""
        return [
            tag("text", self.label(tick), x=self.x(tick), y=y, text_anchor=tick_anchor(index, len(self.ticks)))
            for index, tick in enumerate(self.ticks)
        ]

    def x_axis(self) -> Markup:
        """The labels of the ticks as a drawing of their own."""
        return tag("svg", *self.x_labels(12), width="100%", height=16, aria_hidden="true")

    def grid(self, height: float, *, top: float = 0) -> list[Markup]:
        """Vertical lines at the ticks, from `top` to `height`."""
        return [tag("line", class_="grid", x1=x, x2=x, y1=top, y2=height) for x in map(self.x, self.ticks)]


def log_scale(
    values: Sequence[float], label: Callable[[float], str], *, low_min: float = 1, ticks_max: int = 6
) -> Scale:
    """A logarithmic scale of powers of ten that covers the values; values below `low_min` are at its edge."""
    low = math.floor(math.log10(max(low_min, min(values))))
    high = max(low + 1, math.ceil(math.log10(max([*values, low_min]))))
    ticks = [10.0**power for power in range(low, high + 1)]
    while len(ticks) > ticks_max:
        ticks = ticks[::2]
    return Scale(10.0**low, 10.0**high, True, ticks, label)


def latency_scale(times_us: Sequence[int]) -> Scale:
    """A logarithmic scale of durations with a tick at each power of ten."""
    return log_scale(times_us, lambda us: formats.span(int(us)), ticks_max=100)
